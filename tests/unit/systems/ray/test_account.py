"""What the end of a pod of a RayJob costs, and what the leader can do to a RayJob."""

from typing import Any

import jsonpatch
import pytest

from tests.unit.controller.leader import stored_pod
from tests.unit.systems.costs import DELETED, EVICTED, cost_by
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.systems.ray.account import RAY_JOB
from webhook.systems.system import Write


def ray_job(spec: Json | None = None, **metadata: Any) -> Json:
    """Return a RayJob that runs for the second time."""
    return {
        "metadata": {"namespace": "ml", "name": "train", "resourceVersion": "7", **metadata},
        "spec": {"backoffLimit": 2, "shutdownAfterJobFinishes": True, **(spec or {})},
        "status": {"jobDeploymentStatus": "Running", "failed": 1},
    }


def in_state(state: str) -> Json:
    return {**ray_job(), "status": {"jobDeploymentStatus": state}}


def pod(node: str, code: int = 0, *, attempt: int = 0, **changes: Any) -> Pod:
    """Return a pod of the RayJob; it runs unless it has an exit code."""
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "train-7xk2p", "uid": "u", "controller": True}
    root = stored_pod(
        1,
        "Failed" if code else "Running",
        code,
        finalizers=[],
        labels={"ray.io/node-type": node, "ray.io/group": "small"},
        annotations={names.ATTEMPT: str(attempt), names.MAX_RETRIES: "2"},
        ownerReferences=[owner],
        **changes.pop("metadata", {}),
    )
    root["status"] |= changes
    return pods.read(root)


def cost_of(ended: Pod, root: Json | None = None) -> str:
    return cost_by(RAY_JOB, ended, ray_job() if root is None else root)


def test_a_lost_worker_costs_nothing_of_the_ray_job() -> None:
    assert cost_of(pod("worker", 137, conditions=[EVICTED])) == "free"
    assert cost_of(pod("worker", 1)) == "free"
    assert cost_of(pod("worker", metadata=DELETED)) == "none"  # scaled down, or gone with its cluster


def test_a_preempted_head_costs_no_retry_because_kuberay_replaces_it() -> None:
    assert cost_of(pod("head", 137, conditions=[EVICTED])) == "disruption"


def test_a_crashed_head_is_replaced_too() -> None:
    assert cost_of(pod("head", 1)) == "free"


def test_a_head_with_the_submitter_costs_a_retry_whatever_ended_it() -> None:
    terminated = {"terminated": {"exitCode": 137, "finishedAt": "2026-01-01T00:01:00Z"}}
    both = [{"name": name, "state": terminated} for name in ("ray-head", "ray-job-submitter")]
    assert cost_of(pod("head", 137, conditions=[EVICTED], containerStatuses=both)) == "retry"


@pytest.mark.parametrize(("attempt", "cost"), [(0, "retry"), (1, "none")])
def test_the_head_of_a_run_that_has_failed_costs_the_retry_one_that_a_person_deletes_nothing(
    attempt: int, cost: str
) -> None:
    assert cost_of(pod("head", attempt=attempt, metadata=DELETED)) == cost


def test_nothing_is_guessed_about_a_deleted_head_of_a_ray_job_that_was_not_read() -> None:
    assert cost_of(pod("head", metadata=DELETED), {"metadata": {}, "spec": {}, "status": {}}) == "none"


@pytest.mark.parametrize("state", ["Complete", "Failed", "ValidationFailed", "Suspending", "Suspended"])
def test_one_that_has_ended_or_is_suspended_deletes_its_pods_itself(state: str) -> None:
    assert RAY_JOB.has_ended(in_state(state))


def test_one_that_runs_is_retried_or_waits_has_not_ended() -> None:
    assert not any(RAY_JOB.has_ended(in_state(state)) for state in ("", "Initializing", "Running", "Retrying"))
    assert RAY_JOB.has_ended(ray_job({"suspend": True}))


def test_the_leader_can_suspend_a_ray_job_but_not_fail_it() -> None:
    root = ray_job()
    write = RAY_JOB.suspend(root)
    assert isinstance(write, Write)
    assert write.path == "/apis/ray.io/v1/namespaces/ml/rayjobs/train"
    assert jsonpatch.apply_patch(root, write.operations)["spec"]["suspend"] is True
    assert RAY_JOB.fail(root, pod("head", 1), "PodFailurePolicy", "exit code 1") is None


@pytest.mark.parametrize(
    "root",
    [
        ray_job({"shutdownAfterJobFinishes": False}),
        ray_job({"clusterSelector": {"ray.io/cluster": "shared"}}),
        ray_job(labels={"kueue.x-k8s.io/queue-name": "gpus"}),
    ],
)
def test_one_is_not_suspended_where_kuberay_would_end_it_or_kueue_resume_it(root: Json) -> None:
    assert RAY_JOB.suspend(root) is None


def test_only_the_head_is_one_pod_at_a_time() -> None:
    assert RAY_JOB.is_single("head")
    assert not RAY_JOB.is_single("worker/small")
