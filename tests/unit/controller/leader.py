"""Runs a leader with a fake API, whose answers the test chooses, and records what the leader writes and when.

The fake does not apply the writes. Tests on a real API server show what a write means.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tests.accounts import stored
from tests.admission import policy
from tests.objects import STATE_KEY
from tests.unit.accounts.pods import job
from tests.virtual_time import now
from webhook.accounts.account import Account
from webhook.accounts.cached import CachedJob
from webhook.accounts.stored import decode, encode
from webhook.accounts.tracker import Key
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.kube.client import ListMeta, Page
from webhook.kube.events import Events
from webhook.kube.informer import Event
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.trackers import Trackers

KEY = Key("ml", batch.JOB, "train")
PODS = "/api/v1/pods"
JOB_PATH = "/apis/batch/v1/namespaces/ml/jobs/train"
ACCOUNTS = "/apis/retry-policy.dev/v1alpha1/namespaces/"
VERSION = "7"  # of all objects


@dataclass(frozen=True, slots=True)
class Write:
    """A write that the API received; `at`: seconds since the loop began. `root`: the object that it created."""

    at: float
    path: str
    operations: list[Json]
    root: Json | None = None

    @property
    def is_of_account(self) -> bool:
        return self.path.startswith(ACCOUNTS)

    @property
    def workload(self) -> str:
        """The name of the workload that an account is about."""
        return self.path.rpartition("/")[2].partition("-")[2].rpartition("-")[0]

    @property
    def is_new(self) -> bool:
        return self.root is not None

    @property
    def account(self) -> Account:
        return decode(self.text)

    @property
    def text(self) -> str:
        if self.root is not None:
            return encode(decode(msgspec.json.encode(self.root["status"])))
        (status,) = [operation["value"] for operation in self.operations if operation["path"] == "/status"]
        return encode(decode(msgspec.json.encode(status)))


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API to a write: after some seconds, with an error or without."""

    after: float = 0.0
    error: Exception | None = None


