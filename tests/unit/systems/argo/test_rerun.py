"""The retry of a Workflow, in place, as by `argo retry`."""

from typing import Any

import jsonpatch
import pytest

from tests.costs import lines_of
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry import record
from webhook.systems.adapter import Workload
from webhook.systems.argo import rerun as of_workflow
from webhook.systems.argo.rerun import Graph, plan

YES = {names.RETRYABLE: "true"}
ENDED = "2026-11-21T12:00:00Z"
WHEN = "2026-11-21T13:00:00+00:00"
UID = "workflow-uid"
CRON = {"apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow", "name": "w", "uid": "u", "controller": True}
OTHER = {"apiVersion": "example.test/v1", "kind": "Release", "name": "above", "uid": "u", "controller": True}


def node(kind: str, phase: str, *children: str, **fields: Any) -> Json:
    return {"type": kind, "phase": phase, "children": [*children], "startedAt": ENDED, "finishedAt": ENDED, **fields}


def attempt(phase: str, *children: str) -> Json:
    return node("Pod", phase, *children, nodeFlag={"retried": True})


# A DAG: fetch has succeeded; train, after it, has failed twice; report waits for train.
DAG: Json = {
    "root": node("DAG", "Failed", "fetch", message="child failed"),
    "fetch": node("Pod", "Succeeded", "train", boundaryID="root"),
    "train": node("Retry", "Failed", "train-0", "train-1", boundaryID="root", message="No more retries left"),
    "train-0": attempt("Failed"),
    "train-1": attempt("Failed", "report"),
    "report": node("Omitted", "Omitted", boundaryID="root"),
}


def workflow(nodes: Json | None = None, **more: Any) -> Json:
    """Return a failed Workflow with these nodes, whose names are their ids; that of the first is the Workflow's."""
    found = {key: {"id": key, "name": key, **one} for key, one in (DAG if nodes is None else nodes).items()}
    if found:
        found[next(iter(found))]["name"] = "w"
    return {
        "metadata": {
            "name": "w",
            "namespace": "ml",
            "uid": UID,
            "resourceVersion": "7",
            "annotations": YES,
            "labels": {f"{of_workflow.PREFIX}completed": "true", f"{of_workflow.PREFIX}phase": "Failed", "team": "ml"},
            **more.get("metadata", {}),
        },
        "spec": {"entrypoint": "main", "shutdown": "Stop", **more.get("spec", {})},
        "status": {
            "phase": "Failed",
            "message": "child failed",
            "startedAt": "2026-11-21T11:00:00Z",
            "finishedAt": ENDED,
            "conditions": [{"type": "PodRunning", "status": "False"}, {"type": "Completed", "status": "True"}],
            "nodes": found,
            "storedWorkflowTemplateSpec": {"shutdown": "Stop", "entrypoint": "main"},
            **more.get("status", {}),
        },
    }


def pod(node_id: str, uid: str = UID) -> Json:
    metadata = {"name": f"w-{node_id}", "ownerReferences": [{"uid": uid}]}
    return {"kind": "Pod", "metadata": {**metadata, "annotations": {of_workflow.NODE: node_id}}}


def planned(nodes: Json) -> tuple[set[str], set[str]]:
    found = plan(Graph(workflow(nodes)))
    return found.gone, found.again


def refusal(**how: Any) -> str:
    return str(of_workflow.refusal(workload(workflow(**how))) or "")


def workload(root: Json, *pods: Json) -> Workload:
    return Workload(root=root, run=root, when=WHEN, children=pods)


def test_all_attempts_of_a_failed_node_go_and_what_surrounds_it_runs_again() -> None:
    assert planned(DAG) == ({"train-0", "train-1", "report"}, {"root", "train"})


def test_a_node_of_which_a_later_attempt_has_succeeded_stays() -> None:
    nodes = {
        "root": node("Steps", "Failed", "a", "b"),
        "a": node("Retry", "Succeeded", "a-0", "a-1"),
        "a-0": attempt("Failed"),
        "a-1": attempt("Succeeded"),
        "b": node("Pod", "Error"),
    }
    assert planned(nodes) == ({"b"}, {"root"})


