"""How long a waiting pod may wait, and what follows then."""

from datetime import datetime
from typing import Any

import pytest

from tests.unit.accounts.pods import failed, running_pod
from webhook.controller import deadlines
from webhook.controller.deadlines import Due
from webhook.pods import on_failure
from webhook.pods.on_failure import FailureState
from webhook.pods.pods import Pod
from webhook.pods.waiting import Stalled, Waiting
from webhook.policy.model import Delay, Duration, FailureRule, Match, Next, Placement, Profile
from webhook.policy.settings import Settings

CREATED = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:05:00Z"
BUSY = FailureRule(match=Match(exit_codes=(75,)), next=Next(delay=Delay(initial=Duration(60), limit=Duration(600))))
NEVER = Match(cause="NeverStarted")
OTHER_NODE = FailureRule(match=NEVER, next=Next(avoid="Node"))
FATAL = FailureRule(match=NEVER, next=Next(cost="Fatal"))


def settings(
    *rules: FailureRule, spot_wait: int | None = None, start: int | None = None, unreachable: int | None = None
) -> Settings:
    placement = Placement(spot_wait=None if spot_wait is None else Duration(spot_wait))
    start_timeout, unreachable_timeout = (None if one is None else Duration(one) for one in (start, unreachable))
    profile = Profile(
        on_failure=rules, placement=placement, start_timeout=start_timeout, unreachable_timeout=unreachable_timeout
    )
    return Settings(profile_name="default", profile=profile)


def pod(waiting: Waiting, state: FailureState = on_failure.NONE, **fields: Any) -> Pod:
    return running_pod(phase="Pending", waiting=waiting, after=on_failure.written(state), **fields)


def gated(**fields: Any) -> Pod:
    return pod(Waiting(CREATED, gate=0, gated=True), FailureState(rule=0, **fields))


def stuck(reason: str = "ImagePullBackOff", *, alone: bool = True, since: str = CREATED) -> Stalled:
    return Stalled("main", reason, "Back-off pulling image", since, alone)


def time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_delay_ends_when_the_annotation_says() -> None:
    assert deadlines.due(gated(not_before=LATER), settings(BUSY)) == Due("lift", time(LATER))


def test_a_delay_never_lasts_longer_than_its_rule_allows() -> None:
    forged = gated(not_before="2036-01-01T00:00:00Z")
    assert deadlines.due(forged, settings(BUSY)) == Due("lift", time(CREATED) + 600)


def test_a_pod_that_should_have_ended_may_stay_for_so_long_on_an_unreachable_node() -> None:
    stays = pod(Waiting(CREATED, deadline=LATER))
    assert deadlines.due(stays, settings(unreachable=90)) == Due("leave_node", time(LATER) + 90)
    assert deadlines.due(stays, settings(start=1, spot_wait=1)) is None


@pytest.mark.parametrize("rules", [(), (OTHER_NODE,)])
def test_a_delay_ends_at_once_if_the_policy_has_lost_its_rule(rules: tuple[FailureRule, ...]) -> None:
    assert deadlines.due(gated(not_before=LATER), settings(*rules)) == Due("lift", 0.0)


def test_a_gate_of_ours_in_the_template_of_an_author_is_removed_at_once() -> None:
    assert deadlines.due(pod(Waiting(CREATED, gate=0, gated=True)), settings(BUSY)) == Due("lift", 0.0)


def test_the_gate_of_another_is_none_of_our_business() -> None:
    assert deadlines.due(pod(Waiting(CREATED, gated=True)), settings(BUSY, spot_wait=60, start=60)) is None


def test_a_pod_may_wait_for_a_spot_node_for_so_long() -> None:
    waits = pod(Waiting(CREATED, unschedulable=LATER))
    assert deadlines.due(waits, settings(spot_wait=600)) == Due("leave_spot", time(LATER) + 600)
    assert deadlines.due(waits, settings()) is None


def test_with_a_deadline_a_pod_waits_for_a_spot_node_until_its_last_safe_moment() -> None:
    waits = pod(Waiting(CREATED, unschedulable=LATER))
    assert deadlines.due(waits, settings(spot_wait=60), turns_at=12.0) == Due("leave_spot", 12.0)


