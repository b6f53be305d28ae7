"""Reads workloads, and fails or suspends them: the only place that ends what a workload is, of every kind.

What to write, its `System` says.
"""

from collections.abc import Callable
from typing import Final

import structlog

from webhook import metrics
from webhook.accounts import words
from webhook.accounts.counting import (
    EVICTED_TOO_OFTEN,
    FREE_TOO_OFTEN,
    JOB_WIDE,
    LIMIT_EXCEEDED,
    NO_PROGRESS,
    CountingPass,
)
from webhook.accounts.tracker import Key
from webhook.controller.brake import Action, Allows, subject_of
from webhook.kube.client import Api
from webhook.kube.events import Events, Notice
from webhook.objects.problem import Json
from webhook.pods import outcomes
from webhook.pods.matching import POD_FAILURE_POLICY
from webhook.pods.pods import Pod
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job import spec as batch
from webhook.systems.job.account import end_suspended
from webhook.systems.kind_spec import KindSpec
from webhook.systems.system import Create, Write
from webhook.tracking.trackers import Trackers

# The reasons of the ends that the leader writes.
REASONS: Final = (
    *(LIMIT_EXCEEDED, FREE_TOO_OFTEN, EVICTED_TOO_OFTEN, JOB_WIDE, NO_PROGRESS),
    *(outcomes.TOO_OFTEN, outcomes.NEVER_STARTED, POD_FAILURE_POLICY),
)

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
        root = await self._find(pod.kind.path(pod.namespace, pod.job), pod.job_uid)
        return None if root is None or SYSTEMS[pod.kind].has_ended(root) else root

    async def _find(self, path: str, uid: str) -> Json | None:
        root = await self.api.find(path)
        return root if root is not None and root["metadata"]["uid"] == uid else None

    async def fail(self, kind: KindSpec, root: Json, reason: str, message: str, pod: Pod | None = None) -> bool:
        """Fail a workload as it was read, or the part of it that a pod belongs to; raise what `Api` raises.

        Return False, and change nothing, if its end is decided already, or its users have no way to do so. Raise
        ApiError with 409 if it has changed since it was read.
        """
        write = SYSTEMS[kind].fail(root, pod, reason, message)
        if write is not None:
            await self._carry_out(write, kind, root, "Failed", reason, message)
        return write is not None

    async def end_suspended(self, job: Json, reason: str, message: str) -> None:
        """Write the end of a suspended Job without pods, as it was read; raise ApiError with 409 if it has changed."""
        await self._carry_out(end_suspended(job, reason, message), batch.JOB, job, "Failed", reason, message)

    async def end(self, counting: CountingPass) -> bool:
        """Fail a workload that has exceeded a limit, or a part of it; suspend one of another kind than Job.

        Return False if the brake holds that, or the suspension of a Job, and True if no more is to be done. Raise what
        `Api` raises.
        """
        key, system, attempts = counting.key, counting.system, counting.attempts
        if counting.account.suspending:
            return True
        end = counting.end(attempts)
        if system.has_jobs:
            suspends = counting.suspends(attempts)
            if suspends or end is None:
                return not suspends
        whole = await self.read(key)
        if whole is None or (system.has_ended(whole) and not system.has_jobs):
            return True
        counting.whole = None if system.has_jobs else whole
        action: Action = "fail"
        how, write = "Failed", None
        if end is not None:
            reason, message = end.reason, end.message(key.namespace)
            write = system.fail(whole, counting.tracker.failed_named(end.pod), reason, message)
        if write is None and not system.has_jobs and counting.suspends(attempts):  # also if nothing can make it fail
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
        log.info("workload ended", kind=kind.kind_name, how=how, **where)
        if not SYSTEMS[kind].has_jobs:  # of a Job its own controller writes one
            self.events.tell(Notice(**about._asdict(), type="Warning", reason=reason, message=message))
