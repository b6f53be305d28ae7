"""Reads, ends and suspends workloads of other kinds than Job and JobSet, whose `System` says how."""

from collections.abc import Callable

import structlog

from webhook import metrics
from webhook.accounts import words
from webhook.accounts.counting import LIMIT_EXCEEDED, CountingPass
from webhook.accounts.tracker import Key
from webhook.controller.brake import Action, Allows, subject_of
from webhook.kube.client import Api
from webhook.kube.events import Events, Notice
from webhook.objects.problem import Json
from webhook.pods import outcomes
from webhook.systems.system import Create, System, Write
from webhook.tracking.roots import where
from webhook.tracking.trackers import Trackers
from webhook.tracking.workload_state import WorkloadState

log = structlog.get_logger()


class OtherKinds:
    """Reads and writes the workloads of other kinds; `allows`: as in `Authority`, `wake`: as in `Ledger`."""

    def __init__(
        self, api: Api, trackers: Trackers, events: Events, allows: Allows, wake: Callable[[Key], None]
    ) -> None:
        self.api = api
        self.trackers = trackers
        self.clock = trackers.clock
        self.events = events
        self.allows = allows
        self.wake = wake

    async def read_before(self, key: Key, state: WorkloadState) -> Json | None:
        """Return a workload as the API has it, if that is needed to count; raise what `Api` raises."""
        return await self.whole_of(key) if self.needs_whole(key, state) else None

    def needs_whole(self, key: Key, state: WorkloadState) -> bool:
        """Return True if more than the metadata of a workload of another kind must be known to count its pods.

        Of any kind if a pod can be counted now that was deleted while it ran.
        """
        if key.system is None or not any(True for _ in state.tracker.open_pods()):
            return False
        if key.system.reads_spec:
            return True
        doubtful = self.doubtful(key, state)
        return any(pod.uid not in doubtful and outcomes.was_killed(pod) for pod in state.tracker.open_pods())

    def doubtful(self, key: Key, state: WorkloadState) -> set[str]:
        """Return the uids of the failed pods of which it is not known yet who deleted them."""
        return state.tracker.doubtful(self.clock(), current=self.trackers.is_current(key.row))

    async def whole_of(self, key: Key) -> Json | None:
        """Return a workload as the API has it; None if it is not the same any more; raise what `Api` raises."""
        root = self.trackers.root_of(key)
        whole = await self.api.find(key.row.path(key.namespace, key.name))
        is_same = root is not None and whole is not None and whole["metadata"]["uid"] == root["metadata"]["uid"]
        return whole if is_same else None

    async def end(self, counting: CountingPass, system: System) -> bool:
        """Suspend or fail a workload of another kind, or a part of it, as `Ledger.end`."""
        key, attempts = counting.key, counting.attempts
        whole = counting.whole = await self.whole_of(key)
        if whole is None or system.has_ended(whole):
            return True
        end, write = counting.end(attempts), None
        action: Action = "fail"
        reason = message = ""
        if end is not None:
            pod = counting.tracker.failed_named(end.pod)
            reason, message = end.reason, end.message(key.namespace)
            write = None if pod is None else system.fail(whole, pod, reason, message)
        if write is None and counting.suspends(attempts):  # also if it should fail, and nothing can make it fail
            action = "suspend"
            reason, message = LIMIT_EXCEEDED, words.suspended_elsewhere(counting.budgets_of(counting.root).disruptions)
            write = system.suspend(whole)
        if write is None:
            return True
        if not self.allows(action, key.row, counting.root, f"{action} it: {message}"):
            return False
        await self.send(write)
        self.tell_stopped(key, counting.root, "Failed" if action == "fail" else "Suspended", reason, message)
        if action == "suspend":  # a person who resumes it allows as many disruptions again
            self.trackers.state_of(key).see_suspended()
            self.wake(key)
        return True

    async def send(self, write: Write | Create) -> None:
        """Send the write that ends or suspends a workload of another kind; raise what `Api` raises."""
        if isinstance(write, Create):
            await self.api.create(write.path, write.root)
        else:
            await self.api.patch(write.path, write.operations)

    def tell_stopped(self, key: Key, root: Json, how: str, reason: str, message: str) -> None:
        """Report that a workload of another kind, or a part of it, was failed or suspended; `how`: as in the metric."""
        metrics.LEDGER_STOPPED.labels(how, reason).inc()
        log.info("workload ended", **where(key), how=how, reason=reason, message=message)
        self.events.tell(Notice(**subject_of(key.row, root)._asdict(), type="Warning", reason=reason, message=message))