def test_only_a_pod_that_was_placed_on_spot_leaves_it() -> None:
    waits = pod(Waiting(CREATED, unschedulable=LATER), placement="OnDemand")
    assert deadlines.due(waits, settings(spot_wait=600)) is None


def test_the_wait_for_a_spot_node_begins_after_the_delay() -> None:
    waits = pod(Waiting(CREATED, unschedulable=CREATED), FailureState(rule=0, not_before=LATER))
    assert deadlines.due(waits, settings(BUSY, spot_wait=60)) == Due("leave_spot", time(LATER) + 60)


def test_the_wait_for_a_spot_node_begins_after_the_gate_of_another() -> None:
    waits = pod(Waiting(CREATED, unschedulable=CREATED))
    assert deadlines.due(waits, settings(spot_wait=60), released=time(LATER)) == Due("leave_spot", time(LATER) + 60)


def test_a_container_may_take_so_long_to_start() -> None:
    waits = pod(Waiting(CREATED, stalled=stuck(since=LATER)))
    assert deadlines.due(waits, settings(start=900)) == Due("give_up", time(LATER) + 900)
    assert deadlines.due(waits, settings()) is None


def test_a_container_that_can_never_start_is_given_up_at_once() -> None:
    waits = pod(Waiting(CREATED, stalled=stuck("InvalidImageName", since=LATER)))
    assert deadlines.due(waits, settings(start=900)) == Due("give_up", 0.0)


def test_a_rule_about_pods_that_never_started_is_enough_to_give_up_what_can_never_start() -> None:
    hopeless, pulling = (
        pod(Waiting(CREATED, stalled=stuck(reason))) for reason in ("InvalidImageName", "ErrImagePull")
    )
    assert deadlines.due(hopeless, settings(FATAL)) == Due("give_up", 0.0)
    assert deadlines.due(hopeless, settings(BUSY)) is None
    assert deadlines.due(pulling, settings(FATAL)) is None


def test_a_pod_that_runs_waits_for_nothing() -> None:
    assert deadlines.due(running_pod(), settings(BUSY, spot_wait=1, start=1)) is None


@pytest.mark.parametrize(
    ("rules", "again"),
    [
        ((), False),
        ((FATAL,), False),
        ((OTHER_NODE,), True),
        ((FATAL, OTHER_NODE), False),
        ((FailureRule(match=Match(reasons=("ImagePullBackOff",)), next=Next(avoid="Node")),), True),
        ((FailureRule(match=Match(reasons=("ErrImagePull",)), next=Next(avoid="Node")),), False),
        ((FailureRule(match=Match(cause="Disruption"), next=Next(avoid="Zone")),), False),
    ],
)
def test_the_first_rule_that_matches_says_whether_there_is_another_attempt(
    rules: tuple[FailureRule, ...],
    again: bool,  # noqa: FBT001
) -> None:
    assert deadlines.may_try_again(pod(Waiting(CREATED)), stuck(), settings(*rules)) is again


def test_a_rule_may_ask_how_often_the_node_has_failed() -> None:
    rule = FailureRule(match=Match(same_node=2), next=Next(cost="Fatal"))
    again = FailureRule(match=NEVER, next=Next(avoid="Node"))
    before = on_failure.state_after([failed(1, 75, node="spot-1")], None, None, (BUSY,))
    assert not deadlines.may_try_again(pod(Waiting(CREATED), before), stuck(), settings(rule, again))
    assert deadlines.may_try_again(pod(Waiting(CREATED), before, node="spot-2"), stuck(), settings(rule, again))


def test_a_pod_of_which_a_container_runs_is_not_tried_again_beside_it() -> None:
    assert not deadlines.may_try_again(pod(Waiting(CREATED)), stuck(alone=False), settings(OTHER_NODE))


def test_the_message_has_the_reason_of_the_kubelet() -> None:
    waits = pod(Waiting(CREATED))
    assert deadlines.words_about(waits, stuck(), settings(start=900)) == (
        "Container main for pod ml/train-1 has not started in 900 s: ImagePullBackOff: Back-off pulling image"
    )
    hopeless = Stalled("main", "InvalidImageName", "", CREATED, alone=True)
    assert deadlines.words_about(waits, hopeless, settings()) == (
        "Container main for pod ml/train-1 can never start: InvalidImageName"
    )