def test_a_node_that_failed_before_a_step_that_succeeded_stays() -> None:
    nodes = {
        "root": node("DAG", "Failed", "a"),
        "a": node("Pod", "Failed", "b"),
        "b": node("Pod", "Succeeded", "c"),
        "c": node("Pod", "Failed"),
    }
    assert planned(nodes)[0] == {"c"}


def test_the_pod_of_a_failed_container_runs_again_with_all_of_its_containers() -> None:
    nodes = {
        "root": node("Steps", "Failed", "pod"),
        "pod": node("Pod", "Failed", "good", "bad"),
        "good": node("Container", "Succeeded"),
        "bad": node("Container", "Failed"),
    }
    assert planned(nodes) == ({"pod", "good", "bad"}, {"root"})


def test_exit_handlers_run_again() -> None:
    nodes = {**DAG, "exit": node("Pod", "Succeeded", name="w.onExit")}
    assert "exit" in planned(nodes)[0]


def test_a_workflow_that_has_no_failed_node_begins_where_it_ended() -> None:
    assert planned({}) == (set(), set())
    assert of_workflow.run_again(workflow({}), WHEN)["status"]["phase"] == "Running"


def test_the_workflow_is_written_as_argo_retry_writes_it() -> None:
    again = of_workflow.run_again(workflow(), WHEN)
    assert again["metadata"]["labels"] == {f"{of_workflow.PREFIX}phase": "Running", "team": "ml"}
    assert again["spec"] == {"entrypoint": "main"}
    status = again["status"]
    assert status.pop("nodes") == {
        "root": {
            **node("DAG", "Running", "fetch", startedAt=WHEN, finishedAt=None, id="root", name="w"),
        },
        "fetch": node("Pod", "Succeeded", "train", boundaryID="root", id="fetch", name="fetch"),
        "train": node("Retry", "Running", startedAt=WHEN, finishedAt=None, boundaryID="root", id="train", name="train"),
    }
    assert status == {
        "phase": "Running",
        "startedAt": WHEN,
        "finishedAt": None,
        "conditions": [{"type": "PodRunning", "status": "False"}, {"type": "Completed", "status": "False"}],
        "storedWorkflowTemplateSpec": {"entrypoint": "main"},
    }


def test_references_to_outbound_nodes_that_go_are_removed() -> None:
    nodes = {**DAG, "root": {**DAG["root"], "outboundNodes": ["fetch", "report"]}}
    assert of_workflow.run_again(workflow(nodes), WHEN)["status"]["nodes"]["root"]["outboundNodes"] == ["fetch"]


def test_only_pods_of_nodes_that_run_again_are_deleted() -> None:
    pods = [pod("fetch"), pod("train-0"), pod("train-1")]
    steps = of_workflow.steps(workload(workflow(), *pods), "alice")
    assert [one["metadata"]["name"] for one in steps.deleted] == ["w-train-0", "w-train-1"]


def test_a_retry_is_recorded_once_and_its_account_begins_anew() -> None:
    root = workflow()
    steps = of_workflow.steps(workload(root), "alice")
    recorded = jsonpatch.apply_patch(root, steps.record)
    (found,) = record.read(recorded)
    assert (found.by, found.of, found.at) == ("alice", ENDED, WHEN)
    assert of_workflow.steps(workload(recorded), "bob").record == []


def test_a_user_reads_which_nodes_run_again() -> None:
    assert of_workflow.what_reruns(workload(workflow())) == "Workflow ml/w: train-0, train-1 and what has not run yet"
    assert of_workflow.what_reruns(workload(workflow({}))) == "Workflow ml/w: all that has not succeeded"


