"""Which rule of onFailure decides after an ended pod, and what it asks of the next one."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.accounts.pods import disrupted, failed, job
from webhook.kube import names
from webhook.objects.times import time_of
from webhook.pods import on_failure
from webhook.pods.on_failure import FailureState
from webhook.pods.outcomes import outcome_of
from webhook.pods.pods import LONGEST_AFTER, Condition, Exit, Pod
from webhook.policy import costs, criteria
from webhook.policy.model import Delay, Duration, FailureRule, Match, MemoryGrowth, Next

GROW = FailureRule(match=Match(cause="OOMKilled"), next=Next(memory=MemoryGrowth(limit="64Gi")))
BUSY = FailureRule(
    match=Match(exit_codes=(75,)), next=Next(cost="Free", delay=Delay(initial=Duration(30), limit=Duration(100)))
)
OTHER_NODE = FailureRule(match=Match(message="*NCCL*", containers=("main",)), next=Next(avoid="Node"))
OTHER_ZONE = FailureRule(match=Match(cause="Disruption"), next=Next(avoid="Zone"))


def killed(number: int = 1, container: str = "main", **fields: Any) -> Pod:
    """Return a pod of which a container was killed for its memory."""
    return failed(number, 137, container=container, exit_reason="OOMKilled", **fields)


def saying(message: str, container: str = "main") -> Pod:
    """Return a failed pod with a termination message."""
    return failed(exits=(Exit(container, 1, "Error", "2026-01-01T00:01:00Z", message),))


def after(*pods: Pod, rules: tuple[FailureRule, ...]) -> FailureState:
    """Return the state after ended pods of one scope."""
    return on_failure.state_after(pods, job(), None, rules)


def next_pod(state: FailureState, pod: Pod) -> Pod:
    """Return a pod as it ends that admission has created with a state."""
    return replace(pod, after=on_failure.written(state))


def test_no_ended_pod_asks_for_nothing() -> None:
    assert after(rules=(GROW,)) == on_failure.NONE


def test_the_first_rule_that_matches_decides() -> None:
    later = FailureRule(match=Match(cause="OOMKilled"), next=Next(cost="Fatal"))
    assert after(killed(), rules=(BUSY, GROW, later)).rule == 1


def test_a_container_that_was_killed_again_and_again_has_each_kill_counted() -> None:
    first = after(killed(1), rules=(GROW,))
    second = after(next_pod(first, killed(2)), rules=(GROW,))
    assert (first.kills, second.kills) == ({"main": 1}, {"main": 2})


def test_kills_are_remembered_over_an_attempt_that_ended_for_another_reason() -> None:
    first = after(killed(1), rules=(GROW,))
    second = after(next_pod(first, disrupted(2)), rules=(GROW,))
    assert (second.rule, second.kills) == (None, {"main": 1})


def test_only_the_container_that_was_killed_counts() -> None:
    both = failed(
        exits=(Exit("main", 1, "Error", "2026-01-01T00:00:01Z"), Exit("side", 137, "OOMKilled", "2026-01-01T00:00:02Z"))
    )
    assert after(both, rules=(GROW,)).kills == {"side": 1}


def test_any_pod_of_a_job_without_indexes_gets_the_memory_that_another_needed() -> None:
    first = after(killed(1), rules=(GROW,))
    again = next_pod(first, killed(2))
    assert after(again, failed(3), rules=(GROW,)).kills == {"main": 2}


def test_a_delay_grows_up_to_its_limit_and_begins_at_the_end_of_the_attempt() -> None:
    ends, state = [], on_failure.NONE
    for number in (1, 2, 3):
        state = after(next_pod(state, failed(number, 75)), rules=(BUSY,))
        ends.append(state.not_before)
    assert ends == ["2026-01-01T00:01:30Z", "2026-01-01T00:03:00Z", "2026-01-01T00:04:40Z"]


def test_a_delay_begins_anew_after_another_end() -> None:
    state = after(failed(1, 75), rules=(BUSY,))
    state = after(next_pod(state, failed(2, 1)), rules=(BUSY,))
    assert after(next_pod(state, failed(3, 75)), rules=(BUSY,)).delays == 1


def test_nodes_to_avoid_are_the_last_five_newest_first() -> None:
    rule = FailureRule(match=Match(exit_codes=(1,)), next=Next(avoid="Node"))
    state = on_failure.NONE
    for number in range(7):
        state = after(next_pod(state, failed(number, 1, node=f"n{number}")), rules=(rule,))
    assert state.avoid_nodes == ("n6", "n5", "n4", "n3", "n2")


def test_a_zone_is_avoided_if_the_pod_says_in_which_it_ran() -> None:
    assert after(disrupted(zone="a"), rules=(OTHER_ZONE,)).avoid_zones == ("a",)
    assert after(disrupted(), rules=(OTHER_ZONE,)).avoid_zones == ()


def test_the_same_node_must_have_failed_as_often_as_the_rule_says() -> None:
    rule = FailureRule(match=Match(same_node=2), next=Next(avoid="Node"))
    first = after(failed(1, node="bad"), rules=(rule,))
    second = after(next_pod(first, failed(2, node="good")), rules=(rule,))
    third = after(next_pod(second, failed(3, node="bad")), rules=(rule,))
    assert [one.rule for one in (first, second, third)] == [None, None, 0]


def test_failures_count_those_that_no_rule_above_decides_about() -> None:
    explained = FailureRule(match=Match(exit_codes=(75,)), next=Next(cost="Retry"))
    rules = (explained, FailureRule(match=Match(cause="ExitCode", failures=2), next=Next(cost="Fatal")))
    state, decided = on_failure.NONE, []
    for pod in (failed(1, 1), failed(2, 75), disrupted(3), failed(4, 1)):
        state = after(next_pod(state, pod), rules=rules)
        decided.append(state.rule)
    assert decided == [None, 0, None, 1]
    assert on_failure.read(on_failure.written(state)) == state


def test_a_stalled_attempt_is_no_failure_that_nothing_explains() -> None:
    rules = costs.confirming((143,))
    mark = (Condition(names.STALLED, "True", "", ""),)
    state = after(failed(1, 137, conditions=mark), rules=rules)
    assert (state.cause, state.decided) == ("Stalled", ())
    assert after(failed(2, 1, after=on_failure.written(state)), rules=rules).rule == len(rules) - 1


def test_what_decided_is_remembered_only_if_a_rule_asks_how_often() -> None:
    assert after(failed(1, 1), rules=(OTHER_NODE,)).decided == ()


@pytest.mark.parametrize(
    ("pod", "decides"),
    [
        (saying("ncclSystemError: NCCL WARN\n"), True),
        (saying("out of luck"), False),
        (saying("NCCL", container="side"), False),
    ],
)
def test_a_message_counts_in_the_containers_that_the_rule_names(pod: Pod, decides: bool) -> None:  # noqa: FBT001
    assert (after(pod, rules=(OTHER_NODE,)).rule == 0) is decides


def test_a_reason_is_that_of_the_disruption_the_pod_or_a_container() -> None:
    rule = FailureRule(match=Match(reasons=("EvictionByEvictionAPI", "StartError")), next=Next(avoid="Node"))
    assert after(disrupted(), rules=(rule,)).rule == 0
    assert after(failed(exit_reason="StartError"), rules=(rule,)).rule == 0
    assert after(failed(), rules=(rule,)).rule is None


def test_a_pod_that_its_suspended_job_deleted_hands_its_state_on() -> None:
    state = after(killed(1), rules=(GROW,))
    stopped = next_pod(state, failed(2, 143, deleting=True, deleted="2026-01-01T00:02:00Z", tracked=False))
    assert outcome_of(stopped, job()).reason == "Stopped"
    assert after(stopped, rules=(GROW,)) == FailureState(kills={"main": 1}, nodes=("spot-1",))


@pytest.mark.parametrize(
    ("pattern", "text", "like"),
    [
        ("*NCCL*", "a NCCL b", True),
        ("*NCCL*", "nccl", False),
        ("a*b*c", "a--b--c", True),
        ("a*b*c", "a--c--b", False),
        ("ab*ba", "aba", False),
        ("exact", "exact", True),
        ("exact", "exactly", False),
        ("*", "", True),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, text: str, like: bool) -> None:  # noqa: FBT001
    assert criteria.is_like(text, pattern) is like


def test_a_written_state_is_read_back() -> None:
    state = FailureState(
        rule=3, cause="OOMKilled", reason="main", kills={"main": 2}, nodes=("a", "a"), avoid_nodes=("a",)
    )
    assert on_failure.read(on_failure.written(state)) == state


def test_the_annotation_stays_short_by_leaving_out_the_oldest_nodes() -> None:
    nodes = tuple(f"{number}{'n' * 250}" for number in range(5))
    written = on_failure.written(FailureState(rule=1, nodes=nodes, avoid_nodes=nodes, kills={"main": 1}))
    assert len(written) <= LONGEST_AFTER
    assert on_failure.read(written).kills == {"main": 1}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"rule": "x"}', '{"kills": {"a": "b"}}', "x" * (LONGEST_AFTER + 1)),
        '{"x":' + "[" * 1000,  # deeper than any decoder goes, in a field that no State has
        '{"kills":{"main":1000000000}}',  # the next pod would compute with this exponent
        '{"kills":{"main":-1}}',
        '{"rule":9223372036854775808}',
        '{"delays":1e400}',
        f'{{"nodes":{["a"] * 6}}}'.replace("'", '"'),
    ],
)
def test_a_malformed_annotation_counts_as_absent(text: str) -> None:
    assert on_failure.read(text) == on_failure.NONE


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "soon"])
def test_a_delay_without_an_end_that_is_a_time_is_none(time: str) -> None:
    assert on_failure.read(f'{{"rule":1,"delays":2,"notBefore":"{time}"}}') == FailureState(rule=1, delays=2)


SCALARS = st.none() | st.integers() | st.floats() | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
FIELDS = st.sampled_from(["rule", "cause", "nodes", "avoidNodes", "kills", "delays", "notBefore", "onDemand", "x"])


@given(st.text() | st.dictionaries(FIELDS, JSON).map(lambda said: msgspec.json.encode(said).decode()))
def test_any_annotation_is_a_state_within_its_bounds_and_can_be_written_again(text: str) -> None:
    found = on_failure.read(text)
    assert all(0 <= times <= on_failure.MOST_KILLS for times in found.kills.values())
    assert len(found.kills) <= on_failure.MOST_CONTAINERS
    assert len(on_failure.written(found)) <= LONGEST_AFTER
    assert time_of(found.not_before) is not None or not found.not_before
