"""Where pods of a Job with a deadline run: the rule, and on markets that are drawn."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.admission import OPTED_IN, mutate, policy
from tests.bench.spot.replay import START, Case, Trace, at_best, at_best_unmoved, replay, settings_of
from tests.objects import job_spec, pod, stored_job
from tests.unit.accounts.pods import disrupted, job_set
from webhook.accounts.account import Account
from webhook.accounts.scopes import Scopes
from webhook.accounts.stored import decode, encode
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.objects.times import written
from webhook.policy.deadline import Deadline, Slack
from webhook.policy.model import Deadlines, Duration, Placement, Profile
from webhook.policy.settings import NamedProfile
from webhook.rules.pods import on_time
from webhook.rules.pods.on_time import SavedWork

HOUR = 3600
CREATED = 1_800_000_000
SAID = {names.WORK: "12h", names.DEADLINE: "18h", names.CHECKPOINT: "30m"}
# Twelve hours of work, half an hour that a disruption costs, twice the ten minutes of a start, ten seconds of back-off,
# half a minute of grace.
TURNS_AFTER = 18 * HOUR - 12 * HOUR - 1800 - 1200 - 40


SETTINGS = NamedProfile("default", Profile()).settings(SAID)
DEADLINE = Deadline(12 * HOUR, 1800, None, 18 * HOUR, None, 10, 600)
PER_INDEX = {"backoffLimitPerIndex": 3}
IGNORES_A_CODE = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}


def owner(spec: Json | None = None, said: Json | None = None, **status: Any) -> Json:
    created = {"creationTimestamp": written(CREATED), "annotations": SAID if said is None else said}
    root = stored_job(spec or job_spec(), status or None)
    return {**root, "metadata": {**root["metadata"], **created}}


def placed(after: float, *, job: Json | None = None, profile: Profile | None = None, **facts: Any) -> Json:
    """Return a pod that is admitted so many seconds after its Job was created."""
    known = replace(OPTED_IN, owner=job or owner(), owners_known=True, now=CREATED + after, **facts)
    profile = profile or Profile(placement=Placement(provider="gke"))
    found: Json = mutate(pod(), known, policy(default=profile)).object
    return found


def where(root: Json) -> tuple[str, bool]:
    """Return where a pod is placed, and whether it must be there."""
    required = (root["spec"].get("affinity") or {}).get("nodeAffinity", {})
    return root["metadata"]["annotations"][
        names.PLACEMENT
    ], "requiredDuringSchedulingIgnoredDuringExecution" in required


def test_a_pod_must_run_on_spot_until_the_last_safe_moment_and_on_demand_after_it() -> None:
    assert where(placed(0)) == ("Spot", True)
    assert where(placed(TURNS_AFTER)) == ("Spot", True)
    assert where(placed(TURNS_AFTER + 1)) == ("OnDemand", True)


def test_without_a_deadline_spot_is_preferred() -> None:
    assert where(placed(TURNS_AFTER + 1, job=owner(said={names.WORK: "12h"}))) == ("Spot", False)


def test_saved_work_moves_the_last_safe_moment() -> None:
    assert where(placed(TURNS_AFTER + HOUR, saved_work=SavedWork(HOUR))) == ("Spot", True)
    assert where(placed(TURNS_AFTER + HOUR + 1, saved_work=SavedWork(HOUR))) == ("OnDemand", True)


def test_the_number_of_disruptions_does_not_matter_unless_the_author_names_a_limit() -> None:
    assert where(placed(0, disruptions=7)) == ("Spot", True)
    assert where(placed(0, disruptions=1, job=owner(said={**SAID, names.MAX_DISRUPTIONS: "1"}))) == ("OnDemand", True)


def test_the_last_retry_runs_on_demand() -> None:
    assert where(placed(0, job=owner(job_spec(backoffLimit=1), failed=1))) == ("OnDemand", True)


def test_nobody_waits_for_spot_where_no_leader_ends_that() -> None:
    assert where(placed(0, ledger=False)) == ("Spot", False)
    reports = Profile(placement=Placement(provider="gke"), actions="Report")
    assert where(placed(0, profile=reports)) == ("Spot", False)


def test_after_a_pod_that_no_spot_node_took_the_next_one_runs_on_demand() -> None:
    """The clocks of the leader, which ended it, and of the webhook may differ."""
    assert where(placed(TURNS_AFTER - 1, spot_unavailable=True)) == ("OnDemand", True)


def test_a_pod_of_a_group_waits_only_if_the_policy_says_so() -> None:
    grouped = mutate(
        pod(labels={"scheduling.x-k8s.io/pod-group": "gang"}),
        replace(OPTED_IN, owner=owner(), owners_known=True, now=CREATED),
        policy(default=Profile(placement=Placement(provider="gke"))),
    ).object
    assert where(grouped) == ("Spot", False)


def test_the_time_of_a_job_set_counts_from_its_own_creation() -> None:
    """Each restart creates its Jobs anew."""
    above = job_set()
    above["metadata"]["creationTimestamp"] = written(CREATED)
    late = owner()
    late["metadata"]["creationTimestamp"] = written(CREATED + 17 * HOUR)
    late["metadata"]["ownerReferences"] = [{"apiVersion": "x/v1", "kind": "JobSet", "name": "set", "controller": True}]
    slack = on_time.slack_of(late, above, SETTINGS, SavedWork(), CREATED)
    assert slack is not None
    assert slack.due == CREATED + 18 * HOUR
    assert on_time.slack_of(late, None, SETTINGS, SavedWork(), CREATED) is None


def slack(root: Json, saved: int = 0, ended: int = 0, **said: str) -> Slack:
    settings = NamedProfile("default", Profile()).settings(
        {**SAID, **{names.PREFIX + key: one for key, one in said.items()}}
    )
    found = on_time.slack_of(root, None, settings, SavedWork(saved, ended), CREATED)
    assert found is not None
    return found


def test_a_job_of_rounds_has_the_work_of_those_that_are_left_and_a_start_for_each() -> None:
    """Four rounds, each of a start and of twelve hours; five indexes of eight have finished: two rounds are left."""
    spec = job_spec(completions=8, parallelism=2, completionMode="Indexed")
    found = slack(owner(spec, succeeded=5), HOUR, deadline="2x")
    alone = 12 * HOUR + 600
    assert (found.due - CREATED, found.work, found.loss) == (2 * 4 * alone + 90, alone + 11 * HOUR, 1800)


def test_a_job_of_less_pods_at_once_has_as_much_work_in_each_of_them() -> None:
    some = owner(job_spec(completions=8, parallelism=1, completionMode="Indexed"), succeeded=7)
    assert slack(some).work == slack(owner(job_spec(completions=8, parallelism=8))).work == 12 * HOUR


@pytest.mark.parametrize(
    ("ended", "fields", "failed", "wait"),
    [
        pytest.param(0, {}, 0, 10, id="first"),
        pytest.param(3, {}, 0, 80, id="doubled for each pod that has ended"),
        pytest.param(30, {}, 0, 600, id="at most ten minutes"),
        pytest.param(30, PER_INDEX, 0, 10, id="disruptions of an index do not count"),
        pytest.param(30, PER_INDEX, 2, 40, id="its retries count"),
        pytest.param(
            30, {**PER_INDEX, "podFailurePolicy": {"rules": [IGNORES_A_CODE]}}, 0, 600, id="admission helps not"
        ),
    ],
)
def test_the_pod_after_a_disruption_comes_after_the_back_off(ended: int, fields: Json, failed: int, wait: int) -> None:
    spec = {**job_spec(completionMode="Indexed", completions=1), **fields}
    assert slack(owner(spec, failed=failed), ended=ended).replaced == wait + 30


def test_a_job_that_the_api_ends_earlier_is_to_be_done_by_then() -> None:
    root = owner({**job_spec(), "activeDeadlineSeconds": 13 * HOUR}, startTime=written(CREATED + HOUR))
    assert slack(root).due == CREATED + 14 * HOUR


def test_what_the_pods_say_of_a_deadline_counts_only_if_the_job_says_it() -> None:
    """The leader reads the Job alone."""
    without = owner(said={})
    said = mutate(
        pod(annotations=SAID),
        replace(OPTED_IN, owner=without, owners_known=True, now=CREATED),
        policy(default=Profile(placement=Placement(provider="gke"))),
    ).object
    assert where(said) == ("Spot", False)


@pytest.mark.parametrize(
    ("saved", "ran", "progress", "after"),
    [
        pytest.param(0, 5400, None, 3600, id="all but what a disruption costs"),
        pytest.param(0, 900, None, 0, id="never less than nothing"),
        pytest.param(3600, 900, None, 3600, id="nothing is lost that was saved"),
        pytest.param(3600, 5400, None, 7200, id="attempts add up"),
        pytest.param(0, 5400, 0.5, 6 * HOUR, id="what the pod says counts"),
        pytest.param(7200, 5400, 0.1, 7200, id="a pod cannot take back what is saved"),
        pytest.param(0, 30 * HOUR, None, 12 * HOUR, id="at most the work"),
    ],
)
def test_what_an_ended_attempt_has_saved(saved: int, ran: int, progress: float | None, after: int) -> None:
    assert on_time.saved_with(saved, disrupted(worked=ran, progress=progress), owner(), DEADLINE) == after


@pytest.mark.parametrize(("indexes", "after"), [(100, 3601), (101, 3456)])
def test_what_many_indexes_have_saved_is_kept_in_hundredths_of_the_work(indexes: int, after: int) -> None:
    """A hundredth of twelve hours is 432 s."""
    root = owner(job_spec(completions=indexes, completionMode="Indexed"))
    assert on_time.saved_with(0, disrupted(worked=5401), root, DEADLINE) == after


def test_what_a_gang_of_a_job_set_has_saved_stays_in_its_account() -> None:
    """All seconds of 128 pods would be numbers of their own, of which the account had room for none at the end."""
    root, scopes = owner(job_spec(completions=8, completionMode="Indexed")), Scopes()
    pods = {f"workers-{job}/{index}": 5400 + 8 * job + index for job in range(16) for index in range(8)}
    for scope, ran in pods.items():
        scopes.put(scope, on_time.saved_with(0, disrupted(worked=ran, job_set="set"), root, DEADLINE))
    kept = decode(encode(Account(work=scopes))).work
    assert {kept.at_least(scope) for scope in pods} == {3456}


def test_an_account_has_room_for_as_many_numbers_of_saved_seconds() -> None:
    saved = {str(index): 30 * 24 * HOUR - index for index in range(on_time.NUMBERS)}
    assert decode(encode(Account(work=Scopes(saved)))).work == Scopes(saved)


def test_without_checkpoints_nothing_is_saved() -> None:
    assert on_time.saved_with(0, disrupted(worked=5400), owner(), DEADLINE._replace(loss=None)) == 0


@pytest.mark.parametrize("at_once", [1, 2])
def test_where_the_next_pod_may_have_other_work_nothing_is_saved(at_once: int) -> None:
    root = owner(job_spec(completions=8, parallelism=at_once))
    assert on_time.saved_with(0, disrupted(worked=5400), root, DEADLINE) == 0


PROFILE = Profile(deadline=Deadlines(start=Duration(int(START))))
MARKET = st.lists(st.tuples(st.integers(1, 40_000), st.integers(1, 40_000)), min_size=1, max_size=30)
ZONES = st.lists(MARKET, min_size=1, max_size=3)
CASES = st.builds(
    Case,
    work=st.integers(600, 200_000),
    checkpoint=st.one_of(st.none(), st.integers(60, 7200)),
    factor=st.floats(1, 10).map(lambda factor: round(factor, 2)),
    tells=st.booleans(),
)


def drawn(market: list[tuple[int, int]]) -> Trace:
    """Return a trace of pairs: how long there is no spot node, and then how long there is one."""
    spans, time = [], 0.0
    for down, up in market:
        spans.append((time + down, time + down + up))
        time += down + up
    return Trace("drawn", tuple(spans), time)


@given(ZONES, CASES, st.integers(0, 1_000_000))
def test_on_no_market_is_a_job_late_that_would_not_be_on_demand(
    markets: list[list[tuple[int, int]]], case: Case, begin: int
) -> None:
    result = replay(case, settings_of(PROFILE, case), [*map(drawn, markets)], begin)
    assert case.factor is not None
    assert result.finished <= max(case.factor * (case.work + START) + 91, case.work + START)


@given(ZONES, CASES, st.integers(1, 100), st.integers(0, 1_000_000))
def test_nobody_who_knows_the_market_needs_more_than_one_who_does_not(
    markets: list[list[tuple[int, int]]], case: Case, intervals: int, begin: int
) -> None:
    """Nor does one who moves running pods for nothing need more than one who moves none."""
    case = case if case.checkpoint is None else dataclasses.replace(case, work=case.checkpoint * intervals)
    settings, zones = settings_of(PROFILE, case), [*map(drawn, markets)]
    assert settings.deadline is not None
    due = settings.deadline.due(0.0, 1)
    unmoved = at_best_unmoved(case, due, zones, begin)
    assert at_best(case, due, zones, begin) <= unmoved + 1e-6
    assert unmoved <= replay(case, settings, zones, begin).cost + 1e-6


def test_whoever_knows_the_market_waits_for_the_second_zone_and_needs_no_on_demand_node() -> None:
    """The first zone has a node for an hour at once, the second one for longer than the work, after two hours."""
    case = Case(4 * HOUR, None, factor=3.0)
    zones = [drawn([(1, HOUR), (50 * HOUR, 1)]), drawn([(2 * HOUR, 5 * HOUR)])]
    alone = 4 * HOUR + START
    assert at_best_unmoved(case, 7 * HOUR, zones, 0) == pytest.approx(0.3 * alone)
    assert at_best_unmoved(case, 6 * HOUR, zones, 0) == alone


def test_whoever_knows_the_market_takes_a_node_that_will_be_lost_and_then_one_that_another_zone_has_already() -> None:
    """To wait for the second zone, which has nodes from half an hour on, would be too late."""
    case = Case(4 * HOUR, 1800, factor=1.25)
    zones = [drawn([(0, 1800 + int(START)), (50 * HOUR, 1)]), drawn([(1800, 50 * HOUR)])]
    assert at_best_unmoved(case, 4.25 * HOUR, zones, 0) == pytest.approx(0.3 * (4 * HOUR + 2 * START))


def test_a_pod_that_runs_on_demand_is_not_moved_back_by_whoever_moves_none() -> None:
    """A spot node can be had for an hour, not for two, and then for as long as there is time."""
    case = Case(4 * HOUR, 1800, factor=1.25)
    zones, begin = [drawn([(1, HOUR), (2 * HOUR, 50 * HOUR)])], 1
    on_spot = 0.3 * (1800 + START)
    goes_back = 0.3 * (1.5 * HOUR + START)
    assert at_best_unmoved(case, 5 * HOUR, zones, begin) == pytest.approx(on_spot + 3.5 * HOUR + START)
    assert at_best(case, 5 * HOUR, zones, begin) == pytest.approx(on_spot + goes_back + 2 * HOUR + START)


def test_a_pod_takes_the_zone_that_has_a_spot_node_first_and_stays_in_it() -> None:
    """After an hour there is one in the second zone for an hour, then in the first one."""
    case = Case(4 * HOUR, 1800, factor=3.0)
    late, soon = drawn([(2 * HOUR - 60, 9 * HOUR)]), drawn([(HOUR, HOUR), (20 * HOUR, HOUR)])
    done_in_the_second = HOUR - 1800  # with a start, half an hour is saved of the hour
    result = replay(case, settings_of(PROFILE, case), [late, soon], 0)
    assert result.finished == 2 * HOUR + 10 + START + 4 * HOUR - done_in_the_second
