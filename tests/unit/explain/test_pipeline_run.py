"""What `explain` shows of the tasks of a PipelineRun."""

from typing import Any

import pytest

from tests.accounts import held, holding
from tests.objects import pod as pod_of
from webhook.accounts.account import Account, Attempt
from webhook.accounts.scopes import Scopes
from webhook.explain import build, pipeline_run
from webhook.explain.build import Explanation
from webhook.explain.render import parts
from webhook.kube import names
from webhook.objects import columns
from webhook.objects.left_out import UnfitError
from webhook.objects.problem import Json
from webhook.retry import record
from webhook.systems.tekton import spec as tekton


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
    lines = list(columns.lines(parts(explain(run(**{names.RETRY_HISTORY: record.with_new(run(), request)}), [A], []))))
    assert "retry requested by alice at 2026-11-22T08:10:00Z, after b: Failed: exited with code 1" in lines
    assert any(line.startswith("ATTEMPT   TASK   POD") for line in lines)


BUG = Attempt(
    attempt=0,
    scope="b",
    pod="build-b-pod",
    node="node-7",
    placement="Spot",
    start="2026-11-22T08:01:01Z",
    end="2026-11-22T08:01:30Z",
    cause="ExitCode",
    reason="step-main 42",
    cost="fatal",
    settled=True,
)


def with_account(*details: Attempt, disrupted: str = "") -> Json:
    account = Account(ended=len(details), last=list(details), scopes=Scopes())
    for detail in details:
        account.cost[detail.cost] = account.spent(detail.cost) + 1
    if disrupted:
        account.scopes.add(disrupted)
    return holding(tekton.PIPELINE_RUN, run(), account)


def explain(root: Json, children: list[Json], pods: list[Json]) -> Explanation:
    return build.explain(tekton.PIPELINE_RUN, root, children, [*pods, *held(root)])


def test_what_the_account_knows_of_an_attempt_is_shown_with_what_tekton_says_of_it() -> None:
    failed = task_run(
        "b",
        status("False", 2, "build-b-pod-retry1"),
        status("False", 1, "build-b-pod", "exited with code 42"),
        retries=2,
    )
    explanation = explain(with_account(BUG), [failed], [])
    bug, cancelled = explanation.rows
    assert (bug.node, bug.placement, bug.ended) == ("node-7", "spot", "Failed: exited with code 42")
    assert (bug.cost, bug.rule) == ("fatal", "the ledger: a bug")
    assert cancelled.pod == "build-b-pod-retry1"
    assert explanation.summary == "1 task begun: 1 failed; 1 attempt ended: 1 fatal end"


def test_an_attempt_whose_start_tekton_notes_after_the_end_of_its_pod_is_one_row() -> None:
    pod = pod_of(name="build-b-pod", namespace="ml", uid="pod-uid", creationTimestamp="2026-11-22T08:01:00Z")
    late = {**status("False", 1, "build-b-pod", "exited with code 42"), "startTime": "2026-11-22T08:01:40Z"}
    (row,) = explain(with_account(BUG), [task_run("b", late)], [pod]).rows
    assert (row.start, row.rule) == ("2026-11-22T08:01:00Z", "the ledger: a bug")


def test_a_pod_that_was_created_again_for_free_is_a_row_of_its_own() -> None:
    vanished = Attempt(
        attempt=0,
        scope="b",
        pod="build-b-pod",
        start="2026-11-22T08:01:01Z",
        end="2026-11-22T08:01:10Z",
        cause="Disruption",
        reason="DeletionByPodGC",
        cost="disruption",
    )
    now = task_run("b", status("True", 1, "build-b-pod"), retries=2)
    explanation = explain(with_account(vanished, disrupted="b"), [now], [])
    assert [(row.pod, row.ended, row.cost) for row in explanation.rows] == [
        ("build-b-pod", "succeeded", "none"),
        ("build-b-pod", "disruption DeletionByPodGC", "disruption"),
    ]
    assert explanation.budgets == ["task b: 0 of 2 retries spent, 1 disruption without a retry"]


def test_an_attempt_before_a_requested_retry_is_not_taken_for_the_one_after_it() -> None:
    now = task_run("b", status("False", 30, "build-b-pod", "exited with code 1"))
    rows = explain(with_account(BUG), [now], []).rows
    assert [(row.ended, row.cost) for row in rows] == [
        ("container step-main exit code 42", "fatal"),
        ("Failed: exited with code 1", "fatal"),
    ]


def test_the_combinations_of_a_matrix_are_told_apart() -> None:
    many = [task_run("many", status("True", number, f"build-many-{number}-pod"), retries=1) for number in range(2)]
    for number, one in enumerate(many):
        one["metadata"]["name"] = f"build-many-{number}"
    explanation = explain(run(), many, [])
    assert [row.unit for row in explanation.rows] == ["many/0", "many/1"]
    assert explanation.budgets == ["task many/0: 0 of 1 retry spent", "task many/1: 0 of 1 retry spent"]


def test_a_malformed_account_is_refused() -> None:
    with pytest.raises(UnfitError, match="Expected `int`"):
        explain(holding(tekton.PIPELINE_RUN, run(), {"attempts": "two"}), [A], [])


def test_tasks_that_have_begun_are_summed_up_without_an_account() -> None:
    children = [
        {"metadata": {"name": name}, "status": status(how, 1, name)} for name, how in (("a", "True"), ("b", ""))
    ]
    assert pipeline_run.summary(children, Account()) == "2 tasks begun: 1 succeeded, 1 not over"
