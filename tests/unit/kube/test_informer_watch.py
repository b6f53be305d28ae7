"""An informer's lists and watches, second by second, with a scripted API and virtual time."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import aiohttp
import msgspec
import pytest
import structlog

from tests import virtual_time
from tests.virtual_time import now
from webhook.kube import informer
from webhook.kube.client import ApiError, ListMeta, Page
from webhook.kube.informer import LONGEST_PAUSE, LONGEST_PAUSE_AFTER_OPENING, Informer
from webhook.objects.problem import Json

GONE = ApiError(410, "too old resource version")
NOT_FOUND = ApiError(404, "the server could not find the requested resource")
SERVER_ERROR = ApiError(500, "etcd has no leader")
HANG = object()  # the API does not answer, or a watch stays open and silent
Listed = list[list[str]] | Exception | object  # pages of names


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Print no tracebacks: formatting them takes longer than all the tests."""
    with structlog.testing.capture_logs():
        yield


def event(kind: str, name: str = "", version: str = "1", **fields: Any) -> bytes:
    return msgspec.json.encode(
        {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": version}, **fields}}
    )


def objects(*names: str) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode({"metadata": {"name": name}})) for name in names]


class ScriptedApi:
    """Answers lists and watches from two scripts; at the end of a script the API does not answer.

    A list's version is the number of its request: "list-1" and so on. A watch is an exception that opening it raises,
    or its lines; an exception among them breaks the watch.
    """

    def __init__(self, lists: list[Listed], watches: list[list[Any] | Exception]) -> None:
        self.lists = deque(lists)
        self.watches = deque(watches)
        self.asked: list[tuple[float, str]] = []  # the time, and "list" or the version from which a watch starts

    async def pages(self, *_: object) -> AsyncIterator[Page]:
        self.asked.append((now(), "list"))
        version = f"list-{sum(what == 'list' for _, what in self.asked)}"
        found: Any = self.lists.popleft() if self.lists else HANG
        if found is HANG:
            await asyncio.Event().wait()
        for names in [found] if isinstance(found, Exception) else found:
            if isinstance(names, Exception):
                raise names
            await asyncio.sleep(0)
            yield Page(ListMeta(version=version), objects(*names))

    @asynccontextmanager
    async def stream(self, _: str, query: dict[str, str], __: str) -> AsyncIterator[AsyncIterator[bytes]]:
        assert query["allowWatchBookmarks"] == "true"
        self.asked.append((now(), query["resourceVersion"]))
        found = self.watches.popleft() if self.watches else [HANG]
        if isinstance(found, Exception):
            raise found
        yield self.lines(found)

    async def lines(self, script: list[Any]) -> AsyncIterator[bytes]:
        for line in script:
            if line is HANG:
                await asyncio.Event().wait()
            if isinstance(line, Exception):
                raise line
            if isinstance(line, float):
                await asyncio.sleep(line)
            else:
                yield line

    @property
    def order(self) -> list[str]:
        return [what for _, what in self.asked]


def watched(
    lists: list[Listed],
    watches: list[list[Any] | Exception],
    look: Callable[[ScriptedApi, Informer[Json]], Awaitable[None]],
) -> None:
    """Run an informer on the scripts, and `look` at the same time."""

    async def run() -> None:
        api: Any = ScriptedApi(lists, watches)
        clock = asyncio.get_running_loop().time  # a gauge also reads it after the loop has ended
        found: Informer[Json] = Informer(
            api, "/apis/batch/v1/jobs", lambda item: item["metadata"], query={}, clock=clock
        )
        running = asyncio.create_task(found.run())
        try:
            await look(api, found)
        finally:
            running.cancel()
            await asyncio.wait({running})

    virtual_time.run(run())


def names_of(found: Informer[Json]) -> list[str]:
    return [name for _, name in found.items]


@pytest.mark.parametrize(
    "watch", [GONE, [event("ERROR", code=410)], [event("ADDED", "b", "2"), event("ERROR", code=410)]]
)
def test_after_410_gone_the_list_is_read_again_without_the_objects_that_were_deleted(watch: Any) -> None:
    async def look(api: ScriptedApi, found: Informer[Json]) -> None:
        await asyncio.sleep(5)
        assert api.order == ["list", "list-1", "list", "list-2"]
        assert names_of(found) == ["c"]
        assert found.live

    watched([[["a"]], [["c"]]], [watch], look)


