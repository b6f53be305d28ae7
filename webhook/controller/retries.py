"""The leader's controller: runs the retries that annotations request, and continues those that were interrupted.

Objects with a retry in progress, and placeholders, have the label retry-in-progress. The controller watches one list of
each kind by that label; these lists are mostly empty.

The leader holds its own Lease, not the ledger's. Each of the two can be installed without the other, and the Role of
each permits its own Lease only. The ledger learns from a forbidden Lease that its Role is missing: with one Lease for
both, it would lead without its Role if only requested retries are installed. And work that fails releases its Lease:
errors of retries must not stop the ledger.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import structlog

from webhook import metrics
from webhook.admission import modes
from webhook.controller.brake import Brake, BrakeSubject
from webhook.kube import names
from webhook.kube.backoff import Backoff
from webhook.kube.bulkhead import Bulkhead
from webhook.kube.client import UNREACHABLE, ApiError, wait_after
from webhook.kube.clock import utc_now
from webhook.kube.events import Events, Notice
from webhook.kube.informer import Informer
from webhook.kube.lease import Lease
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.policy.model import Profile
from webhook.retry import executor, reading, record, requests
from webhook.retry.reading import FINAL, RefusedError, StuckError
from webhook.retry.record import Requested
from webhook.systems.adapter import Adapter, Workload
from webhook.systems.job import rerun as of_job
from webhook.systems.kind_spec import KindSpec
from webhook.systems.reruns import ADAPTERS
from webhook.tracking.cluster import Cluster, UnavailableError

# Seconds.
INTERRUPTED_AFTER: Final = 30.0  # after which a retry that a user has begun counts as interrupted
SHORTEST_PAUSE: Final = 5.0  # after an error
LONGEST_PAUSE: Final = 600.0
BATCHING_TIME: Final = 0.1  # in which changes are collected before all objects are examined again
AT_ONCE: Final = 8  # objects
TRIES: Final = 3  # of a retry that is stuck, before it is given up

RESULTS: Final = ("started", "refused", "stuck")

READ: Final[Shape] = {
    "metadata": {
        **dict.fromkeys(("namespace", "name", "resourceVersion"), str),
        "annotations": {names.RETRY_ACCEPTED: str},
    }
}

log = structlog.get_logger()


class RetryKey(NamedTuple):
    """An object with a retry in progress, or the placeholder of a Job."""

    kind: KindSpec
    namespace: str
    name: str


class RetryDone(NamedTuple):
    """A retry that has run, and the object on which its start is told: what runs again, or the CronJob of it.

    `root` is None if the Job that runs again is deleted, or if another user has completed its retry.
    """

    request: Requested
    root: Json | None


@dataclass(slots=True)
class RetryDue:
    """The time at which an object is next processed, by the monotonic clock, and the pauses after that.

    `request`: the request that admission has accepted; empty if a user runs the retry with own permissions, and may
    have been interrupted. `stuck`: the number of times at which the retry was stuck. `work`: the task that acts on the
    object now.
    """

    request: str
    next: float
    backoff: Backoff = field(default_factory=lambda: Backoff(SHORTEST_PAUSE, LONGEST_PAUSE))
    stuck: int = 0
    busy: bool = False
    work: asyncio.Task[None] | None = None


class RetryController:
    """Watches the objects with a retry in progress, and runs their retries while this replica leads.

    `brake`: what it asks before it runs a retry.
    `clock`: monotonic, in seconds. `now` returns the time that is written into objects.
    """

    def __init__(  # noqa: PLR0913 - what it watches, acts with, asks, and the time
        self,
        cluster: Cluster,
        events: Events,
        lease: Lease,
        brake: Brake,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.clock = clock
        self.now = now
        self.api = cluster.api
        self.cluster = cluster
        self.events = events
        self.lease = lease
        self.brake = brake
        self.changed = asyncio.Event()
        self.due: dict[RetryKey, RetryDue] = {}
        self.bulkhead = Bulkhead("requested retries", clock)
        self.lists: dict[KindSpec, Informer[str]] = {}
        for kind in ADAPTERS:
            query = {"labelSelector": names.RETRY_IN_PROGRESS}
            self.lists[kind] = Informer(
                self.api,
                kind.path(),
                _request_of,
                shape=READ,
                query=query,
                metadata_only=True,
                name=f"requested-{kind.list_name}",
                scope=cluster.scope,
            )
            self.lists[kind].on_change(self.changed.set)
            for result in RESULTS:
                metrics.REQUESTED_RETRIES.labels(
                    kind.kind_name, result
                )  # reported as 0: an alert must see the first one
        cluster.namespaces.on_change(self.changed.set)
        brake.policy.on_change(self.changed.set)

    async def run(self) -> None:
        """Watch until cancelled, and run retries while leading."""
        async with asyncio.TaskGroup() as group:
            for one in self.lists.values():
                group.create_task(one.run())
            group.create_task(self.lease.lead(self.work))

    async def work(self) -> None:
        """Run the retries that are due, until cancelled."""
        self.due.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                self.changed.clear()
                if self.brake.is_stopped:
                    self.interrupt()
                idle = self.start_due(group)
                await asyncio.sleep(BATCHING_TIME)  # each pass examines all objects, and changes come one by one
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(idle):
                        await self.changed.wait()

    def start_due(self, group: asyncio.TaskGroup) -> float:
        """Start the retries that are due, up to AT_ONCE; return the seconds until the next one is due."""
        now, idle = self.clock(), LONGEST_PAUSE
        marked = {RetryKey(kind, *key): one for kind, found in self.lists.items() for key, one in found.items.items()}
        self.due = {key: due for key, due in self.due.items() if key in marked or due.busy}
        for key, request in marked.items():
            known = self.due.get(key)
            if known is None or (known.request != request and not known.busy):
                self.due[key] = RetryDue(request, now + (0.0 if request else INTERRUPTED_AFTER))
        free = AT_ONCE - sum(one.busy for one in self.due.values())
        for key, due in sorted(self.due.items(), key=lambda one: one[1].next):
            if due.busy:
                continue
            if due.next > now:
                idle = due.next - now
                break
            if free:
                free -= 1
                due.busy = True
                group.create_task(self.process(key, due))
        return idle

    def interrupt(self) -> None:
        """Interrupt the retries that run; they continue where they were once actions are no longer stopped."""
        for due in self.due.values():
            if due.work is not None:
                due.work.cancel()

    async def process(self, key: RetryKey, due: RetryDue) -> None:
        """Run the retry of one object, if its namespace is opted in; log errors, and try again after a pause."""
        try:
            with self.bulkhead.around(key.namespace, f"{key.kind.kind}/{key.name}"):
                await self.try_to_process(key, due)
        finally:
            due.busy, due.work, due.next = False, None, self.clock() + due.backoff.take()
            self.changed.set()

    async def try_to_process(self, key: RetryKey, due: RetryDue) -> None:
        """Run the retry of one object, as `process`, but raise what is no answer of the API."""
        try:
            profile, mode = await self.cluster.opt_in(key.namespace)
            if profile is not None and mode in modes.ENFORCED:  # in other modes admission has not judged the user
                await self.reconcile(key, due, self.brake.policy.profile(profile))
        except (ApiError, UnavailableError, *UNREACHABLE) as error:
            what = f"{key.kind.kind} {key.namespace}/{key.name}"
            wait = wait_after(error)
            pause = round(max(wait or 0.0, due.backoff.pause), 1)
            log.warning("not run again yet", what=what, error=str(error) or repr(error), retry_in=pause)
            if wait is not None:
                await asyncio.sleep(wait)  # it keeps its place of AT_ONCE, so that no other one is sent meanwhile

    async def reconcile(self, key: RetryKey, due: RetryDue, profile: Profile) -> None:
        """Run the rest of one object's retry, report its result, and remove the request; raise as `Api` does.

        Do nothing if the leader may not act on the object now. `profile`: that of its namespace.
        """
        root = await self.find(key)
        if root is None or not requests.is_marked(root):
            return
        about = BrakeSubject(key.kind.kind, key.namespace, key.name, root["metadata"]["uid"], key.kind.api_version)
        if not self.brake.allows("retry", profile, about, "run it again, as requested"):
            due.backoff.reset()
            return
        due.work = asyncio.current_task()
        try:
            done = await self._execute_or_forget(key, root)
        except RefusedError as error:
            self.report(key.kind, root, "RetryRefused", f"not retried: {error}")
        except StuckError as error:
            await self._report_stuck(key, root, due, str(error))
        except ApiError as error:
            if error.status not in FINAL:
                raise
            await self._report_stuck(
                key, root, due, f"the API server rejects it: {error}; remove the cause, and request the retry again"
            )
        else:
            if done is not None and done.root is not None:
                self.report(key.kind, done.root, "RetryStarted", f"runs again, as {done.request.by} requested")
            if done is None or ADAPTERS[key.kind].runs is not None:
                await executor.forget(self.api, key.kind, root)

    async def _execute_or_forget(self, key: RetryKey, root: Json) -> RetryDone | None:
        """Run the retry of an object, as `execute`; remove a refused request first, so that it is reported once."""
        try:
            return await self.execute(ADAPTERS[key.kind], root)
        except RefusedError:
            await executor.forget(self.api, key.kind, root)
            raise

    async def _report_stuck(self, key: RetryKey, root: Json, due: RetryDue, why: str) -> None:
        due.stuck += 1
        self.report(key.kind, root, "RetryStuck", why)
        if due.stuck >= TRIES and not _is_of_retry(root):
            await executor.forget(self.api, key.kind, root)

    async def find(self, key: RetryKey) -> Json | None:
        """Return the current state of an object; None if it does not exist. Raise as `Api` does."""
        return await self.api.find(key.kind.path(key.namespace, key.name))

    async def execute(self, adapter: Adapter, root: Json) -> RetryDone | None:
        """Run the retry of an object; return None if it is complete or was for an earlier run.

        Raise RefusedError, StuckError, and as `Api` does.
        """
        if _is_of_retry(root):
            job, state = await executor.resume(self.api, _placeholder_of(root)), of_job.state_of(root)
            return RetryDone(Requested(at=state.at, by=state.by, of=state.uid), job)
        request = requests.accepted(root) or (None if adapter.in_place is None else _last_of(root))
        if request is None:
            return None
        when = self.now().isoformat(timespec="seconds")
        keep_finally = request.keep_finally or requests.keeps_finally(root)
        found = await reading.read(self.api, adapter, root, when, keep_finally=keep_finally)
        is_unfinished = adapter.in_place is not None and adapter.in_place.is_unfinished(found)
        if found.run is None or (request.of != adapter.run_id(found) and not is_unfinished):
            if adapter.in_place is None:
                await self._check_done(found, request)
            elif requests.accepted(root) is not None and record.is_last(root, request.of):
                await executor.forget(self.api, adapter.kind, root)  # the rest of a pass that failed after the retry
                return RetryDone(request, root)
            return None
        run = await executor.rerun(self.api, adapter.of_run, found.run, request.by, when, keep_finally=keep_finally)
        return RetryDone(request, run if adapter.runs is None else root)

    async def _check_done(self, found: Workload, request: Requested) -> None:
        """Raise RefusedError if the retry of an earlier Job of a CronJob did not begin; raise as `Api` does."""
        if found.run is not None and of_job.is_successor(found.run, request.of):
            return
        placeholders = await reading.placeholders(self.api, found.root["metadata"]["namespace"])
        if all(of_job.state_of(one).uid != request.of for one in placeholders):
            raise RefusedError("another Job has begun since, or the last one was deleted", "request the retry again")

    def report(self, kind: KindSpec, root: Json, reason: str, message: str) -> None:
        """Report a result: an Event on the object, a metric and a log line."""
        result = reason.removeprefix("Retry").lower()
        metrics.REQUESTED_RETRIES.labels(kind.kind_name, result).inc()
        metadata = root["metadata"]
        notice = Notice(
            kind=kind.kind,
            api_version=kind.api_version,
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            reason=reason,
            message=message,
            type="Normal" if reason == "RetryStarted" else "Warning",
        )
        self.events.tell(notice)
        log.info(message, reason=reason, kind=kind.kind, namespace=metadata["namespace"], name=metadata["name"])


def _request_of(item: Json) -> str:
    """Return the annotation with the accepted request, cut to one character more than its bound; empty without one."""
    return ((item["metadata"].get("annotations") or {}).get(names.RETRY_ACCEPTED) or "")[
        : requests.LONGEST_ACCEPTED + 1
    ]


def _is_of_retry(root: Json) -> bool:
    return names.RETRY_OF in (root["metadata"].get("labels") or {})


def _placeholder_of(root: Json) -> Json:
    executor.readable_state(root)
    if not of_job.is_placeholder(root):
        metadata = root["metadata"]
        what = (
            f"Job {metadata['namespace']}/{metadata['name']} has the label {names.RETRY_OF}, but contains no manifest"
        )
        raise StuckError(what, "remove the label, or delete the Job")
    return root


def _last_of(root: Json) -> Requested | None:
    found = record.read(root)
    return found[-1] if found else None
