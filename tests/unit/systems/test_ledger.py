"""The disruptions that the ledger has counted."""

import pytest
from msgspec.structs import replace

from tests.admission import mutate
from tests.objects import job_spec, pod, stored_job
from tests.unit.systems.pods import EKS, NOT_SPOT, SPOT, read
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.model import Disruptions, Placement, Policy, Profile
from webhook.rules.facts import Facts
from webhook.rules.pods.placement import TERMS
from webhook.systems.pods import of_ledger

OWNER = stored_job(job_spec(backoffLimit=3), {})
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def placed(
    disruptions: int | None, owner: Json = OWNER, policy: Policy = EKS, annotations: Json | None = None
) -> tuple[str, str | None, str]:
    """Return placement, disruptions and attempt of a pod after this number of disruptions."""
    facts = Facts(profile_name="default", owner=owner, disruptions=disruptions)
    root = mutate(pod(annotations=annotations or {}), facts, policy).object
    noted = root["metadata"]["annotations"]
    (term,) = at(root, TERMS)
    assert term["matchExpressions"] == [SPOT if noted[names.PLACEMENT] == "Spot" else NOT_SPOT]
    return noted[names.PLACEMENT], noted.get(names.DISRUPTIONS), noted[names.ATTEMPT]


def with_limit(limit: int, threshold: int = -1) -> Policy:
    placement = Placement(provider="eks", spot="Require", interruptible_failure_threshold=threshold)
    profile = replace(EKS.profiles["default"], disruptions=Disruptions(limit=limit), placement=placement)
    return replace(EKS, profiles={"default": profile})


def test_disruptions_are_a_separate_level() -> None:
    assert placed(2) == ("Spot", "2", "0")
    assert placed(19) == ("Spot", "19", "0")
    assert placed(20) == ("OnDemand", "20", "0")


def test_by_default_one_disruption_is_enough_to_leave_spot() -> None:
    packaged = replace(EKS, profiles={"default": Profile(placement=Placement(provider="eks", spot="Require"))})
    assert placed(0, policy=packaged)[0] == "Spot"
    assert placed(1, policy=packaged) == ("OnDemand", "1", "0")


def test_failures_and_disruptions_are_never_added() -> None:
    owner = stored_job(job_spec(backoffLimit=3), {"failed": 2})
    assert placed(1, owner) == ("Spot", "1", "2")
    assert placed(20, owner) == ("OnDemand", "20", "2")
    last = stored_job(job_spec(backoffLimit=3), {"failed": 3})
    assert placed(5, last) == ("OnDemand", "5", "3")


def test_without_a_count_of_the_ledger_the_jobs_status_is_the_only_level() -> None:
    assert placed(None) == ("Spot", None, "0")
    assert placed(0) == ("Spot", "0", "0")


def test_an_indexs_disruptions_are_the_ledgers_count_and_its_failures_the_job_controllers() -> None:
    owner = stored_job(job_spec(backoffLimitPerIndex=3), {})
    assert placed(None, owner, annotations={FAILURES: "1"}) == ("Spot", "0", "1")
    assert placed(5, owner, annotations={FAILURES: "1", IGNORED: "1"}) == ("Spot", "5", "1")
    assert placed(20, owner, annotations={FAILURES: "1", IGNORED: "1"}) == ("OnDemand", "20", "1")


def test_the_higher_of_two_disruption_counts_decides() -> None:
    owner = stored_job(job_spec(backoffLimitPerIndex=3), {})
    assert placed(2, owner, annotations={FAILURES: "0", IGNORED: "20"}) == ("OnDemand", "20", "0")


@pytest.mark.parametrize(
    ("limit", "threshold", "on_demand_from"), [(5, -1, 5), (5, -2, 4), (5, 2, 2), (5, 0, 5), (5, 9, 5), (1, -1, 1)]
)
def test_pods_leave_spot_at_the_threshold_and_at_the_latest_at_the_limit(
    limit: int, threshold: int, on_demand_from: int
) -> None:
    found = [placed(count, policy=with_limit(limit, threshold))[0] for count in range(8)]
    assert found.index("OnDemand") == on_demand_from


def test_a_first_attempt_stays_on_spot_even_if_no_disruption_is_allowed() -> None:
    assert placed(0, policy=with_limit(0)) == ("Spot", "0", "0")
    assert placed(1, policy=with_limit(0)) == ("OnDemand", "1", "0")


def test_failures_that_the_ledger_has_counted_are_not_disruptions() -> None:
    assert read(pod(), OWNER, failures=2, of=of_ledger) == ([], [])
