"""Tekton: what the end of a TaskRun's pod costs, and how the leader stops the retries of a TaskRun.

Source: pkg/reconciler/taskrun/taskrun.go and pkg/pod/status.go of Tekton 1.9, seen on its controller too. Tekton
retries a TaskRun whatever ended its pod, a disruption too. Only if a pod is removed before its containers have ended is
it created again for free. A TaskRun that is cancelled (`spec.status`) is not retried; in its PipelineRun it has not
succeeded, so that no task runs after it, and `finally` runs. Tekton then deletes the pod that its status names. So a
TaskRun is cancelled only once it has recorded the attempt that failed: else its pod would be deleted with its logs.
"""

import re
from typing import Final

from webhook.kube import names, terminal
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems.system import Spent, System, Write
from webhook.systems.tekton import spec as tekton

CANCELLED: Final = "TaskRunCancelled"
# The values of spec.status with which a PipelineRun cancels all of its TaskRuns, and that with which a TaskRun ends.
CANCELLING: Final = frozenset({"Cancelled", "CancelledRunFinally", CANCELLED})
SIDECAR: Final = "sidecar-"  # the beginning of the names of containers that are no steps
BY: Final = names.PREFIX.rstrip("/")  # who has cancelled it
LONGEST: Final = 1024  # characters of a message
RETRY: Final = re.compile(r"-retry([0-9]{1,9})\Z")


def cost_of(pod: Pod, _root: Json, spent: Spent, _settings: Settings) -> AttemptCost:
    """Return a retry if Tekton has seen the pod fail, however it was ended; else what it was: a disruption or free.

    Nothing for the pod of the retry that Tekton had begun before its TaskRun was cancelled, nor for a sidecar that
    fails after the steps, with which a TaskRun ends.
    """
    if spent.ended or (pod.exits and all(one.container.startswith(SIDECAR) for one in pod.exits)):
        return "none"
    if _was_seen_to_fail(pod):
        return "retry"
    return "free" if pod.disruption is None else "disruption"


def _was_seen_to_fail(pod: Pod) -> bool:
    """Return True if the API said that a pod had failed before it was removed. The ledger counts each as failed."""
    return bool(pod.ended or pod.reason)


def has_ended(root: Json) -> bool:
    """Return True if a PipelineRun or TaskRun has ended, is cancelled or is deleted."""
    if root["metadata"].get("deletionTimestamp") or at(root, ("spec", "status")) in CANCELLING:
        return True
    return terminal.condition_of(root) is not None


def fail(_root: Json, pod: Pod | None, _reason: str, message: str) -> Write | None:
    """Return the write that cancels the TaskRun of a pod, if it goes on; None if no TaskRun controls the pod.

    Tekton shows the message on the TaskRun. If the pod has failed, the write does nothing before the TaskRun has
    recorded that attempt.
    """
    if pod is None or not pod.controller:
        return None
    found = RETRY.search(pod.name)
    attempt = 0 if found is None else int(found[1])
    recorded = {"op": "test", "path": f"/status/retriesStatus/{attempt}/podName", "value": pod.name}
    return Write(
        path=tekton.TASK_RUN.path(pod.namespace, pod.controller),
        operations=[
            {"op": "test", "path": "/metadata/uid", "value": pod.controller_uid},
            {"op": "test", "path": "/status/conditions/0/status", "value": "Unknown"},
            *([recorded] if _was_seen_to_fail(pod) else []),
            {"op": "add", "path": "/spec/status", "value": CANCELLED},
            {"op": "add", "path": "/spec/statusMessage", "value": f"{BY}: {message}"[:LONGEST]},
        ],
    )


# Neither can be suspended: PipelineRunPending is allowed only before the start.
PIPELINE_RUN: Final = System(
    kind=tekton.PIPELINE_RUN,
    unit="task",
    cost_of=cost_of,
    has_ended=has_ended,
    ends_bugs=True,
    fail=fail,
    scopes_end_alone=True,
)
TASK_RUN: Final = System(
    kind=tekton.TASK_RUN,
    unit="task",
    cost_of=cost_of,
    has_ended=has_ended,
    ends_bugs=True,
    fail=fail,
    writes={("status",): (CANCELLED,), ("statusMessage",): ()},
)
SYSTEMS: Final = (PIPELINE_RUN, TASK_RUN)
