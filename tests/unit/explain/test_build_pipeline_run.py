"""What `explain` shows of the tasks of a PipelineRun."""

from typing import Any

from tests.objects import pod as pod_of
from webhook.explain.build_pipeline_run import explain
from webhook.explain.render import as_table
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry import record


def status(how: str, minute: int, pod: str, message: str = "") -> Json:
    condition = {
        "type": "Succeeded",
        "status": how,
        "reason": {"True": "Succeeded", "False": "Failed"}.get(how, "Running"),
    }
    if message:
        condition["message"] = message
    found: Json = {"conditions": [condition], "startTime": f"2026-11-22T08:{minute:02}:00Z", "podName": pod}
    if how != "Unknown":
        found["completionTime"] = f"2026-11-22T08:{minute:02}:30Z"
    return found


def task_run(task: str, now: Json, *earlier: Json, **spec: Any) -> Json:
    return {
        "kind": "TaskRun",
        "metadata": {"name": f"build-{task}", "namespace": "ml", "labels": {"tekton.dev/pipelineTask": task}},
        "spec": spec,
        "status": {**now, "retriesStatus": list(earlier)},
    }


def run(**annotations: str) -> Json:
    condition = {"type": "Succeeded", "status": "Unknown", "reason": "Running", "message": "Tasks Completed: 1"}
    metadata = {"name": "build", "namespace": "ml", "annotations": annotations}
    return {"kind": "PipelineRun", "metadata": metadata, "status": {"conditions": [condition]}}


A = task_run("a", status("True", 0, "build-a-pod"))
B = task_run(
    "b", status("Unknown", 2, "build-b-pod-1"), status("False", 1, "build-b-pod", "exited with code 1"), retries=2
)


def test_every_attempt_of_every_task_is_listed_in_order() -> None:
    explanation = explain(run(), [B, A], [])
    assert explanation.state == "Running: Tasks Completed: 1"
    assert explanation.summary == "2 tasks begun: 1 succeeded, 1 not over"
    assert explanation.budgets == ["task b: 1 of 2 retries spent"]
    assert [(row.unit, row.attempt, row.ended, row.cost, row.retries_left) for row in explanation.rows] == [
        ("a", 0, "succeeded", "none", None),
        ("b", 0, "Failed: exited with code 1", "retry", 1),
        ("b", 1, "Running", "", 1),
    ]


def test_a_task_that_failed_for_good_is_shown_as_fatal() -> None:
    (row,) = explain(run(), [task_run("b", status("False", 1, "build-b-pod"))], []).rows
    assert (row.cost, row.ended) == ("fatal", "Failed")


def test_a_pod_that_still_exists_shows_where_its_attempt_ran() -> None:
    pod = pod_of(annotations={names.PLACEMENT: "Spot"}, name="build-a-pod", namespace="ml", uid="pod-uid")
    pod["spec"]["nodeName"] = "node-1"
    (row,) = explain(run(), [A], [pod]).rows
    assert (row.node, row.placement) == ("node-1", "spot")


def test_a_requested_retry_is_shown_with_its_user_and_the_failure_before_it() -> None:
    request = record.Requested(at="2026-11-22T08:10:00Z", by="alice", of="x", ended=("b: Failed: exited with code 1",))
    lines = list(as_table(explain(run(**{names.RETRY_HISTORY: record.with_new(run(), request)}), [A], [])))
    assert "retry requested by alice at 2026-11-22T08:10:00Z, after b: Failed: exited with code 1" in lines
    assert any(line.startswith("ATTEMPT   TASK   POD") for line in lines)