def test_a_watch_that_ends_normally_is_resumed_at_the_last_version_without_a_list() -> None:
    async def look(api: ScriptedApi, found: Informer[Json]) -> None:
        await asyncio.sleep(10)
        assert api.order == ["list", "list-1", "7", "9"]
        assert names_of(found) == ["a", "b"]

    bookmark = event("BOOKMARK", version="9")
    watched([[["a"]]], [[event("ADDED", "b", "7")], [bookmark]], look)


@pytest.mark.parametrize("broken", [aiohttp.ClientPayloadError(), TimeoutError(), OSError("reset"), b"no JSON"])
def test_after_a_watch_that_breaks_the_list_is_read_again(broken: Any) -> None:
    async def look(api: ScriptedApi, found: Informer[Json]) -> None:
        await asyncio.sleep(5)
        assert api.order == ["list", "list-1", "list", "list-2"]
        assert names_of(found) == ["c"]

    watched([[["a"]], [["c"]]], [[event("ADDED", "b", "7"), broken]], look)


@pytest.mark.parametrize("seconds", [1.0, 20.0])
def test_a_watch_that_a_busy_api_server_refuses_is_opened_again_without_a_list(seconds: float) -> None:
    async def look(api: ScriptedApi, found: Informer[Json]) -> None:
        await asyncio.sleep(5 * seconds)
        assert api.order == ["list", "list-1", "list-1", "list-1"]
        assert all(seconds <= after - before for (before, _), (after, _) in pairwise(api.asked[1:]))
        assert found.live
        assert names_of(found) == ["a", "b"]

    refused = ApiError(429, "too many requests", seconds)
    watched([[["a"]]], [refused, refused, [event("ADDED", "b", "7"), HANG]], look)


def test_after_a_list_that_a_busy_api_server_refuses_the_pause_is_as_long_as_it_asks() -> None:
    async def look(api: ScriptedApi, _: Informer[Json]) -> None:
        await asyncio.sleep(50)
        assert api.order == ["list", "list", "list-2"]
        assert api.asked[1][0] - api.asked[0][0] >= 30

    watched([ApiError(429, "too many requests", 30.0), [["a"]]], [[HANG]], look)


def test_while_the_list_is_not_watched_its_last_objects_stay_and_its_age_grows() -> None:
    async def look(_: ScriptedApi, found: Informer[Json]) -> None:
        await asyncio.sleep(59)
        assert (found.live, found.age()) == (True, 0)
        await asyncio.sleep(61)
        assert not found.live
        assert found.age() == pytest.approx(60)
        assert found.synced.is_set()
        assert names_of(found) == ["a"]

    watched([[["a"]], HANG], [[60.0, OSError("reset")]], look)


def test_a_list_whose_pages_expire_is_read_again_from_its_start() -> None:
    async def look(api: ScriptedApi, found: Informer[Json]) -> None:
        await found.synced.wait()
        assert api.order[:2] == ["list", "list"]
        assert names_of(found) == ["b", "c"]

    watched([[["a"], GONE], [["b"], ["c"]]], [], look)


def test_an_object_that_moves_to_a_later_page_during_a_list_is_kept_once() -> None:
    async def look(_: ScriptedApi, found: Informer[Json]) -> None:
        await found.synced.wait()
        assert names_of(found) == ["a", "b"]

    watched([[["a", "b"], ["b"]]], [], look)


def test_before_the_first_list_the_informer_is_not_synced() -> None:
    async def look(_: ScriptedApi, found: Informer[Json]) -> None:
        await asyncio.sleep(100)
        assert (found.synced.is_set(), found.live, found.age()) == (False, False, 100)

    watched([HANG], [], look)


def test_pauses_double_up_to_the_longest_while_the_api_fails() -> None:
    async def look(api: ScriptedApi, _: Informer[Json]) -> None:
        await asyncio.sleep(20 * LONGEST_PAUSE)
        times = [when for when, _ in api.asked]
        pauses = [later - earlier for earlier, later in pairwise(times)]
        for number, pause in enumerate(pauses):
            expected = min(informer.SHORTEST_PAUSE * 2**number, LONGEST_PAUSE)
            assert 0.49 * expected <= pause <= 1.51 * expected

    watched([SERVER_ERROR] * 100, [], look)


