"""The pod that leads a workload, which a profile may place on on-demand nodes from its first attempt."""

from typing import Any

import pytest

from tests.admission import mutate, policy
from tests.objects import pod
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Placement, Profile
from webhook.rules.pods.roles import leads

OF_SET = {
    "jobset.sigs.k8s.io/jobset-name": "train",
    "jobset.sigs.k8s.io/replicatedjob-name": "leader",
    "jobset.sigs.k8s.io/job-index": "0",
}
COORDINATED = {"jobset.sigs.k8s.io/coordinator": "train-leader-0-0.train"}


def in_set(job: str = "leader", job_index: str = "0", index: str = "0") -> tuple[Json, Json]:
    """Return labels and annotations of a pod of a JobSet with a coordinator."""
    labels = {**OF_SET, "jobset.sigs.k8s.io/replicatedjob-name": job, "jobset.sigs.k8s.io/job-index": job_index}
    return labels, {**COORDINATED, "batch.kubernetes.io/job-completion-index": index}


@pytest.mark.parametrize(
    ("labels", "leader"),
    [
        ({"spark-role": "driver"}, True),
        ({"spark-role": "executor"}, False),
        ({"ray.io/node-type": "head"}, True),
        ({"ray.io/node-type": "worker"}, False),
        ({"training.kubeflow.org/job-role": "launcher"}, True),
        ({"training.kubeflow.org/replica-type": "launcher"}, True),
        ({"training.kubeflow.org/replica-type": "worker"}, False),
        ({}, False),
    ],
)
def test_drivers_heads_and_launchers_lead(labels: Json, *, leader: bool) -> None:
    assert leads(labels, {}) is leader


@pytest.mark.parametrize(
    ("found", "leader"),
    [
        (in_set(), True),
        (in_set(index="1"), False),
        (in_set(job_index="1"), False),
        (in_set(job="workers"), False),
        ((OF_SET, COORDINATED), False),
        ((OF_SET, {}), False),
    ],
)
def test_the_coordinator_of_a_job_set_leads(found: tuple[Json, Json], *, leader: bool) -> None:
    assert leads(*found) is leader


def placed(roles: Any, **metadata: Any) -> str:
    under = policy(default=Profile(placement=Placement(provider="eks", roles=roles)))
    return str(mutate(pod(**metadata), under=under).object["metadata"]["annotations"][names.PLACEMENT])


@pytest.mark.parametrize(
    ("roles", "role", "placement"),
    [("LeaderOnDemand", "head", "OnDemand"), ("LeaderOnDemand", "worker", "Spot"), ("Alike", "head", "Spot")],
)
def test_a_leader_is_on_demand_from_its_first_attempt_if_the_profile_says_so(
    roles: str, role: str, placement: str
) -> None:
    assert placed(roles, labels={"ray.io/node-type": role}) == placement


def test_an_author_may_keep_a_leader_on_spot() -> None:
    kept = {names.INTERRUPTIBLE: "true"}
    assert placed("LeaderOnDemand", labels={"ray.io/node-type": "head"}, annotations=kept) == "Spot"
