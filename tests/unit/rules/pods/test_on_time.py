"""Where pods of a Job with a deadline run: the rule, and on markets that are drawn."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.admission import OPTED_IN, mutate, policy
from tests.bench.spot.replay import START, Case, Trace, replay, settings_of
from tests.objects import job_spec, pod, stored_job
from tests.unit.accounts.pods import job_set
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.objects.times import written
from webhook.pods.pods import Pod
from webhook.policy.deadline import Deadline
from webhook.policy.model import Deadlines, Duration, Placement, Profile
from webhook.rules.pods import on_time

HOUR = 3600
CREATED = 1_800_000_000
SAID = {names.WORK: "12h", names.DEADLINE: "18h", names.CHECKPOINT: "30m"}
# Twelve hours of work and half an hour that a disruption costs, and twice the ten minutes of a start.
TURNS_AFTER = 18 * HOUR - 12 * HOUR - 1800 - 1200
DEADLINE = Deadline(work=12 * HOUR, loss=1800, within=18 * HOUR, at=None, start=600)


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
    assert where(placed(TURNS_AFTER + HOUR, saved_work=HOUR)) == ("Spot", True)
    assert where(placed(TURNS_AFTER + HOUR + 1, saved_work=HOUR)) == ("OnDemand", True)


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
    slack = on_time.slack_of(late, above, DEADLINE, 0, CREATED)
    assert slack.due == CREATED + 18 * HOUR


def test_a_job_of_rounds_has_the_work_of_those_that_are_left() -> None:
    """Four rounds of three hours; five indexes of eight have finished, so that two rounds are left."""
    spec = job_spec(completions=8, parallelism=2, completionMode="Indexed")
    root = owner(spec, succeeded=5)
    slack = on_time.slack_of(root, None, DEADLINE, HOUR, CREATED)
    assert (slack.work, slack.loss) == (3 * HOUR + 2 * HOUR, 1800)


def ended(ran: int, progress: float | None = None) -> Pod:
    return Pod(
        namespace="ml",
        name="pod",
        uid="pod",
        job="job",
        job_uid="job",
        began=written(CREATED),
        ended=written(CREATED + ran),
        progress=progress,
    )


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
    assert on_time.saved_with(saved, ended(ran, progress), owner(), DEADLINE) == after


def test_without_checkpoints_nothing_is_saved() -> None:
    assert on_time.saved_with(0, ended(5400), owner(), DEADLINE._replace(loss=None)) == 0


def test_where_pods_share_a_part_nothing_is_saved() -> None:
    root = owner(job_spec(completions=8, parallelism=2))
    assert on_time.saved_with(0, ended(5400), root, DEADLINE) == 0


PROFILE = Profile(deadline=Deadlines(start=Duration(int(START))))
MARKETS = st.lists(st.tuples(st.integers(1, 40_000), st.integers(1, 40_000)), min_size=1, max_size=30)
CASES = st.builds(
    Case,
    work=st.integers(600, 200_000),
    checkpoint=st.one_of(st.none(), st.integers(60, 7200)),
    factor=st.floats(1, 10).map(lambda factor: round(factor, 2)),
    tells=st.booleans(),
)


@given(MARKETS, CASES, st.integers(0, 1_000_000))
def test_on_no_market_is_a_job_late_that_would_not_be_on_demand(
    market: list[tuple[int, int]], case: Case, begin: int
) -> None:
    spans, time = [], 0.0
    for down, up in market:
        spans.append((time + down, time + down + up))
        time += down + up
    result = replay(case, settings_of(PROFILE, case), Trace("drawn", tuple(spans), time), begin)
    assert case.factor is not None
    assert result.finished <= max(case.factor * (case.work + START) + 31, case.work + START)
