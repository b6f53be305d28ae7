"""The retry of a RayJob, in place."""

from typing import Any

import jsonpatch
import pytest

from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry import record, requests
from webhook.systems.adapter import Workload
from webhook.systems.ray import rerun as of_ray_job

YES = {names.RETRYABLE: "true"}
WHEN = "2026-11-21T12:00:00+00:00"
OWNER = {"kind": "RayCronJob", "name": "nightly", "uid": "u", "controller": True, "apiVersion": "ray.io/v1"}


def failed(
    *, metadata: Json | None = None, annotations: Json | None = None, head: Json | None = None, **changes: Any
) -> Json:
    """Return a RayJob that has failed; `changes`: those of its status, and of its spec under `spec`."""
    spec = {"rayClusterSpec": {"headGroupSpec": {"template": {"metadata": {"annotations": head or {}}}}}}
    own = {"name": "train", "namespace": "ml", "resourceVersion": "7", **(metadata or {})}
    given = changes.pop("spec", {})
    status = {
        "jobDeploymentStatus": "Failed",
        "jobStatus": "FAILED",
        "rayClusterName": "train-abcde",
        "reason": "AppFailed",
        "message": "Job entrypoint command failed with exit code 1",
        "failed": 3,
    }
    return {
        "metadata": {**own, "annotations": YES if annotations is None else annotations},
        "spec": {**spec, "backoffLimit": 2, "shutdownAfterJobFinishes": True, **given},
        "status": {**status, **changes},
    }


def workload(root: Json) -> Workload:
    return Workload(root=root, run=root, when=WHEN)


def test_a_failed_ray_job_with_consent_can_run_again() -> None:
    assert of_ray_job.refusal(failed()) is None
    assert of_ray_job.refusal(failed(annotations={}, head=YES)) is None


def test_so_can_that_of_a_ray_cron_job() -> None:
    assert of_ray_job.refusal(failed(metadata={"ownerReferences": [OWNER]})) is None


@pytest.mark.parametrize(
    ("ray_job", "why"),
    [
        (failed(annotations={}), "does not say that it may run twice"),
        (failed(head={names.RETRYABLE: "false"}), "does not say that it may run twice"),
        (failed(jobDeploymentStatus="Running"), "has not ended"),
        (failed(jobDeploymentStatus="Retrying"), "has not ended"),
        (failed(jobDeploymentStatus="Suspended"), "has not ended"),
        (failed(jobDeploymentStatus="Complete"), "has succeeded"),
        (failed(jobDeploymentStatus="ValidationFailed", message="no head"), "it is not valid: no head"),
        (failed(spec={"managedBy": "kueue.x-k8s.io/multikueue"}), "is managed by kueue.x-k8s.io/multikueue"),
        (failed(spec={"clusterSelector": {"ray.io/cluster": "shared"}}), "has a clusterSelector"),
        (failed(spec={"submissionMode": "InteractiveMode"}), "submissionMode InteractiveMode"),
        (failed(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}), "is in a Kueue queue"),
        (failed(metadata={"ownerReferences": [{**OWNER, "kind": "Other"}]}), "is managed by Other nightly"),
    ],
)
def test_any_other_ray_job_is_refused_with_the_reason(ray_job: Json, why: str) -> None:
    assert why in str(of_ray_job.refusal(ray_job))


def test_its_controller_is_told_to_retry_and_has_all_retries_again() -> None:
    before = failed()
    now = of_ray_job.run_again(before)["status"]
    assert now == {**before["status"], "jobDeploymentStatus": "Retrying", "failed": 0}


def test_a_retry_is_recorded_once() -> None:
    ray_job = failed()
    ray_job = jsonpatch.apply_patch(ray_job, of_ray_job.steps(workload(ray_job), "alice").record)
    assert of_ray_job.steps(workload(ray_job), "bob").record == []
    assert record.read(ray_job)[-1].of == "train-abcde"
    assert requests.is_marked(ray_job)  # by which the leader finds it


def test_a_retry_has_begun_once_the_ray_job_runs_or_has_another_cluster() -> None:
    before = workload(failed())
    recorded = jsonpatch.apply_patch(before.root, of_ray_job.steps(before, "alice").record)
    assert not of_ray_job.has_begun(workload(recorded), before)
    assert of_ray_job.has_begun(workload(of_ray_job.run_again(recorded)), before)
    assert of_ray_job.has_begun(workload(failed(rayClusterName="train-fghij")), before)


@pytest.mark.parametrize("spec", [{"shutdownAfterJobFinishes": False}, {"clusterSelector": {"ray.io/cluster": "a"}}])
def test_one_that_kuberay_would_end_as_not_valid_is_not_suspended(spec: Json) -> None:
    assert "cannot be suspended" in str(of_ray_job.cannot_be_suspended(failed(spec=spec)))
    assert of_ray_job.cannot_be_suspended(failed()) is None
