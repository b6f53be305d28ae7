"""An Argo Workflow runs again in place, as by `argo retry`: what succeeded stays, and failed nodes run again.

A node that does not exist is created again by Argo's controller, with a pod of the same name. So the failed nodes and
all that came after them are taken out of the status, and their pods are deleted; the steps and DAGs around them run
again (FormulateRetryWorkflow in workflow/util/util.go of Argo Workflows 3.7.3). Exit handlers run again too.

Reads:
    metadata.annotations[retry-policy.dev/{retryable,retry-history}] of the Workflow, and those of its templates
    metadata.annotations[workflows.argoproj.io/node-id] of its pods
    status.{phase,finishedAt,nodes,storedWorkflowTemplateSpec}
Writes:
    spec.shutdown, metadata.labels[workflows.argoproj.io/{completed,phase,workflow-archiving-status}]
    status.{phase,message,startedAt,finishedAt,conditions,nodes,persistentVolumeClaims}
    status.storedWorkflowTemplateSpec.shutdown
    metadata.annotations[retry-policy.dev/{retry-history,ledger}], metadata.labels[retry-policy.dev/retry-in-progress]
"""

from collections import defaultdict
from collections.abc import Container, Iterable
from typing import Any, Final, NamedTuple

from webhook.objects.patch import at
from webhook.objects.problem import Json, Problem
from webhook.retry import requests
from webhook.systems import core, refusals
from webhook.systems.adapter import (
    Adapter,
    Children,
    InPlace,
    Steps,
    Workload,
    is_recorded,
    record_of,
    rights_in_place,
)
from webhook.systems.argo import spec as argo

PREFIX: Final = "workflows.argoproj.io/"
WORKFLOW: Final = f"{PREFIX}workflow"  # label of the pods
NODE: Final = f"{PREFIX}node-id"
# Types of nodes (NodeType in pkg/apis/workflow/v1alpha1).
EXECUTED: Final = frozenset({"Container", "Pod", "HTTP", "Plugin"})
GROUPS: Final = frozenset({"DAG", "Steps", "StepGroup", "TaskGroup"})
OFFLOADED: Final = ("compressedNodes", "offloadNodeStatusVersion")


class Graph:
    """The nodes of a Workflow by their ids, with their children and parents that exist; any user may write a status."""

    def __init__(self, workflow: Json) -> None:
        nodes: Any = at(workflow, ("status", "nodes"))
        found = nodes.items() if isinstance(nodes, dict) else ()
        self.nodes: dict[str, Json] = {key: node for key, node in found if isinstance(node, dict)}
        self.children = {key: self.ids(node.get("children")) for key, node in self.nodes.items()}
        self.parents: defaultdict[str, list[str]] = defaultdict(list)
        for key, children in self.children.items():
            for child in children:
                self.parents[child].append(key)
        name = workflow["metadata"]["name"]
        self.handlers = f"{name}.onExit"
        self.root = next((key for key, node in self.nodes.items() if node.get("name") == name), None)

    def ids(self, found: Any) -> list[str]:
        """Return those ids in a list that are nodes."""
        return [key for key in found if isinstance(key, str) and key in self.nodes] if isinstance(found, list) else []

    def type_of(self, key: str) -> str:
        """Return the type of a node; empty if it has none."""
        return str(self.nodes[key].get("type") or "")

    def has_failed(self, key: str) -> bool:
        """Return True if a node has failed."""
        return self.nodes[key].get("phase") in argo.FAILED

    def of_handlers(self) -> set[str]:
        """Return the nodes of exit handlers."""
        return {key for key, node in self.nodes.items() if str(node.get("name") or "").startswith(self.handlers)}

    def reached(self, start: Iterable[str], edges: dict[str, list[str]], known: Container[str] = ()) -> dict[str, None]:
        """Return the nodes that are reached from others by edges, nearest first; these are among them.

        Not those in `known`, and what is reached through these alone.
        """
        found = dict.fromkeys(key for key in start if key not in known)
        todo = list(found)
        for key in todo:
            new = [one for one in edges.get(key, ()) if one not in found and one not in known]
            found.update(dict.fromkeys(new))
            todo += new
        return found


