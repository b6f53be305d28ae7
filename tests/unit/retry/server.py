"""An API server for tests of timing and faults: it records each write, and can answer late or with errors."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import jsonpatch
import msgspec
import pytest

from tests.awaiting import LONGEST
from tools.generate.written import WRITTEN
from webhook.kube import names
from webhook.kube.client import Api, ApiError
from webhook.kube.events import Events
from webhook.objects.problem import Json
from webhook.systems.kind_spec import KindSpec
from webhook.tracking.cluster import Cluster

OF_JOBS = "SETS or REMOVES of webhook/systems/job/rerun.py"
REVIEWS = "/apis/authorization.k8s.io/v1/"
TRAIN = "/apis/batch/v1/namespaces/ml/jobs/train"
PLACEHOLDER = f"{TRAIN}-retry-uid-1"
# The writes of the retry of a Job, at each of which it is interrupted and continued; what follows counts them from 1.
STEPS_OF_A_JOB = [
    ("POST", PLACEHOLDER),
    ("PATCH", PLACEHOLDER),
    ("DELETE", TRAIN),
    ("POST", TRAIN),
    ("PATCH", PLACEHOLDER),
    ("PATCH", TRAIN),
    ("DELETE", PLACEHOLDER),
]
DELETING = STEPS_OF_A_JOB.index(("PATCH", PLACEHOLDER)) + 1  # the stage
DELETED = STEPS_OF_A_JOB.index(("DELETE", TRAIN)) + 1
CREATED = STEPS_OF_A_JOB.index(("POST", TRAIN)) + 1
RELEASED = len(STEPS_OF_A_JOB) - STEPS_OF_A_JOB[::-1].index(("PATCH", TRAIN))


def copy(root: Json) -> Json:
    found: Json = msgspec.json.decode(msgspec.json.encode(root))
    return found


def assert_writes_our_keys(path: str, before: Json, after: Json) -> None:
    """Fail if the policies that restrict the leader would refuse these labels and annotations (tools/generate)."""
    resource = path.split("/")[-2]
    keys = WRITTEN.get(resource if "volcano" not in path else "systems", WRITTEN["systems"])
    for field, to_set, removed in (
        ("annotations", {*keys.set_annotations, *keys.when_let_run}, keys.removed_annotations),
        ("labels", {*keys.set_labels, *keys.when_let_run}, keys.removed_labels),
    ):
        old, new = (root["metadata"].get(field) or {} for root in (before, after))
        changed = {key for key in old | new if old.get(key) != new.get(key)}
        may = {key for key in changed if key in to_set or (key in removed and key not in new)}
        if changed != may:
            refused_key(resource, changed - may)


def assert_creates_our_keys(path: str, root: Json) -> None:
    """Fail if a created object has a key of ours that no author writes, and that is not in WRITTEN."""
    resource = path.rsplit("/", maxsplit=1)[-1]
    by_authors = names.SAID | names.ASKED
    entries = {*(root["metadata"].get("annotations") or {}), *(root["metadata"].get("labels") or {})}
    ours = {key for key in entries if key.startswith(names.PREFIX)} - by_authors
    if resource in WRITTEN and ours - WRITTEN[resource].ours:
        refused_key(resource, ours - WRITTEN[resource].ours)


def refused_key(resource: str, keys: set[str]) -> NoReturn:
    """Fail with no Exception, which a leader would log."""
    place = OF_JOBS if resource == "jobs" else f"{resource} of WRITTEN in tools/generate/written.py"
    pytest.fail(f"the policies refuse these keys to the leader: {sorted(keys)}; add to {place}, then make generated")


class Server:
    """Stores objects by path and records each write; answers with an error, or late, if a test says so.

    `faults`: what the next calls of a verb raise, in this order, None for a call that succeeds. `late`: verbs whose
    next call is carried out, but answered only when `answer` is set; `waiting` is set once one waits. `late_write`:
    alike, the number of a write.
    """

    def __init__(self, *items: tuple[KindSpec, Json]) -> None:
        self.items: dict[str, Json] = {}
        for row, root in items:
            path = row.path(root["metadata"]["namespace"], root["metadata"]["name"])
            self.items[path] = copy(root)
        self.writes: list[tuple[str, str]] = []
        self.faults: defaultdict[str, list[Exception | None]] = defaultdict(list)
        self.late: set[str] = set()
        self.late_write: int | None = None
        self.waiting = asyncio.Event()
        self.refusal: BaseException | None = None  # of a write, by the policies
        self.answer = asyncio.Event()
        self.is_allowed = True
        self.version = 100

    async def is_waited_for(self) -> None:
        """Return when a call waits for a late answer; fail if none does."""
        await self.until(self.waiting.is_set)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once a condition holds; fail if it does not come to hold, or if a write has been refused."""
        async with asyncio.timeout(LONGEST):
            while not condition():
                if self.refusal is not None:  # its task has ended, and nothing will change any more
                    raise self.refusal
                await asyncio.sleep(0.01)

    def judge(self, check: Callable[..., None], path: str, *roots: Json) -> None:
        """Fail if the policies that restrict the leader refuse a write, and with it whoever waits for a late answer."""
        try:
            check(path, *roots)
        except pytest.fail.Exception as refusal:
            self.refusal = refusal
            raise

    async def call(self, verb: str) -> None:
        """Raise the error that the test has set for this call, if any."""
        if self.faults[verb] and (fault := self.faults[verb].pop(0)) is not None:
            raise fault

    async def answered(self, verb: str, found: Json) -> Json:
        """Return the current state of an object, late if the test says so."""
        answer = copy(found)
        if verb in self.late or (verb not in {"GET", "REVIEW"} and len(self.writes) == self.late_write):
            self.late.discard(verb)
            self.waiting.set()
            await self.answer.wait()
        return answer

    def stored(self, path: str) -> Json:
        if path not in self.items:
            raise ApiError(404, "not found")
        return self.items[path]

    def store(self, path: str, root: Json) -> Json:
        self.version += 1
        root = copy(root)
        root["metadata"]["resourceVersion"] = str(self.version)
        self.items[path] = root
        return root

    async def get(self, path: str, *_: Any, **__: Any) -> Any:
        await self.call("GET")
        return await self.answered("GET", self.stored(path))

    async def find(self, path: str) -> Json | None:
        await self.call("GET")
        found = self.items.get(path)
        return None if found is None else await self.answered("GET", found)

    async def objects(self, path: str, query: dict[str, str], *_: Any, **__: Any) -> AsyncIterator[Any]:
        await self.call("LIST")
        key, _equals, value = query.get("labelSelector", "").partition("=")
        for place, one in list(self.items.items()):
            labels = one["metadata"].get("labels") or {}
            if place.rpartition("/")[0] == path and (not key or (key in labels and value in {"", labels[key]})):
                yield copy(one)

    async def create(self, path: str, root: Json, *, dry_run: bool = False) -> Json:
        if path.startswith(REVIEWS):
            await self.call("REVIEW")
            return await self.answered("REVIEW", {"status": {"allowed": self.is_allowed}})
        at = f"{path}/{root['metadata']['name']}"
        self.judge(assert_creates_our_keys, path, root)
        if dry_run:
            return copy(root)
        self.writes.append(("POST", at))
        await self.call("POST")
        if at in self.items:
            raise ApiError(409, "already exists")
        made = copy(root)
        made["metadata"]["uid"] = f"uid-{self.version}"
        return await self.answered("POST", self.store(at, made))

    async def replace(self, path: str, root: Json) -> Json:
        self.writes.append(("PUT", path))
        await self.call("PUT")
        at = path.removesuffix("/status")
        before = self.stored(at)
        if root["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise ApiError(409, "changed meanwhile")
        changed = {**before, "status": root["status"]} if path.endswith("/status") else root
        self.judge(assert_writes_our_keys, at, before, changed)
        return await self.answered("PUT", self.store(at, copy(changed)))

    async def patch(self, path: str, operations: list[Json]) -> Json:
        self.writes.append(("PATCH", path))
        await self.call("PATCH")
        at = path.removesuffix("/status")
        root = copy(self.stored(at))
        try:
            absent = [one for one in operations if one["op"] == "test" and one["value"] is None]
            assert all(jsonpatch.JsonPointer(one["path"]).resolve(root, None) is None for one in absent)
            changed = jsonpatch.apply_patch(root, [one for one in operations if one not in absent])
        except (AssertionError, jsonpatch.JsonPatchException) as error:
            raise ApiError(422, f"the patch does not apply: {error}") from None
        self.judge(assert_writes_our_keys, at, self.stored(at), changed)
        return await self.answered("PATCH", self.store(at, changed))

    async def delete(self, path: str, uid: str, *, after: bool = False) -> None:  # noqa: ARG002 - as the client has it
        self.writes.append(("DELETE", path))
        await self.call("DELETE")
        if self.stored(path)["metadata"]["uid"] != uid:
            raise ApiError(409, "another object has this name")
        await self.answered("DELETE", self.items.pop(path))

    async def username(self) -> str:
        return "leader"


def api_of(server: Server) -> Api:
    api: Any = server
    found: Api = api
    return found


def served(server: Server) -> Cluster:
    """Return the caches of a replica, with the opted-in namespace `ml`."""
    cluster = Cluster(api_of(server))
    cluster.namespaces.items["", "ml"] = ("default", None)
    cluster.namespaces.live = True
    return cluster


def queued_events(events: Events) -> list[tuple[str, str]]:
    """Return reason and message of each queued Event."""
    found = []
    while not events.waiting.empty():
        notice = events.waiting.get_nowait()
        found.append((notice.reason, notice.message))
    return found
