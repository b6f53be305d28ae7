"""Reads workloads, and fails or suspends them: the only place that ends what a workload is, of every kind.

A Job is failed in the way in which the Job controller itself does: by the condition FailureTarget. It then deletes the
pods and sets Failed with the same reason and message (pkg/controller/job of Kubernetes 1.36). A JobSet treats the
reason PodFailurePolicy like a verdict of the Job's own policy, and fails too, unless a rule of its author restarts it
for that reason. A whole JobSet is failed by its own condition Failed, whatever its rules say: its controller then
deletes the Jobs that run (jobSetFinished in pkg/controllers/jobset_controller.go of JobSet 0.11). Of any other kind its
`System` says what to write.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from webhook import metrics
from webhook.accounts import words
from webhook.accounts.counting import LIMIT_EXCEEDED, CountingPass
from webhook.accounts.tracker import Key
from webhook.controller.brake import Action, Allows, subject_of
from webhook.kube import terminal
from webhook.kube.client import Api
from webhook.kube.events import Events, Notice
from webhook.objects.patch import unless_changed
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.systems.accounts import system_of
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.system import Create, Write
from webhook.tracking.trackers import Trackers

log = structlog.get_logger()


class WorkloadEnds:
    """Ends and suspends workloads; `allows`: as in `Authority`, `wake`: as in `Ledger`."""

    def __init__(
        self, api: Api, trackers: Trackers, events: Events, allows: Allows, wake: Callable[[Key], None]
    ) -> None:
        self.api = api
        self.trackers = trackers
        self.events = events
        self.allows = allows
        self.wake = wake

    async def read(self, key: Key) -> Json | None:
        """Return a workload as the API has it; None if it is not the same any more; raise what `Api` raises."""
        root = self.trackers.root_of(key)
        return None if root is None else await self._find(key.path, root["metadata"]["uid"])

    async def read_running(self, pod: Pod) -> Json | None:
        """Return the Job of a pod, or its workload of another kind; None if it does not run. Raise what `Api` raises.

        It does not if it has ended, is about to, is suspended, deleted, or another one of that name.
        """
        system, root = system_of(pod.kind), await self._find(pod.kind.path(pod.namespace, pod.job), pod.job_uid)
        if root is None or system is not None:
            return None if root is None or system is None or system.has_ended(root) else root
        is_held = root["metadata"].get("deletionTimestamp") or root["spec"].get("suspend")
        return None if is_held or terminal.is_decided(root.get("status") or {}) else root

    async def _find(self, path: str, uid: str) -> Json | None:
        root = await self.api.find(path)
        return root if root is not None and root["metadata"]["uid"] == uid else None

    async def fail(self, kind: KindSpec, root: Json, reason: str, message: str, pod: Pod | None = None) -> bool:
        """Fail a workload as it was read, or the part of it that a pod belongs to; raise what `Api` raises.

        Return False, and change nothing, if its end is decided already, or its users have no way to do so. Raise
        ApiError with 409 if it has changed since it was read.
        """
        write = _failing(kind, root, reason, message, pod)
        if write is not None:
            await self._carry_out(write, kind, root, "Failed", reason, message)
        return write is not None

    async def end_suspended(self, job: Json, reason: str, message: str) -> None:
        """Write the end of a suspended Job without pods, as it was read; raise ApiError with 409 if it has changed.

        The Job controller cannot do that after a queue has suspended the Job: the API accepts no end of a Job without a
        startTime, and Kueue removes the startTime of a suspended Job again and again.
        """
        status = job.get("status") or {}
        ends = [_condition(kind, reason, message) for kind in ("FailureTarget", "Failed")]
        time = ends[0]["lastTransitionTime"]
        said = {
            "conditions": [*(status.get("conditions") or ()), *({**one, "lastProbeTime": time} for one in ends)],
            "startTime": status.get("startTime") or time,
        }
        operations = [{"op": "add", "path": f"/status/{field}", "value": value} for field, value in said.items()]
        write = Write(_status_of(batch.JOB, job), [unless_changed(job), *operations])
        await self._carry_out(write, batch.JOB, job, "Failed", reason, message)

    async def end(self, counting: CountingPass) -> bool:
        """Fail a workload that has exceeded a limit, or a part of it; suspend one of another kind than Job.

        Return False if the brake holds that, or the suspension of a Job, and True if no more is to be done. Raise what
        `Api` raises.
        """
        key, system, attempts = counting.key, counting.system, counting.attempts
        if counting.account.suspending:
            return True
        end, suspends = counting.end(attempts), system is None and counting.suspends(attempts)
        if suspends or (system is None and end is None):
            return not suspends
        whole = await self.read(key)
        if whole is None or (system is not None and system.has_ended(whole)):
            return True
        if system is not None:
            counting.whole = whole
        action: Action = "fail"
        how, write = "Failed", None
        if end is not None:
            reason, message = end.reason, end.message(key.namespace)
            write = _failing(key.kind, whole, reason, message, counting.tracker.failed_named(end.pod))
        if write is None and system is not None and counting.suspends(attempts):  # also if nothing can make it fail
            action, how, write = "suspend", "Suspended", system.suspend(whole)
            reason, message = LIMIT_EXCEEDED, words.suspended_of_system(counting.budgets_of(counting.root).disruptions)
        if write is None:
            return True
        if not self.allows(action, key.kind, counting.root, f"{action} it: {message}"):
            return False
        await self._carry_out(write, key.kind, whole, how, reason, message)
        if action == "suspend":  # a person who resumes it allows as many disruptions again
            self.trackers.state_of(key).see_suspended()
            self.wake(key)
        return True

    async def _carry_out(  # noqa: PLR0913, PLR0917 - what is written, and what is told of it
        self, write: Write | Create, kind: KindSpec, root: Json, how: str, reason: str, message: str
    ) -> None:
        if isinstance(write, Create):
            await self.api.create(write.path, write.root)
        else:
            await self.api.patch(write.path, write.operations)
        metrics.LEDGER_STOPPED.labels(how, reason).inc()
        about = subject_of(kind, root)
        where = {"namespace": about.namespace, "name": about.name, "reason": reason, "message": message}
        if system_of(kind) is None:
            log.info("Job failed" if kind is batch.JOB else "JobSet failed", **where)
            return
        log.info("workload ended", kind=Key(about.namespace, kind, about.name).kind_name, how=how, **where)
        self.events.tell(Notice(**about._asdict(), type="Warning", reason=reason, message=message))


def _failing(kind: KindSpec, root: Json, reason: str, message: str, pod: Pod | None) -> Write | Create | None:
    """Return the write that fails a workload as it was read, or the part of it that a pod belongs to.

    None if its end is decided already, or its users have no way to do so.
    """
    system, status = system_of(kind), root.get("status") or {}
    if system is not None:
        return None if pod is None else system.fail(root, pod, reason, message)
    if kind is JOB_SET:
        if terminal.condition_of(root) is not None:
            return None
        kept = [one for one in status.get("conditions") or () if one.get("type") != "Failed"]
        failed = {**status, "conditions": [*kept, _condition("Failed", reason, message)], "terminalState": "Failed"}
        return Write(_status_of(kind, root), [unless_changed(root), {"op": "add", "path": "/status", "value": failed}])
    if terminal.is_decided(status):
        return None
    target = _condition("FailureTarget", reason, message)
    conditions = [*(status.get("conditions") or ()), {**target, "lastProbeTime": target["lastTransitionTime"]}]
    added = {"op": "add", "path": "/status/conditions", "value": conditions}
    return Write(_status_of(kind, root), [unless_changed(root), added])


def _status_of(kind: KindSpec, root: Json) -> str:
    return f"{kind.path(root['metadata']['namespace'], root['metadata']['name'])}/status"


def _condition(kind: str, reason: str, message: str) -> Json:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