class FakeApi:
    """Records every write and answers it with the next of `answers`, if any; `objects` has the objects by path.

    A list returns `lists` of its path. A watch sends what is put into `watches`; an Exception there ends the watch.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = deque(answers)
        self.writes: list[Write] = []
        self.objects: dict[str, Json] = {}
        self.lists: dict[str, list[Json]] = {}
        self.watches: dict[str, asyncio.Queue[Json | Exception]] = {}
        self.created: list[tuple[str, Json]] = []
        self.deleted: list[tuple[str, str]] = []  # paths and uids

    async def create(self, path: str, root: Json) -> Json:
        if root["kind"] == "Account":
            await self.take(Write(now(), f"{path}/{root['metadata']['name']}", [], root))
        else:
            self.created.append((path, root))
        return root

    async def delete(self, path: str, uid: str) -> None:
        self.deleted.append((path, uid))

    async def patch(self, path: str, operations: list[Json]) -> Json:
        await self.take(Write(now(), path, operations))
        return {}

    async def take(self, write: Write) -> None:
        self.writes.append(write)
        answer = self.answers.popleft() if self.answers else Answer()
        await asyncio.sleep(answer.after)
        if answer.error is not None:
            raise answer.error

    async def get(self, path: str, _query: dict[str, str] | None = None, _accept: str = "", kind: Any = Any) -> Json:
        found: Json = msgspec.convert(self.objects[path], kind)
        return found

    async def find(self, path: str) -> Json | None:
        return self.objects.get(path)

    async def pages(self, path: str, *_: object) -> AsyncIterator[Page]:
        yield Page(ListMeta("1"), [msgspec.Raw(msgspec.json.encode(root)) for root in self.lists.get(path, ())])

    @asynccontextmanager
    async def stream(self, path: str, *_: object) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self.lines(self.watches.setdefault(path, asyncio.Queue()))

    async def lines(self, events: asyncio.Queue[Json | Exception]) -> AsyncIterator[bytes]:
        while True:
            event = await events.get()
            if isinstance(event, Exception):
                raise event
            yield msgspec.json.encode(event)

    def account_writes(self) -> list[Write]:
        return [write for write in self.writes if write.is_of_account]

    def accounts_of(self, name: str) -> list[Write]:
        """Return the writes of the accounts of the workloads of a name."""
        among = [write for write in self.writes if f"-{name}-" in write.path]  # is_of_account takes longer
        return [write for write in among if write.is_of_account and write.workload == name]


def new_ledger(api: FakeApi, profile: Profile | None = None, *, opted_in: bool = True) -> Ledger:
    """Return a ledger that has an opted-in namespace in its cache, and does not lead yet."""
    loop, client = asyncio.get_running_loop(), api_of(api)
    cluster = Cluster(client)
    cluster.state_key.key = STATE_KEY.key
    if opted_in:
        cluster.namespaces.items["", "ml"] = ("default", None)
    ledger = Ledger(cluster, PolicySource(policy(default=profile or Profile())), Events(client), clock=loop.time)
    for cache in (cluster.namespaces, cluster.jobs, ledger.trackers.pods, ledger.trackers.accounts):
        cache.synced.set()
        cache.live = True
    return ledger


def set_policy(ledger: Ledger, **fields: Any) -> None:
    """Put a policy in force in which these fields differ."""
    assert ledger.policy.current is not None
    ledger.policy.put_in_force(replace(ledger.policy.current, **fields), "the test")


def events_of(ledger: Ledger) -> list[tuple[str, str]]:
    """Return reason and message of the Events that were queued, and forget them."""
    told = [ledger.events.waiting.get_nowait() for _ in range(ledger.events.waiting.qsize())]
    return [(notice.reason, notice.message) for notice in told]


def api_of(api: FakeApi) -> Any:
    return api


@asynccontextmanager
async def leading(ledger: Ledger) -> AsyncIterator[Ledger]:
    """Let a ledger lead while the block runs."""
    async with beside(ledger.work()):
        await asyncio.sleep(0)
        yield ledger


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run work while the block runs, and cancel it at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def see_job(ledger: Ledger, text: str | None = None, *, name: str = "train", **fields: Any) -> CachedJob:
    """Add a Job with an account to the cache; return the part of it that is cached."""
    root = job(fields.pop("spec", None), fields.pop("status", None), name=name, uid=fields.pop("uid", "job-uid"))
    root["metadata"] |= {"resourceVersion": VERSION, "labels": {names.PROFILE: "default"}, "annotations": {}}
    see_account(ledger.trackers, batch.JOB, root, text)
    read = ledger.cluster.jobs.read(msgspec.Raw(msgspec.json.encode(root)))
    assert read is not None
    key, cached = read
    ledger.cluster.jobs.items[key] = cached
    ledger.trackers.see_job(cached)
    return cached


def see_account(found: Trackers, kind: KindSpec, root: Json, text: str | None) -> None:
    """Let the watch deliver the account of a workload, or for None its deletion."""
    account = stored(kind, root, text)
    informer, name = found.accounts, account["metadata"]["name"]
    if text is not None:
        informer.take(Event("ADDED", msgspec.Raw(msgspec.json.encode(account))))
    elif ("ml", name) in informer.items:
        informer.take(Event("DELETED", msgspec.Raw(msgspec.json.encode(account))))


class HeldLease:
    """A lease that is always held."""

    async def lead(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        await work()


@asynccontextmanager
async def running(ledger: Ledger) -> AsyncIterator[Ledger]:
    """Let a ledger watch pods and lead while the block runs."""
    lease: Any = HeldLease()
    async with beside(ledger.run(lease)):
        await asyncio.sleep(0.01)
        yield ledger


def stored_pod(number: int = 1, phase: str = "Running", code: int = 0, **metadata: Any) -> Json:
    """Return a stored pod of the Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
    terminated = {"exitCode": code, "reason": "Error", "finishedAt": "2026-01-01T00:01:00Z"}
    return {
        "metadata": {
            "namespace": "ml",
            "name": f"train-{number}",
            "uid": f"uid-{number}",
            "resourceVersion": "1",
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [owner],
            **metadata,
        },
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}] if code else [],
        },
    }


def watch_event(kind: str, root: Json) -> Json:
    """Return an event of a watch."""
    return {"type": kind, "object": root}


def tell(api: FakeApi, event: Json) -> None:
    """Let the watch of pods deliver an event."""
    api.watches[PODS].put_nowait(event)


def spec_writes(api: FakeApi) -> list[Write]:
    """Return the writes of the Job's spec."""
    return [write for write in api.writes if write.path == JOB_PATH]


def failures(api: FakeApi) -> list[Write]:
    """Return the writes of the Job's status, by which the leader fails it."""
    return [write for write in api.writes if write.path == f"{JOB_PATH}/status"]


BOOKMARK: Final = watch_event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
