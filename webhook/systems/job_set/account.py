"""JobSets: the scope is an index of one of its Jobs. What the end of a pod costs follows from what ends the Job.

A JobSet treats the end of a Job for the reason PodFailurePolicy like a verdict of the Job's own policy, and fails too,
unless a rule of its author restarts it for that reason. A whole JobSet is failed by its own condition Failed, whatever
its rules say: its controller then deletes the Jobs that run (jobSetFinished in pkg/controllers/jobset_controller.go of
JobSet 0.11).
"""

from typing import Final

from webhook.kube import terminal
from webhook.objects.patch import unless_changed
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.systems.job_set.spec import JOB_SET as KIND
from webhook.systems.system import System, Write, condition, status_of


def _has_ended(root: Json) -> bool:
    is_held = root["metadata"].get("deletionTimestamp") or (root.get("spec") or {}).get("suspend")
    return bool(is_held) or terminal.condition_of(root) is not None


def _fail(root: Json, _pod: Pod | None, reason: str, message: str) -> Write | None:
    if terminal.condition_of(root) is not None:
        return None
    status = root.get("status") or {}
    kept = [one for one in status.get("conditions") or () if one.get("type") != "Failed"]
    failed = {**status, "conditions": [*kept, condition("Failed", reason, message)], "terminalState": "Failed"}
    return Write(status_of(KIND, root), [unless_changed(root), {"op": "add", "path": "/status", "value": failed}])


JOB_SET: Final = System(kind=KIND, unit="index", has_ended=_has_ended, cost_of=None, fail=_fail)
SYSTEMS: Final = (JOB_SET,)
