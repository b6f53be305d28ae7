"""Tekton: the scope in a PipelineRun is a task. Source: pkg/reconciler/taskrun of Tekton 1.9.0.

A TaskRun that is cancelled is not retried.
"""

from typing import Final

from webhook.kinds import tekton
from webhook.ledger.model.outcomes import Cost
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.systems.system import Spent, System, Write
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.settings import Settings

CANCELLED: Final = "TaskRunCancelled"


def cost_of(_pod: Pod, _root: Json, _spent: Spent, _settings: Settings) -> Cost:
    """Return what the end of a pod cost: each one but a deletion costs a retry."""
    return "retry"


def has_ended(root: Json) -> bool:
    """Return True if a run has ended, or is told to."""
    conditions = at(root, ("status", "conditions")) or ()
    decided = any(one.get("type") == "Succeeded" and one.get("status") in {"True", "False"} for one in conditions)
    return decided or bool(at(root, ("spec", "status")))


def fail(_root: Json, pod: Pod, _reason: str, message: str) -> Write:
    """Return the write that cancels the TaskRun of a pod."""
    path = tekton.TASK_RUN.path(pod.namespace, pod.controller)
    return Write(
        path,
        [
            {"op": "add", "path": "/spec/status", "value": CANCELLED},
            {"op": "add", "path": "/spec/statusMessage", "value": message},
        ],
    )


def suspend(_root: Json) -> None:
    """Return None: no run can be suspended."""
    return


TASK_RUN: Final = System(
    row=tekton.TASK_RUN,
    cost_of=cost_of,
    has_ended=has_ended,
    ends_bugs=True,
    fail=fail,
    suspend=suspend,
    writes={("status",): (CANCELLED,), ("statusMessage",): ()},
)
PIPELINE_RUN: Final = System(
    row=tekton.PIPELINE_RUN,
    cost_of=cost_of,
    has_ended=has_ended,
    ends_bugs=True,
    fail=fail,
    suspend=suspend,
)
