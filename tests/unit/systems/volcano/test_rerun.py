"""The retry of a Volcano Job, in place."""

from typing import Any

import jsonpatch
import pytest

from tests.volcano import task
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry import record
from webhook.systems.adapter import InPlace, Workload
from webhook.systems.volcano import rerun as of_volcano_job

YES = {names.RETRYABLE: "true"}
ENDED = "2026-11-21T12:00:00Z"
WHEN = "2026-11-21T13:00:00+00:00"
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "name": "c", "uid": "u", "controller": True}


def failed(
    *tasks: Json,
    phase: str = "Failed",
    metadata: Json | None = None,
    annotations: Json | None = None,
    status: Json | None = None,
    **spec: Any,
) -> Json:
    """Return a Job that has ended in a phase."""
    own = {"name": "train", "namespace": "ml", "uid": "job-uid", "resourceVersion": "7", **(metadata or {})}
    return {
        "metadata": {**own, "annotations": YES if annotations is None else annotations},
        "spec": {"tasks": list(tasks) or [task(replicas=2)], **spec},
        "status": {"state": {"phase": phase, "lastTransitionTime": ENDED}, **(status or {})},
    }


def pod(name: str, phase: str, **metadata: Any) -> Json:
    """Return a pod TASK-INDEX of the Job."""
    return {
        "metadata": {
            "name": f"train-{name}",
            "uid": name,
            "labels": {"volcano.sh/task-spec": name.rpartition("-")[0]},
            "ownerReferences": [{"uid": "job-uid"}],
            "creationTimestamp": "2026-11-21T11:00:00Z",
            **metadata,
        },
        "status": {"phase": phase},
    }


HALF = (pod("main-0", "Succeeded"), pod("main-1", "Failed"))


assert of_volcano_job.ADAPTER.in_place is not None
IN_PLACE: InPlace = of_volcano_job.ADAPTER.in_place


def workload(root: Json, *pods: Json) -> Workload:
    return Workload(root=root, run=root, when=WHEN, children=pods)


def refusal(root: Json, *pods: Json) -> str:
    return str(of_volcano_job.refusal(workload(root, *pods)) or "")


def again(root: Json, *pods: Json) -> list[str]:
    return [one["metadata"]["uid"] for one in of_volcano_job.steps(workload(root, *pods), "alice").deleted]


@pytest.mark.parametrize("phase", ["Failed", "Terminated", "Aborted"])
def test_a_job_that_did_not_succeed_can_run_again(phase: str) -> None:
    assert not refusal(failed(phase=phase), *HALF)


def test_so_can_that_of_a_cron_job() -> None:
    assert not refusal(failed(metadata={"ownerReferences": [OWNER]}))


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (failed(annotations={}), "does not say of main that it may run twice"),
        (failed(phase="Completed"), "has succeeded"),
        (failed(phase="Running"), "has not ended; request the retry again once it has failed, or was aborted"),
        (failed(phase="Aborting"), "has not ended"),
        (failed(metadata={"deletionTimestamp": ENDED}), "is being deleted"),
        (failed(metadata={"ownerReferences": [{**OWNER, "kind": "JobFlow"}]}), "is managed by JobFlow c"),
    ],
)
def test_any_other_job_is_refused_with_the_reason(job: Json, why: str) -> None:
    assert why in refusal(job, *HALF)


def test_a_job_is_refused_while_a_pod_of_it_runs() -> None:
    why = "Job ml/train has ended, but its pod train-main-1 has not; request the retry again once it has"
    assert refusal(failed(phase="Terminated"), HALF[0], pod("main-1", "Running")) == why


def test_only_tasks_that_run_again_need_consent() -> None:
    says_so = task(name="worker")
    says_so["template"]["metadata"] = {"annotations": YES}
    job = failed(task(name="driver"), says_so, annotations={})
    succeeded = pod("driver-0", "Succeeded")
    assert not refusal(job, succeeded, pod("worker-0", "Failed"))
    assert "does not say of driver" in refusal(job, pod("driver-0", "Failed"), pod("worker-0", "Failed"))
    assert "does not say of driver" in refusal(job)  # Volcano has deleted its pods
    command = "kubectl annotate -n ml jobs.batch.volcano.sh/train"
    assert command in refusal(failed(annotations={}))


