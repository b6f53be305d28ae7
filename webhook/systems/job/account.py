"""Jobs: the scope is an index. What the end of a pod costs is what the Job controller makes of its podFailurePolicy.

A Job is failed in the way in which the Job controller itself does: by the condition FailureTarget. It then deletes the
pods and sets Failed with the same reason and message (pkg/controller/job of Kubernetes 1.36).
"""

from typing import Final

from webhook.kube import terminal
from webhook.objects.patch import unless_changed
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.systems import kueue
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import controller_of
from webhook.systems.system import System, Write, condition, set_in_spec, status_of


def _has_ended(root: Json) -> bool:
    is_held = root["metadata"].get("deletionTimestamp") or (root.get("spec") or {}).get("suspend")
    return bool(is_held) or terminal.is_decided(root.get("status") or {})


def _fail(root: Json, _pod: Pod | None, reason: str, message: str) -> Write | None:
    status = root.get("status") or {}
    if terminal.is_decided(status):
        return None
    target = condition("FailureTarget", reason, message)
    conditions = [*(status.get("conditions") or ()), {**target, "lastProbeTime": target["lastTransitionTime"]}]
    return Write(
        status_of(batch.JOB, root),
        [unless_changed(root), {"op": "add", "path": "/status/conditions", "value": conditions}],
    )


def end_suspended(root: Json, reason: str, message: str) -> Write:
    """Return the write that ends a suspended Job without pods.

    The Job controller cannot do that after a queue has suspended the Job: the API accepts no end of a Job without a
    startTime, and Kueue removes the startTime of a suspended Job again and again.
    """
    status = root.get("status") or {}
    ends = [condition(kind, reason, message) for kind in ("FailureTarget", "Failed")]
    time = ends[0]["lastTransitionTime"]
    said = {
        "conditions": [*(status.get("conditions") or ()), *({**one, "lastProbeTime": time} for one in ends)],
        "startTime": status.get("startTime") or time,
    }
    operations = [{"op": "add", "path": f"/status/{field}", "value": value} for field, value in said.items()]
    return Write(status_of(batch.JOB, root), [unless_changed(root), *operations])


def raise_limit(root: Json, limit: int) -> Write | None:
    """Return the write that raises the backoffLimit of a Job; None if it is as high, or the end of the Job decided.

    It fails if the limit has changed since it was read, not for another change: the status changes all the time.
    """
    now = root["spec"].get("backoffLimit")
    if now is None or now >= limit or _has_ended(root):
        return None
    tests = {"/metadata/uid": root["metadata"]["uid"], "/spec/backoffLimit": now}
    operations = [{"op": "test", "path": path, "value": value} for path, value in tests.items()]
    raised = {"op": "replace", "path": "/spec/backoffLimit", "value": limit}
    return Write(batch.JOB.path_to(root), [*operations, raised])


def _suspend(root: Json) -> Write | None:
    """Return the write that suspends a Job; None if a controller or a queue would resume it."""
    if controller_of(root) is not None or kueue.is_queued(root["metadata"]):
        return None
    return set_in_spec(batch.JOB, root, "suspend", value=True)


JOB: Final = System(
    kind=batch.JOB,
    unit="index",
    has_ended=_has_ended,
    cost_of=None,
    fail=_fail,
    suspend=_suspend,
    writes={("suspend",): (True,)},
)
SYSTEMS: Final = (JOB,)
