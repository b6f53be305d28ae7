"""Whether a pod that waits for a spot node could run on-demand, and where the next pod runs."""

from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission import OPTED_IN, mutate, policy
from tests.objects import DISRUPTION, job_spec, pod, stored_job
from tests.unit.accounts.pods import job_set
from webhook.capacity.table import PROVIDERS
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Duration, Placement, Profile
from webhook.policy.settings import Settings
from webhook.rules.pods.spot_wait import could_run_on_demand
from webhook.systems.job_set.spec import REPLICATED_JOB

GKE = "cloud.google.com/gke-spot"
PLACEMENT = Placement(provider="gke", spot="Require", spot_wait=Duration(600))
FAILS = {**DISRUPTION, "action": "FailJob"}


def placed(root: Json | None = None, owner: Json | None = None, **facts: Any) -> Json:
    """Return a pod after admission under a profile that requires spot nodes."""
    known = replace(OPTED_IN, owner=owner or stored_job(), owners_known=True, **facts)
    placement = facts.pop("placement", PLACEMENT)
    found: Json = mutate(root or pod(), known, policy(default=Profile(placement=placement))).object
    return found


def could_leave(root: Json, job: Json | None = None, job_set: Json | None = None, **placement: Any) -> bool:
    profile = Profile(placement=replace(PLACEMENT, **placement))
    found = job or stored_job(job_spec(rules=[DISRUPTION]))
    return could_run_on_demand(root, found, job_set, Settings(profile_name="default", profile=profile), None)


def test_a_pod_that_the_policy_restricts_to_spot_could_leave() -> None:
    assert could_leave(placed())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_pod_could_leave_the_spot_nodes_of_every_provider_that_can_require_them(provider: Any) -> None:
    root = mutate(
        pod(),
        replace(OPTED_IN, owner=stored_job(), owners_known=True),
        policy(default=Profile(placement=replace(PLACEMENT, provider=provider))),
    ).object
    assert could_leave(root, provider=provider) is ("affinity" in root["spec"])


def test_a_pod_that_may_run_anywhere_need_not_leave() -> None:
    assert not could_leave(pod())


def test_without_a_known_provider_no_pod_leaves() -> None:
    assert not could_leave(placed(), provider="auto")


def test_an_author_who_asks_for_spot_gets_it() -> None:
    spec = job_spec(rules=[DISRUPTION])
    spec["template"]["spec"]["nodeSelector"] = {GKE: "true"}
    assert not could_leave(placed(pod({"nodeSelector": {GKE: "true"}})), stored_job(spec))


def test_a_pod_of_a_group_waits_with_its_group() -> None:
    alone = placed()
    grouped = deepcopy(alone)
    grouped["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "gang"
    assert (could_leave(alone), could_leave(grouped)) == (True, False)


@pytest.mark.parametrize(
    ("rules", "limit", "failed", "leaves"),
    [
        ([DISRUPTION], 0, 0, True),
        ([FAILS], 6, 0, False),
        (None, 1, 0, True),
        (None, 1, 1, False),
        (None, 0, 0, False),
        ([{**DISRUPTION, "action": "Count"}], 1, 0, True),
    ],
)
def test_a_pod_leaves_only_if_another_one_follows(
    rules: list[Json] | None,
    limit: int,
    failed: int,
    leaves: bool,  # noqa: FBT001
) -> None:
    found = stored_job(job_spec(rules=rules, backoffLimit=limit), {"failed": failed})
    assert could_leave(placed(), found) is leaves


@pytest.mark.parametrize(("restarts", "leaves"), [(3, True), (0, False)])
def test_a_pod_leaves_if_its_job_set_restarts(restarts: int, leaves: bool) -> None:  # noqa: FBT001
    root = placed()
    root["metadata"]["labels"][REPLICATED_JOB] = "workers"
    found = stored_job(job_spec(rules=[FAILS]))
    assert could_leave(root, found, job_set(maxRestarts=restarts)) is leaves


def test_the_pod_after_one_that_no_spot_node_took_runs_on_demand() -> None:
    assert placed()["metadata"]["annotations"][names.PLACEMENT] == "Spot"
    assert placed(spot_unavailable=True)["metadata"]["annotations"][names.PLACEMENT] == "OnDemand"


def test_without_a_wait_in_the_policy_the_next_pod_is_placed_by_its_attempt() -> None:
    known = replace(OPTED_IN, owner=stored_job(), owners_known=True, spot_unavailable=True)
    under = policy(default=Profile(placement=replace(PLACEMENT, spot_wait=None)))
    assert mutate(pod(), known, under).object["metadata"]["annotations"][names.PLACEMENT] == "Spot"
