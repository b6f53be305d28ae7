"""The retry of a PipelineRun, in place."""

from typing import Any

import jsonpatch
import pytest

from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry import record
from webhook.systems.adapter import Workload
from webhook.systems.tekton import rerun as of_pipeline_run

YES = {names.RETRYABLE: "true"}
ENDED = "2026-11-21T12:00:00Z"
WHEN = "2026-11-21T13:00:00+00:00"
UID = "run-uid"
STATUSES = {"good": "True", "bad": "False", "runs": "Unknown"}


def succeeded(status: str, reason: str = "") -> Json:
    return {"type": "Succeeded", "status": status, "reason": reason}


def child(task: str, how: str, name: str | None = None, **metadata: Any) -> Json:
    """Return a TaskRun of a task; `how`: good, bad or runs."""
    return {
        "kind": "TaskRun",
        "metadata": {
            "name": name or f"build-{task}",
            "labels": {of_pipeline_run.TASK: task},
            "ownerReferences": [{"uid": UID}],
            "creationTimestamp": "2026-11-21T12:30:00Z",
            **metadata,
        },
        "status": {"conditions": [succeeded(STATUSES[how])]},
    }


def run_of(children: list[Json], *, last: tuple[str, ...] = (), annotations: Json | None = None, **more: Any) -> Json:
    """Return a PipelineRun that has failed with these children."""
    references = [
        {"kind": one["kind"], "name": one["metadata"]["name"], "pipelineTaskName": of_pipeline_run.task_of(one)}
        for one in children
    ]
    named = dict.fromkeys(of_pipeline_run.task_of(one) for one in children)
    return {
        "metadata": {
            "name": "build",
            "namespace": "ml",
            "uid": UID,
            "resourceVersion": "7",
            "annotations": YES if annotations is None else annotations,
            **more.get("metadata", {}),
        },
        "spec": more.get("spec", {}),
        "status": {
            "conditions": [succeeded("False", "Failed")],
            "startTime": "2026-11-21T11:00:00Z",
            "completionTime": ENDED,
            "finallyStartTime": "2026-11-21T11:50:00Z",
            "skippedTasks": [{"name": "never"}],
            "pipelineSpec": {
                "tasks": [{"name": name, **more.get("tasks", {}).get(name, {})} for name in named if name not in last],
                "finally": [{"name": name} for name in last],
            },
            "childReferences": references,
            **more.get("status", {}),
        },
    }


def again(children: list[Json], run: Json | None = None, *, keep_finally: bool = False, **how: Any) -> set[str]:
    return of_pipeline_run.plan(run or run_of(children, **how), children, keep_finally=keep_finally).again


def refusal(children: list[Json], run: Json | None = None, **how: Any) -> str:
    return str(of_pipeline_run.refusal(workload(run or run_of(children, **how), children)) or "")


def workload(run: Json, children: list[Json]) -> Workload:
    return Workload(root=run, run=run, when=WHEN, children=tuple(children))


def test_only_tasks_that_have_not_succeeded_run_again() -> None:
    assert again([child("a", "good"), child("b", "bad"), child("c", "runs")]) == {"b", "c"}


def test_tasks_of_finally_run_again_unless_they_are_kept() -> None:
    children = [child("a", "good"), child("b", "bad"), child("notify", "good"), child("clean", "bad")]
    assert again(children, last=("notify", "clean")) == {"b", "notify", "clean"}
    assert again(children, last=("notify", "clean"), keep_finally=True) == {"b", "clean"}


def test_all_combinations_of_a_matrix_run_again() -> None:
    children = [child("a", "good", "build-a-0"), child("a", "bad", "build-a-1"), child("b", "good")]
    planned = of_pipeline_run.plan(run_of(children), children, keep_finally=False)
    assert [one["metadata"]["name"] for one in planned.gone] == ["build-a-0", "build-a-1"]


def test_a_task_with_on_error_continue_does_not_run_again() -> None:
    assert again([child("a", "bad"), child("b", "bad")], tasks={"a": {"onError": "continue"}}) == {"b"}


def test_a_failed_pipeline_run_with_consent_can_run_again() -> None:
    assert not refusal([child("a", "good"), child("b", "bad")])


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"annotations": {}}, "does not say of b that it may run twice"),
        ({"tasks": {"b": {"taskSpec": {"metadata": {"annotations": {names.RETRYABLE: "false"}}}}}}, "not say of b"),
        ({"status": {"conditions": [succeeded("True")]}}, "has succeeded"),
        ({"status": {"conditions": [succeeded("Unknown")]}}, "has not ended"),
        ({"status": {"conditions": []}}, "has not ended"),
        ({"status": {"completionTime": None}}, "has not ended"),  # the completion time is the run's name
        ({"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}, "is managed by kueue.x-k8s.io/multikueue"),
        ({"metadata": {"deletionTimestamp": ENDED}}, "is being deleted"),
    ],
)
def test_any_other_pipeline_run_is_refused_with_the_reason(how: Json, why: str) -> None:
    assert why in refusal([child("a", "good"), child("b", "bad")], **how)


