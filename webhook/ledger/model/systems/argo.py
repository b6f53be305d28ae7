"""Argo Workflows: the scope is a node. Source: workflow/controller of Argo Workflows 3.7.3.

Each attempt of a node counts for the limit of its retryStrategy.
"""

from typing import Final

from webhook.kinds import argo
from webhook.ledger.model.outcomes import Cost
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.systems.system import Spent, System, Write, unless_changed
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.settings import Settings

ENDED: Final = frozenset({"Succeeded", "Failed", "Error"})


def cost_of(pod: Pod, _root: Json, _spent: Spent, _settings: Settings) -> Cost:
    """Return what the end of a pod cost."""
    return "retry" if pod.disruption is None else "disruption"


def has_ended(root: Json) -> bool:
    """Return True if a Workflow has ended, or is told to."""
    return at(root, ("status", "phase")) in ENDED or bool(at(root, ("spec", "shutdown")))


def fail(root: Json, _pod: Pod, _reason: str, _message: str) -> Write:
    """Return the write that ends a Workflow, with its exit handlers."""
    metadata = root["metadata"]
    path = argo.WORKFLOW.path(metadata["namespace"], metadata["name"])
    return Write(path, [unless_changed(root), {"op": "add", "path": "/spec/shutdown", "value": "Stop"}])


def suspend(root: Json) -> Write:
    """Return the write that starts no further pods of a Workflow."""
    metadata = root["metadata"]
    path = argo.WORKFLOW.path(metadata["namespace"], metadata["name"])
    return Write(path, [unless_changed(root), {"op": "add", "path": "/spec/suspend", "value": True}])


WORKFLOW: Final = System(
    row=argo.WORKFLOW,
    cost_of=cost_of,
    has_ended=has_ended,
    ends_bugs=False,
    fail=fail,
    suspend=suspend,
    writes={("shutdown",): ("Stop",), ("suspend",): (True,)},
)