def test_after_an_api_has_worked_again_its_next_failure_has_a_short_pause() -> None:
    async def look(api: ScriptedApi, found: Informer[Json]) -> None:
        await found.synced.wait()
        await asyncio.sleep(2)
        await asyncio.sleep(1)
        assert api.order.count("list") == 10

    watched([*[SERVER_ERROR] * 8, [["a"]], [["a"]]], [[event("ADDED", "b"), 2.0, OSError("reset")]], look)


def test_after_a_watch_that_closes_at_once_there_is_a_pause() -> None:
    async def look(api: ScriptedApi, _: Informer[Json]) -> None:
        await asyncio.sleep(100)
        assert 100 / (3 * LONGEST_PAUSE_AFTER_OPENING) <= len(api.asked) <= 100 / 0.5

    watched([[["a"]]], [[] for _ in range(1000)], look)


def test_a_kind_that_is_not_installed_is_listed_after_its_installation() -> None:
    async def look(_: ScriptedApi, found: Informer[Json]) -> None:
        await found.known.wait()
        assert (found.missing, found.synced.is_set(), found.age()) == (True, False, 0)
        await found.synced.wait()
        await asyncio.sleep(1)
        assert (found.missing, found.live, names_of(found)) == (False, True, ["a"])

    watched([NOT_FOUND, NOT_FOUND, [["a"]]], [], look)


def test_a_kind_that_is_removed_while_its_watch_is_broken_leaves_no_objects() -> None:
    observer = Recording()

    async def look(_: ScriptedApi, found: Informer[Json]) -> None:
        found.observers.append(observer)
        await found.synced.wait()
        assert names_of(found) == ["a"]
        await asyncio.sleep(20)
        assert (found.missing, names_of(found)) == (True, [])
        assert observer.told == ["begin", "a", "end", "begin", "begin", "end", "begin"]

    watched([[["a"]], SERVER_ERROR, NOT_FOUND], [OSError("reset")], look)


class Failing:
    """An observer whose methods all fail."""

    def begin_list(self) -> None:
        raise RuntimeError

    def listed(self, _: object) -> None:
        raise RuntimeError

    async def end_list(self) -> None:
        raise RuntimeError

    def seen(self, _: object) -> None:
        raise RuntimeError

    def deleted(self, _: object) -> None:
        raise RuntimeError

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Do nothing."""


def test_an_observer_that_fails_stops_neither_the_list_nor_the_watch() -> None:
    async def look(_: ScriptedApi, found: Informer[Json]) -> None:
        found.observers.append(Failing())
        await asyncio.sleep(5)
        assert (found.live, names_of(found)) == (True, ["b"])

    watched([[["a"]]], [[1.0, event("ADDED", "b"), event("DELETED", "a"), HANG]], look)


class Recording:
    """An observer that records what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin_list(self) -> None:
        self.told.append("begin")

    def listed(self, item: Json) -> None:
        self.told.append(item["name"])

    async def end_list(self) -> None:
        self.told.append("end")

    def seen(self, item: Json) -> None:
        self.told.append(f"seen {item['name']}")

    def deleted(self, item: Json) -> None:
        self.told.append(f"deleted {item['name']}")

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        self.told.append(f"forgotten {sorted(namespaces)}")


def test_observers_take_a_list_object_by_object_and_are_told_its_end_only_if_all_pages_came() -> None:
    observer = Recording()

    async def look(_: ScriptedApi, found: Informer[Json]) -> None:
        found.observers.append(observer)
        await found.synced.wait()
        assert observer.told == ["begin", "a", "begin", "b", "c", "end"]
        assert names_of(found) == ["b", "c"]

    watched([[["a"], GONE], [["b"], ["c"]]], [], look)


def test_an_informer_whose_objects_only_observers_take_stores_none() -> None:
    async def run() -> None:
        observer = Recording()
        api: Any = ScriptedApi([[["a"], ["b"]]], [[event("ADDED", "c"), event("DELETED", "a"), HANG]])
        found: Informer[Json] = Informer(api, "/x", lambda item: item["metadata"], query={}, stored=False)
        found.observers.append(observer)
        running = asyncio.create_task(found.run())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait({running})
        assert observer.told == ["begin", "a", "b", "end", "seen c", "deleted a"]
        assert len(found.items) == 0

    virtual_time.run(run())