class WorkflowPlan(NamedTuple):
    """The plan of a retry: ids of the nodes that are taken out, and of those around them that run again."""

    gone: set[str]
    again: set[str]


def plan(graph: Graph) -> WorkflowPlan:
    """Return the plan: each failed node runs again, unless an attempt or a step after it has succeeded.

    The steps, DAGs and retries around it run again too, and the pod of a container. What is before or after many failed
    nodes is looked at once.
    """
    succeeded = [key for key, node in graph.nodes.items() if node.get("phase") == "Succeeded"]
    before_success = graph.reached(succeeded, graph.parents)
    planned = WorkflowPlan(graph.of_handlers(), set())
    after: set[str] = set()  # the nodes that are gone with all that came after them
    around: dict[bool, set[str]] = {True: set(), False: set()}  # by whether they are around a container

    def take_out(key: str) -> None:
        new = graph.reached([key], graph.children, after)
        after.update(new)
        planned.gone.update(new)

    for key in graph.reached([] if graph.root is None else [graph.root], graph.children):
        kind = graph.type_of(key)
        if key in planned.gone or not graph.has_failed(key) or kind not in EXECUTED:
            continue
        if _is_settled(graph, key, before_success):
            continue
        take_out(key)
        is_container = kind == "Container"
        above = graph.reached([key], graph.parents, around[is_container])
        around[is_container].update(above)
        for one in above:
            kind = graph.type_of(one)
            if kind == "Pod" and is_container:
                take_out(one)
            elif kind in GROUPS or (kind == "Retry" and graph.has_failed(one)):
                planned.again.add(one)
    planned.again.difference_update(planned.gone)
    return planned


def _is_settled(graph: Graph, key: str, before_success: Container[str]) -> bool:
    """Return True if another attempt than a node that has failed, or a step after it, has succeeded."""
    if not at(graph.nodes[key], ("nodeFlag", "retried")):
        return key in before_success
    return any(graph.type_of(parent) == "Retry" and parent in before_success for parent in graph.parents[key])


def run_again(workflow: Json, when: str) -> Json:
    """Return a Workflow in which the failed nodes run again, from the time `when`, RFC 3339."""
    graph = Graph(workflow)
    planned = plan(graph)
    metadata, status = {**workflow["metadata"]}, {**workflow["status"]}
    labels = {**(metadata.get("labels") or {}), f"{PREFIX}phase": "Running"}
    metadata["labels"] = {
        key: value
        for key, value in labels.items()
        if key not in {f"{PREFIX}completed", f"{PREFIX}workflow-archiving-status"}
    }
    others = [one for one in status.get("conditions") or () if one.get("type") != "Completed"]
    status |= {
        "phase": "Running",
        "startedAt": when,
        "finishedAt": None,
        "conditions": [*others, {"type": "Completed", "status": "False"}],
        "nodes": {
            key: _without(planned.gone, node, when if key in planned.again else None)
            for key, node in graph.nodes.items()
            if key not in planned.gone
        },
    }
    for field in ("message", "persistentVolumeClaims"):
        status.pop(field, None)
    stored = status.get("storedWorkflowTemplateSpec")
    if isinstance(stored, dict):
        status["storedWorkflowTemplateSpec"] = {key: value for key, value in stored.items() if key != "shutdown"}
    spec = {key: value for key, value in workflow["spec"].items() if key != "shutdown"}
    return {**workflow, "metadata": metadata, "spec": spec, "status": status}


def _without(gone: set[str], node: Json, begins: str | None) -> Json:
    """Return a node without references to nodes that are gone; `begins`: the time from which it runs again, if so."""
    left = {
        field: [one for one in node[field] if one not in gone]
        for field in ("children", "outboundNodes")
        if isinstance(node.get(field), list)
    }
    if begins is None:
        return {**node, **left}
    rest = {key: value for key, value in node.items() if key != "message"}
    return {**rest, **left, "phase": "Running", "startedAt": begins, "finishedAt": None}