def test_a_pipeline_run_of_another_controller_is_refused() -> None:
    owner = {"apiVersion": "example.test/v1", "kind": "Release", "name": "above", "uid": "u", "controller": True}
    assert "is managed by Release above" in refusal([child("b", "bad")], metadata={"ownerReferences": [owner]})


def test_a_task_that_has_not_run_needs_no_consent() -> None:
    says_so = {"taskSpec": {"metadata": {"annotations": YES}}}
    assert not refusal([child("b", "bad")], annotations={}, tasks={"b": says_so, "c": {}})


def test_a_run_whose_task_runs_do_not_exist_is_refused_unless_a_retry_has_deleted_them() -> None:
    children = [child("a", "good"), child("b", "bad")]
    run = run_of(children)
    assert "TaskRun build-a of its task a no longer exists" in refusal(children[1:], run)
    planned = of_pipeline_run.plan(run, children, keep_finally=False)
    run = jsonpatch.apply_patch(run, of_pipeline_run.record_patch(run, planned, "alice", WHEN, keep_finally=False))
    assert not refusal(children[:1], run)
    assert again(children[:1], run) == {"b"}


def test_a_run_with_a_failed_child_pipeline_is_refused() -> None:
    run = run_of([child("a", "good"), child("b", "bad") | {"kind": "PipelineRun"}])
    assert "its task b is a PipelineRun" in refusal([child("a", "good")], run)


def test_a_run_whose_pods_would_wait_for_an_affinity_assistant_is_refused() -> None:
    annotations = {of_pipeline_run.AFFINITY_ASSISTANT: "affinity-assistant-1"}
    children = [child("a", "good", annotations=annotations), child("b", "bad", annotations=annotations)]
    assert "affinity assistant" in refusal(children)
    assert not refusal(children[1:])  # without a TaskRun that stays, the controller creates the assistant again


def test_the_status_of_the_end_is_removed_and_the_timeouts_start_again() -> None:
    children = [child("a", "good"), child("b", "bad")]
    run = run_of(children)
    now = of_pipeline_run.run_again(run, of_pipeline_run.plan(run, children, keep_finally=False), WHEN)["status"]
    assert not now.keys() & set(of_pipeline_run.OF_THE_END)
    assert now["startTime"] == WHEN
    assert [one["name"] for one in now["childReferences"]] == ["build-a"]
    ((kind, status),) = [(one["type"], one["status"]) for one in now["conditions"]]
    assert (kind, status) == ("Succeeded", "Unknown")


def test_the_cancellation_is_removed() -> None:
    run = run_of([child("b", "bad")], spec={"status": "Cancelled", "params": []})
    assert jsonpatch.apply_patch(run, of_pipeline_run.uncancel(run))["spec"] == {"params": []}
    assert of_pipeline_run.uncancel(run_of([])) == []


@pytest.mark.parametrize(
    ("created", "status", "undone"),
    [
        (["2026-11-22T08:00:00Z"], "False", True),
        (["2026-11-22T08:00:00Z", "2026-11-22T08:30:00Z"], "False", False),
        ([], "False", True),
        ([], "Unknown", False),
    ],
)
def test_a_recorded_retry_is_unfinished_if_the_run_has_failed_without_a_new_child(
    created: list[str],
    status: str,
    undone: bool,  # noqa: FBT001
) -> None:
    run = run_of([])
    noted = record.Requested(at="2026-11-22T08:30:00+00:00", by="alice", of="before")
    run["metadata"]["annotations"] = {names.RETRY_HISTORY: record.with_new(run, noted)}
    run["status"]["conditions"] = [succeeded(status)]
    children = [child("a", "good", creationTimestamp=one) for one in created]
    assert of_pipeline_run.is_unfinished(workload(run, children)) is undone


def test_a_run_without_a_recorded_retry_is_not_unfinished() -> None:
    assert not of_pipeline_run.is_unfinished(workload(run_of([]), []))


def test_a_retry_is_recorded_once() -> None:
    failed = child("b", "bad")
    failed["status"]["conditions"] = [{**succeeded("False", "Failed"), "message": "exited with code 1"}]
    run = run_of([failed])
    planned = of_pipeline_run.plan(run, [failed], keep_finally=False)
    run = jsonpatch.apply_patch(run, of_pipeline_run.record_patch(run, planned, "alice", WHEN, keep_finally=False))
    assert of_pipeline_run.steps(workload(run, [failed]), "bob").record == []
    (noted,) = record.read(run)
    assert (noted.at, noted.by, noted.of, noted.ended) == (WHEN, "alice", ENDED, ("b: Failed: exited with code 1",))


@pytest.mark.parametrize(
    ("timeouts", "passed"),
    [
        ({}, False),
        ({"pipeline": "30m"}, True),
        ({"pipeline": "1h0m0s", "tasks": "29m"}, True),
        ({"pipeline": "0"}, False),
        ({"pipeline": "50m", "finally": "20m"}, True),
    ],
)
def test_a_run_whose_timeout_has_passed_is_refused_while_a_task_run_stays(timeouts: Json, passed: bool) -> None:  # noqa: FBT001
    spec = {"timeouts": timeouts}
    assert ("counts from 2026-11-21T12:30:00Z" in refusal([child("a", "good"), child("b", "bad")], spec=spec)) == passed
    assert not refusal([child("b", "bad")], spec=spec)