def test_a_failed_workflow_with_consent_can_run_again_also_one_of_a_cron_workflow() -> None:
    assert not refusal()
    assert not refusal(status={"phase": "Error"})
    assert not refusal(metadata={"ownerReferences": [CRON]})


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"metadata": {"annotations": {}}}, "does not say that it may run twice"),
        ({"metadata": {"deletionTimestamp": ENDED}}, "is being deleted"),
        ({"metadata": {"ownerReferences": [OTHER]}}, "is managed by Release above"),
        ({"status": {"phase": "Succeeded"}}, "has succeeded"),
        ({"status": {"phase": "Running"}}, "has not ended"),
        ({"status": {"phase": None}}, "has not ended"),
        ({"status": {"finishedAt": None}}, "has not ended"),
        ({"status": {"compressedNodes": "H4sI"}}, "not stored in the Workflow itself; argo retry -n ml w"),
        ({"status": {"offloadNodeStatusVersion": "fnv:1"}}, "not stored in the Workflow itself"),
    ],
)
def test_any_other_workflow_is_refused_with_the_reason(how: Json, why: str) -> None:
    assert why in refusal(**how)


def test_the_template_of_a_failed_node_may_say_that_it_may_run_twice_or_not() -> None:
    nodes = {"root": node("Pod", "Failed", templateName="train")}

    def spec(value: str) -> Json:
        templates = [{"name": "train", "metadata": {"annotations": {names.RETRYABLE: value}}}, {"name": "other"}]
        return {"templates": templates}

    assert not refusal(nodes=nodes, metadata={"annotations": {}}, spec=spec("true"))
    assert "does not say of train that it may run twice" in refusal(nodes=nodes, spec=spec("false"))
    assert "does not say of train" in refusal(
        nodes=nodes, spec={}, status={"storedWorkflowTemplateSpec": spec("false")}
    )


def test_a_workflow_runs_again_once_its_phase_says_so_or_another_run_has_ended() -> None:
    before = workload(workflow())
    assert not of_workflow.has_begun(before, before)
    assert of_workflow.has_begun(workload(workflow(status={"phase": "Running"})), before)
    assert of_workflow.has_begun(workload(workflow(status={"finishedAt": WHEN})), before)


def test_a_workflow_can_be_suspended_until_it_has_ended() -> None:
    assert "has ended" in str(of_workflow.cannot_be_suspended(workflow()))
    assert of_workflow.cannot_be_suspended(workflow(status={"phase": "Running"})) is None


@pytest.mark.parametrize(
    "nodes",
    [5, [], {"a": 5}, {"a": {"children": 5}}, {"a": {"children": [5, "none"], "name": 5}}, {"a": {"nodeFlag": 5}}],
)
def test_a_status_that_a_user_has_written_is_no_error(nodes: Any) -> None:
    root = workflow()
    root["status"]["nodes"] = nodes
    of_workflow.what_reruns(workload(root))
    of_workflow.run_again(root, WHEN)


def test_nodes_in_a_circle_and_very_many_of_them_are_planned_in_bounded_time() -> None:
    circle = {"root": node("DAG", "Failed", "a"), "a": node("Pod", "Failed", "b"), "b": node("DAG", "Failed", "a")}
    assert planned(circle)[0] == {"a", "b"}
    wide = {f"n{number}": node("Pod", "Failed", boundaryID="root") for number in range(1_000)}
    deep = {f"d{number}": node("DAG", "Failed", f"d{number + 1}") for number in range(1_000)}
    nodes = {"root": node("DAG", "Failed", *wide, "d0"), **deep, "d1000": node("Pod", "Failed"), **wide}
    assert len(planned(nodes)[0]) == len(wide) + 1
    assert lines_of(lambda: planned(nodes)) < 125 * len(nodes)


def test_what_surrounds_many_failed_nodes_is_looked_at_once() -> None:
    inner = {f"d{number}": node("DAG", "Failed", f"p{number}", f"d{number + 1}") for number in range(500)}
    pods = {f"p{number}": node("Pod", "Failed", "c0") for number in range(500)}
    after = {f"c{number}": node("Omitted", "Omitted", f"c{number + 1}") for number in range(500)}
    nodes = {"root": node("DAG", "Failed", "d0"), **inner, **pods, **after}
    assert planned(nodes) == (pods.keys() | after.keys(), {"root"} | inner.keys())
    assert lines_of(lambda: planned(nodes)) < 125 * len(nodes)
