"""Has run again what was asked for by an annotation, and goes on with what was left undone: the leader does.

What is to run again has a label meanwhile, and so has a placeholder: of each kind one list by that label is watched,
mostly empty.

The leader holds a Lease of its own, beside the ledger's: each of the two can be installed without the other, and its
Role grants its Lease alone. With one Lease for both the ledger would lead without its Role where requested retries are
installed: it learns from a refused Lease that its Role is missing. And work that fails releases the Lease that it
held: trouble with retries must not keep accounts from being written.
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
from webhook.kinds import KindSpec
from webhook.kube import names
from webhook.kube.backoff import Backoff
from webhook.kube.client import UNREACHABLE, ApiError
from webhook.kube.clock import utc_now
from webhook.kube.events import Events, Notice
from webhook.kube.informer import Informer
from webhook.kube.lease import Lease
from webhook.lookups.cluster import Cluster, UnavailableError
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.retry import executor, reading, record, requests
from webhook.retry.errors import FINAL, RefusedError, StuckError
from webhook.retry.kinds import job as of_job
from webhook.retry.kinds.adapter import Adapter, Workload
from webhook.retry.kinds.registry import ADAPTERS
from webhook.retry.record import Requested

# Seconds.
LEFT_BEHIND: Final = 30.0  # after which whoever has begun is taken to be gone
SHORTEST_PAUSE: Final = 5.0  # after trouble
LONGEST_PAUSE: Final = 600.0
GATHERING: Final = 0.1
AT_ONCE: Final = 8
TRIES: Final = 3  # of what is undone as often; it may never go on

RESULTS: Final = ("started", "refused", "stuck")

READ: Final[Shape] = {
    "metadata": {
        **dict.fromkeys(("namespace", "name", "resourceVersion"), str),
        "annotations": {names.RETRY_ACCEPTED: str},
    }
}

log = structlog.get_logger()


class Key(NamedTuple):
    """An object that is to run again, or the placeholder of a Job."""

    row: KindSpec
    namespace: str
    name: str


@dataclass(slots=True)
class Due:
    """When an object is next looked at, by the monotonic clock, and the pauses after that; how often it was stuck.

    `request`: what admission has accepted; empty where somebody acts with his own rights, and may have gone.
    """

    request: str
    next: float
    backoff: Backoff = field(default_factory=lambda: Backoff(SHORTEST_PAUSE, LONGEST_PAUSE))
    stuck: int = 0
    busy: bool = False


class RetryController:
    """What is to run again, by the labels; acts on it while this replica leads.

    `clock`: monotonic, in seconds; `now`: the time that is written into objects.
    """

    def __init__(
        self,
        cluster: Cluster,
        events: Events,
        lease: Lease,
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
        self.news = asyncio.Event()
        self.due: dict[Key, Due] = {}
        self.lists: dict[KindSpec, Informer[str]] = {}
        for row in ADAPTERS:
            query = {"labelSelector": names.RETRY_IN_PROGRESS}
            self.lists[row] = Informer(
                self.api,
                row.path(),
                request_of,
                shape=READ,
                query=query,
                metadata_only=True,
                metric_prefix="requested-",
            )
            self.lists[row].on_change(self.news.set)
            for result in RESULTS:
                metrics.REQUESTED_RETRIES.labels(row.kind, result)  # reported as 0: an alert must see the first one
        cluster.namespaces.on_change(self.news.set)

    async def run(self) -> None:
        """Watch until cancelled, and act while leading."""
        async with asyncio.TaskGroup() as group:
            for one in self.lists.values():
                group.create_task(one.run())
            group.create_task(self.lease.lead(self.work))

    async def work(self) -> None:
        """Have run again what is to, until cancelled."""
        self.due.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                self.news.clear()
                idle = self.begin_what_is_due(group)
                await asyncio.sleep(GATHERING)  # looking at all of them takes time, and news come one by one
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.news.wait(), idle)

    def begin_what_is_due(self, group: asyncio.TaskGroup) -> float:
        """Begin with what it is time for; return for how many seconds nothing else is due."""
        now, idle = self.clock(), LONGEST_PAUSE
        marked = {
            Key(row, *key): one
            for row, found in self.lists.items()
            for key, one in found.items.items()
            if self.may_be_opted_in(key[0])
        }
        self.due = {key: due for key, due in self.due.items() if key in marked or due.busy}
        for key, request in marked.items():
            known = self.due.get(key)
            if known is None or (known.request != request and not known.busy):
                self.due[key] = Due(request, now + (0.0 if request else LEFT_BEHIND))
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
                group.create_task(self.take_up(key, due))
        return idle

    def may_be_opted_in(self, namespace: str) -> bool:
        """Return False if a namespace is known not to be opted in: there anybody may write our labels."""
        namespaces = self.cluster.namespaces
        return not namespaces.live or ("", namespace) in namespaces.items

    async def take_up(self, key: Key, due: Due) -> None:
        """Have one object run again, if it is still to; what goes wrong is told, and tried again later."""
        try:
            profile, mode = await self.cluster.opt_in(key.namespace)
            if profile is not None and mode in modes.ENFORCED:  # elsewhere nobody has judged who asked
                await self.have_done(key, due)
        except (ApiError, UnavailableError, *UNREACHABLE) as error:
            what = f"{key.row.kind} {key.namespace}/{key.name}"
            log.warning("not run again yet", what=what, error=str(error) or repr(error), retry_in=due.backoff.pause)
        except Exception:  # an answer that nobody foresaw must not end the server
            log.exception(
                "not run again yet", what=f"{key.row.kind} {key.namespace}/{key.name}", retry_in=due.backoff.pause
            )
        finally:
            due.busy, due.next = False, self.clock() + due.backoff.take()
            self.news.set()

    async def have_done(self, key: Key, due: Due) -> None:
        """Look at one object, and do what is left to do; raise what `Api` raises."""
        root = await self.find(key)
        if root is None or not requests.is_marked(root):
            return
        try:
            request = await self.carry_out(ADAPTERS[key.row], root)
        except RefusedError as error:
            self.tell(key.row, root, "RetryRefused", f"not retried: {error}")
            await executor.forget(self.api, key.row, root)
        except StuckError as error:
            await self.stuck(key, root, due, str(error))
        except ApiError as error:
            if error.status not in FINAL:
                raise
            await self.stuck(
                key, root, due, f"the API server rejects it: {error}; remove the cause, and request the retry again"
            )
        else:
            if request is not None:
                await self.tell_of_start(key, root, request)
            if request is None or ADAPTERS[key.row].runs is not None:
                await executor.forget(self.api, key.row, root)

    async def stuck(self, key: Key, root: Json, due: Due, why: str) -> None:
        """Tell why it does not go on; give up after a few times, where nothing is lost by that."""
        due.stuck += 1
        self.tell(key.row, root, "RetryStuck", why)
        if due.stuck >= TRIES and not is_of_retry(root):
            await executor.forget(self.api, key.row, root)

    async def tell_of_start(self, key: Key, root: Json, request: Requested) -> None:
        """Tell it on what runs again; raise what `Api` raises."""
        if of_job.is_placeholder(root):
            key = key._replace(name=of_job.state_of(root).name)
        now = await self.find(key)
        if now is not None:
            self.tell(key.row, now, "RetryStarted", f"runs again, as {request.by} requested")

    async def find(self, key: Key) -> Json | None:
        """Return an object as it is now, None if it is gone; raise what `Api` raises."""
        return await self.api.find(key.row.path(key.namespace, key.name))

    async def carry_out(self, adapter: Adapter, root: Json) -> Requested | None:
        """Have an object run again; return who asked for it, None where that is done, or was of an earlier run.

        Raise RefusedError, StuckError, and what `Api` raises.
        """
        if is_of_retry(root):
            await executor.resume(self.api, placeholder_of(root))
            state = of_job.state_of(root)
            return Requested(at=state.at, by=state.by, of=state.uid)
        request = requests.accepted(root) or (None if adapter.in_place is None else last_of(root))
        if request is None:
            return None
        when = self.now().isoformat(timespec="seconds")
        keep_finally = request.keep_finally or requests.keeps_finally(root)
        found = await reading.read(self.api, adapter, root, when, keep_finally=keep_finally)
        is_left_undone = adapter.in_place is not None and adapter.in_place.is_left_undone(found)
        if found.run is None or (request.of != adapter.run_id(found) and not is_left_undone):
            if adapter.in_place is None:
                await self.check_done(found, request)
            return None
        await executor.rerun(self.api, adapter.of_run, found.run, request.by, when, keep_finally=keep_finally)
        return request

    async def check_done(self, found: Workload, request: Requested) -> None:
        """Raise RefusedError if a Job that is not its CronJob's last any more does not run again; what `Api` raises."""
        if found.run is not None and of_job.is_successor(found.run, request.of):
            return
        placeholders = await reading.placeholders(self.api, found.root["metadata"]["namespace"])
        if all(of_job.state_of(one).uid != request.of for one in placeholders):
            raise RefusedError("another Job has begun since, or the last one was deleted", "request the retry again")

    def tell(self, row: KindSpec, root: Json, reason: str, message: str) -> None:
        """Write an Event on an object, and count."""
        result = reason.removeprefix("Retry").lower()
        metrics.REQUESTED_RETRIES.labels(row.kind, result).inc()
        metadata = root["metadata"]
        notice = Notice(
            kind=row.kind,
            api_version=row.api_version,
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            reason=reason,
            message=message,
            type="Normal" if reason == "RetryStarted" else "Warning",
        )
        self.events.tell(notice)
        log.info(message, reason=reason, kind=row.kind, namespace=metadata["namespace"], name=metadata["name"])


def request_of(item: Json) -> str:
    """Keep of an object what admission has accepted, empty where it has accepted nothing."""
    return ((item["metadata"].get("annotations") or {}).get(names.RETRY_ACCEPTED) or "")[
        : requests.LONGEST_ACCEPTED + 1
    ]


def is_of_retry(root: Json) -> bool:
    """Return True if an object is a placeholder, or was one until somebody has spoilt it."""
    return names.RETRY_OF in (root["metadata"].get("labels") or {})


def placeholder_of(root: Json) -> Json:
    """Return a Job if it is a placeholder; raise StuckError where somebody has spoilt it."""
    executor.readable_state(root)
    if not of_job.is_placeholder(root):
        metadata = root["metadata"]
        what = (
            f"Job {metadata['namespace']}/{metadata['name']} has the label {names.RETRY_OF}, but contains no manifest"
        )
        raise StuckError(what, "remove the label, or delete the Job")
    return root


def last_of(root: Json) -> Requested | None:
    """Return what was last begun with an object, None if nothing ever was."""
    found = record.read(root)
    return found[-1] if found else None