def refusal(found: Workload) -> Problem | None:
    """Return why a Workflow cannot run again; None if it can."""
    workflow = found.root
    metadata, phase, name = workflow["metadata"], _phase_of(workflow), refusals.kind_and_name("Workflow", workflow)
    if problem := refusals.is_of_others(name, workflow, maker=argo.CRON_WORKFLOW):
        return problem
    if phase == "Succeeded":
        return refusals.has_succeeded(name)
    if phase not in argo.FAILED or not _run_of(workflow):
        return refusals.has_not_ended(name)
    if any(at(workflow, ("status", field)) for field in OFFLOADED):
        what = f"{name}: its nodes are not stored in the Workflow itself"
        return Problem((), what, f"argo retry -n {metadata['namespace']} {metadata['name']}")
    without_consent = [] if is_recorded(found, _run_of(workflow)) else _templates_without_consent(workflow)
    if without_consent:
        target = f"workflow/{metadata['name']}"
        return refusals.may_not_run_twice(name, target, workflow, [one for one in without_consent if one])
    return None


def _templates_without_consent(workflow: Json) -> list[str]:
    """Return the templates of nodes that would run twice and may not; an empty name for the Workflow itself."""
    graph = Graph(workflow)
    outer = workflow["metadata"].get("annotations")
    own: dict[str, Any] = {}
    for spec in (at(workflow, ("status", "storedWorkflowTemplateSpec")), workflow["spec"]):
        for template in at(spec, ("templates",)) or ():
            own[template.get("name") or ""] = at(template, ("metadata", "annotations"))
    run = [graph.nodes[key] for key in plan(graph).gone if graph.type_of(key) in EXECUTED]
    ran = {str(node.get("templateName") or "") for node in run} or {""}
    return sorted(one for one in ran if not requests.may_run_twice([outer, own.get(one)]))


def _phase_of(workflow: Json) -> str:
    return at(workflow, ("status", "phase")) or ""


def _run_of(workflow: Json) -> str:
    """Return the time of the end, which names the run that has failed; empty if it has not ended."""
    return at(workflow, ("status", "finishedAt")) or ""


def steps(found: Workload, by: str) -> Steps:
    """Return the writes that make a Workflow run again."""
    workflow = found.root
    gone = plan(Graph(workflow)).gone
    return Steps(
        record=record_of(found, by, _run_of(workflow)),
        deleted=tuple(pod for pod in found.children if at(pod, ("metadata", "annotations", NODE)) in gone),
        again=lambda stored: run_again(stored, found.when),
    )


def has_begun(now: Workload, before: Workload) -> bool:
    """Return True if a Workflow runs again, or has run again since, also because of another request."""
    return _phase_of(now.root) not in argo.ENDED or _run_of(now.root) != _run_of(before.root)


def what_reruns(found: Workload) -> str:
    """Return which nodes of a Workflow will run again, without the verb."""
    graph = Graph(found.root)
    failed = sorted(
        {
            str(graph.nodes[key].get("displayName") or graph.nodes[key].get("name"))
            for key in plan(graph).gone - graph.of_handlers()
            if graph.has_failed(key)
        }
    )
    what = f"{', '.join(failed)} and what has not run yet" if failed else "all that has not succeeded"
    return f"{refusals.kind_and_name('Workflow', found.root)}: {what}"


def cannot_be_suspended(workflow: Json) -> Problem | None:
    """Return why a Workflow can be neither suspended nor resumed; None if it can."""
    if _phase_of(workflow) not in argo.ENDED:
        return None
    return Problem((), f"{refusals.kind_and_name('Workflow', workflow)} has ended", "nothing was changed")


ADAPTER: Final = Adapter(
    kind=argo.WORKFLOW,
    rights=rights_in_place(argo.WORKFLOW, core.POD, status=""),
    run_id=lambda found: _run_of(found.root),
    refusal=refusal,
    what_reruns=what_reruns,
    cannot_be_suspended=cannot_be_suspended,
    children=Children(kinds=(core.POD,), selector=lambda root: f"{WORKFLOW}={root['metadata']['name']}"),
    in_place=InPlace(steps=steps, has_begun=has_begun, status=""),
)
ADAPTERS: Final = (ADAPTER,)