TOGETHER: dict[str, Json] = {
    "svc": {"plugins": {"svc": []}},
    "ssh": {"plugins": {"env": [], "ssh": []}},
    "networkTopology": {"networkTopology": {"mode": "hard"}},
}


@pytest.mark.parametrize("spec", TOGETHER.values(), ids=TOGETHER)
def test_all_pods_run_again_if_they_work_together(spec: Json) -> None:
    assert again(failed(**spec), *HALF) == ["main-0", "main-1"]


@pytest.mark.parametrize("field", ["dependsOn", "partitionPolicy"])
def test_all_pods_run_again_if_a_task_depends_on_others(field: str) -> None:
    job = failed(task(replicas=2), {**task(name="last"), field: {"name": ["main"]}})
    assert again(job, *HALF) == ["main-0", "main-1"]
    what_reruns = of_volcano_job.what_reruns(workload(job, *HALF))
    assert what_reruns == "Job ml/train: all of its pods"


@pytest.mark.parametrize("spec", [{}, {"plugins": {"env": []}}, {"minAvailable": 1}], ids=str)
def test_pods_that_succeeded_stay_if_they_work_alone(spec: Json) -> None:
    assert again(failed(**spec), *HALF) == ["main-1"]
    assert of_volcano_job.what_reruns(workload(failed(**spec), *HALF)) == "Job ml/train: 1 of 2 pods"


def test_its_controller_begins_it_again_with_all_retries() -> None:
    kept = {"version": 4, "succeeded": 1, "conditions": [{"status": "Failed"}]}
    status = of_volcano_job.run_again(failed(status={"retryCount": 3, **kept}), WHEN)["status"]
    assert status == {"state": {"phase": "Pending", "lastTransitionTime": WHEN}, **kept}


def test_a_retry_is_recorded_once() -> None:
    job = failed(annotations=YES)
    job = jsonpatch.apply_patch(job, of_volcano_job.steps(workload(job, *HALF), "alice").record)
    (noted,) = record.read(job)
    assert (noted.at, noted.by, noted.of) == (WHEN, "alice", ENDED)
    assert of_volcano_job.steps(workload(job, *HALF), "bob").record == []


@pytest.mark.parametrize(
    ("phase", "created", "unfinished"),
    [
        ("Failed", "2026-11-21T12:59:59Z", True),
        ("Failed", "2026-11-21T13:00:01Z", False),
        ("Pending", "2026-11-21T12:59:59Z", False),
    ],
)
def test_a_recorded_retry_is_unfinished_if_the_job_has_failed_without_a_new_pod(
    phase: str,
    created: str,
    unfinished: bool,  # noqa: FBT001
) -> None:
    job = failed(phase=phase)
    assert not IN_PLACE.is_unfinished(workload(job))
    noted = record.Requested(at=WHEN, by="alice", of="before")
    job["metadata"]["annotations"] = {names.RETRY_HISTORY: record.with_new(job, noted)}
    found = workload(job, pod("main-0", "Failed", creationTimestamp=created))
    assert IN_PLACE.is_unfinished(found) is unfinished


def test_it_has_begun_when_it_has_a_new_pod() -> None:
    before = workload(failed(), *HALF)
    assert not IN_PLACE.has_begun(workload(failed(phase="Pending"), HALF[0]), before)
    assert IN_PLACE.has_begun(workload(failed(phase="Pending"), HALF[0], pod("main-x", "Pending")), before)


def test_it_is_suspended_by_volcanos_own_command() -> None:
    assert "vcctl job suspend -n ml -N train" in str(of_volcano_job.cannot_be_suspended(failed()))
