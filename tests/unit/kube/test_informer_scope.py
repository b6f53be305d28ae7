"""The namespaces of which an informer holds objects: they join and leave while it lists and watches."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import virtual_time
from webhook.kube.client import ApiError, ListMeta, Page
from webhook.kube.informer import Event, Informer, Scope
from webhook.objects.problem import Json

Key = tuple[str, str]  # namespace and name

WHOLE: Final = ""  # among the namespaces that were listed: the list of all
GONE: Final = msgspec.json.encode({"type": "ERROR", "object": {"code": 410}})


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Print no tracebacks: formatting them takes longer than all the tests."""
    with structlog.testing.capture_logs():
        yield


class Server:
    """An API server with objects of one kind. Its lists have a page for each object.

    `listed`: the namespaces that were listed. `held`: whether the watch delivers nothing now. `refused`: how many of
    the next lists fail after their first page, with `refusal`; `fails_whole`: whether each list of all does.
    `after_page`: called with the name of each object that was listed.
    """

    def __init__(self) -> None:
        self.objects: dict[Key, None] = {}
        self.events: list[bytes] = []  # each changes the version to the number of events up to it
        self.listed: list[str] = []
        self.held = False
        self.refused = 0
        self.refusal: Exception = ApiError(500, "etcd has no leader")
        self.fails_whole = False
        self.after_page: Callable[[str], None] = lambda _: None
        self.last: bytes | Exception | None = None  # the line with which the watch ends, empty without, or its error
        self.moved = asyncio.Event()

    def create(self, *key: str) -> None:
        """Create an object, if it does not exist; else change it."""
        namespace, name = key
        self._change("MODIFIED" if (namespace, name) in self.objects else "ADDED", (namespace, name))
        self.objects[namespace, name] = None

    def delete(self, *key: str) -> None:
        """Delete an object, if it exists."""
        namespace, name = key
        if (namespace, name) in self.objects:
            del self.objects[namespace, name]
            self._change("DELETED", (namespace, name))

    def _change(self, kind: str, key: Key) -> None:
        self.events.append(msgspec.json.encode({"type": kind, "object": stored(*key, str(len(self.events) + 1))}))
        self.moved.set()

    def release(self) -> None:
        """Let the watch deliver what it has held."""
        self.held = False
        self.moved.set()

    def end_watch(self, last: bytes | Exception = b"") -> None:
        """End the watch, after a last line, or with an error, without what it has held."""
        self.last = last
        self.moved.set()

    async def pages(self, path: str, *_: object) -> AsyncIterator[Page]:
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        self.listed.append(namespace)
        version, keys = str(len(self.events)), [key for key in self.objects if namespace in {WHOLE, key[0]}]
        refused, self.refused = self.refused > 0, max(0, self.refused - 1)
        refused |= self.fails_whole and namespace == WHOLE
        for key in keys:
            await asyncio.sleep(0.1)
            yield Page(ListMeta(version=version), [raw_of(*key)])
            self.after_page(key[1])
            if refused:
                break
        if refused:
            raise self.refusal
        yield Page(ListMeta(version=version), [])

    @asynccontextmanager
    async def stream(self, _: str, query: dict[str, str], __: str) -> AsyncIterator[AsyncIterator[bytes]]:
        self.last = None
        yield self.lines(int(query["resourceVersion"]))

    async def lines(self, version: int) -> AsyncIterator[bytes]:
        while True:
            if isinstance(self.last, Exception):
                raise self.last
            if self.last is not None:
                if self.last:
                    yield self.last
                return
            if self.held or version == len(self.events):
                self.moved.clear()
                await self.moved.wait()
            else:
                version += 1
                yield self.events[version - 1]


def stored(namespace: str, name: str, version: str = "1") -> Json:
    return {"metadata": {"namespace": namespace, "name": name, "resourceVersion": version}}


def raw_of(namespace: str, name: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(stored(namespace, name)))


class Holding:
    """An observer that holds what exists, as far as it is told.

    `history`: what existed, until the namespace leaves.
    """

    def __init__(self) -> None:
        self.held: set[Key] = set()
        self.there: set[Key] = set()
        self.history: set[Key] = set()

    def begin_list(self) -> None:
        self.there = set()

    def listed(self, item: Json) -> None:
        self.there.add(key_of(item))
        self.seen(item)

    async def end_list(self) -> None:
        self.held &= self.there

    def seen(self, item: Json) -> None:
        self.held.add(key_of(item))
        self.history.add(key_of(item))

    def deleted(self, item: Json) -> None:
        self.held.discard(key_of(item))

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        self.held = {key for key in self.held if key[0] not in namespaces}
        self.history = {key for key in self.history if key[0] not in namespaces}


def key_of(metadata: Json) -> Key:
    return metadata["namespace"], metadata["name"]


class InScope(NamedTuple):
    """An informer that follows a scope; `observer`: what it tells; `namespaces`: those that are opted in."""

    server: Server
    namespaces: Informer[Json]
    found: Informer[Json]
    observer: Holding

    def join(self, *names: str) -> None:
        """Opt namespaces in."""
        for name in names:
            self.namespaces.items["", name] = {}
        self.namespaces.notify()

    def leave(self, name: str) -> None:
        """Opt a namespace out."""
        self.namespaces.items.pop(("", name), None)
        self.namespaces.notify()

    async def begin(self) -> None:
        """Let the namespaces be known, and the informer have its first list."""
        self.namespaces.synced.set()
        await asyncio.sleep(1)
        assert self.found.live


@asynccontextmanager
async def in_scope(*objects: Key) -> AsyncIterator[InScope]:
    """Yield an informer that runs, and whose API server has these objects; the namespaces are not known yet."""
    server: Any = Server()
    for key in objects:
        server.create(*key)
    namespaces: Informer[Json] = Informer(server, "/ns", lambda item: item, query={})
    scope, observer = Scope(namespaces), Holding()
    found: Informer[Json] = Informer(server, "/api/v1/x", lambda item: item["metadata"], query={}, scope=scope)
    found.observers.append(observer)
    running = asyncio.create_task(found.run())
    yield InScope(server, namespaces, found, observer)
    running.cancel()
    await asyncio.wait({running})


def test_objects_of_namespaces_that_are_not_opted_in_enter_only_once_they_are_and_leave_again() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a")) as it:
            await asyncio.sleep(1)
            assert not it.found.synced.is_set()  # it waits for the list of namespaces
            await it.begin()
            hostile = msgspec.Raw(msgspec.json.encode({**stored("other", "b"), "spec": [[]]}))
            it.found.take(Event("ADDED", hostile))
            assert it.found.items == {}
            it.join("ml")
            await asyncio.sleep(1)
            assert list(it.found.items) == [("ml", "a")]
            assert it.observer.held == {("ml", "a")}
            it.leave("ml")
            await asyncio.sleep(1)
            assert it.found.items == {}
            assert it.observer.held == set()

    virtual_time.run(run())


def test_a_list_has_the_namespaces_that_were_opted_in_before_it_so_none_of_them_is_listed_again() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a")) as it:
            it.join("ml")
            await it.begin()
            assert it.server.listed == [WHOLE]
            assert list(it.found.items) == [("ml", "a")]

    virtual_time.run(run())


def test_namespaces_are_listed_in_the_order_in_which_they_were_opted_in() -> None:
    async def run() -> None:
        names = [f"team-{number}" for number in range(20)]
        async with in_scope(*((name, "a") for name in names)) as it:
            it.namespaces.synced.set()
            await asyncio.sleep(10)
            for name in names:
                it.join(name)
                await asyncio.sleep(0.01)
            await asyncio.sleep(30)
            assert it.server.listed == [WHOLE, *names]

    virtual_time.run(run())


def test_a_namespace_that_is_opted_in_before_anything_is_in_it_is_not_listed() -> None:
    async def run() -> None:
        async with in_scope(("other", "a")) as it:
            await it.begin()
            it.join("ml")
            await asyncio.sleep(1)
            it.server.create("ml", "a")
            await asyncio.sleep(1)
            assert it.observer.held == {("ml", "a")}
            assert it.server.listed == [WHOLE]

    virtual_time.run(run())


def test_an_object_from_before_the_opt_in_whose_event_comes_after_it_is_kept_without_a_list() -> None:
    async def run() -> None:
        async with in_scope() as it:
            await it.begin()
            it.server.held = True
            it.server.create("ml", "a")
            it.join("ml")
            await asyncio.sleep(1)
            assert it.found.items == {}
            it.server.release()
            await asyncio.sleep(1)
            assert it.observer.held == {("ml", "a")}
            assert it.server.listed == [WHOLE]

    virtual_time.run(run())


def test_a_namespace_whose_objects_are_all_deleted_is_not_remembered() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a"), ("ml", "b")) as it:
            await it.begin()
            it.server.create("ml", "c")
            it.server.create("ml", "a")  # a change
            await asyncio.sleep(1)
            assert it.found.numbers == {"ml": 3}
            for name in ("a", "b", "c"):
                it.server.delete("ml", name)
            await asyncio.sleep(1)
            assert it.found.numbers == {}
            it.join("ml")
            await asyncio.sleep(1)
            assert it.server.listed == [WHOLE]

    virtual_time.run(run())


def test_a_namespace_that_leaves_is_listed_when_it_joins_again_unless_it_is_empty_then() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a"), ("other", "b")) as it:
            it.join("ml", "other")
            await it.begin()
            for name in ("ml", "other"):
                it.leave(name)
            it.server.delete("other", "b")
            await asyncio.sleep(1)
            it.join("ml", "other")
            await asyncio.sleep(1)
            assert it.server.listed == [WHOLE, "ml"]
            assert it.observer.held == {("ml", "a")}

    virtual_time.run(run())


def test_what_was_deleted_while_its_namespace_was_out_is_forgotten_although_it_joins_again_at_once() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a"), ("ml", "b")) as it:
            it.join("ml")
            await it.begin()
            async with it.found.turn:  # as while another namespace is listed
                it.leave("ml")
                it.found.take(Event("DELETED", raw_of("ml", "b")))
                it.join("ml")
                del it.server.objects["ml", "b"]
            await asyncio.sleep(1)
            assert set(it.found.items) == it.observer.held == {("ml", "a")}

    virtual_time.run(run())


def test_a_watch_that_is_resumed_still_tells_which_namespaces_have_objects() -> None:
    async def run() -> None:
        async with in_scope() as it:
            await it.begin()
            it.server.create("ml", "a")
            await asyncio.sleep(1)
            it.server.end_watch()
            await asyncio.sleep(5)
            it.join("ml")
            await asyncio.sleep(1)
            assert it.observer.held == {("ml", "a")}
            assert it.server.listed == [WHOLE, "ml"]

    virtual_time.run(run())


def test_after_a_gap_in_the_watch_the_new_list_tells_which_namespaces_have_objects() -> None:
    async def run() -> None:
        async with in_scope(("old", "a")) as it:
            await it.begin()
            it.server.held = True
            it.server.delete("old", "a")
            it.server.create("new", "b")
            it.server.end_watch(GONE)
            it.server.release()
            await asyncio.sleep(5)
            it.join("old", "new")
            await asyncio.sleep(1)
            assert it.observer.held == {("new", "b")}
            assert it.server.listed == [WHOLE, WHOLE, "new"]

    virtual_time.run(run())


def test_a_namespace_that_is_opted_in_during_a_list_is_listed_after_it() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a"), ("ml", "b"), ("other", "c"), ("other", "d")) as it:
            await it.begin()
            it.server.after_page = lambda name: it.join("ml") if name == "a" else None
            it.server.end_watch(GONE)
            await asyncio.sleep(5)
            assert it.server.listed == [WHOLE, WHOLE, "ml"]
            assert set(it.found.items) == it.observer.held == {("ml", "a"), ("ml", "b")}

    virtual_time.run(run())


def test_a_namespace_that_leaves_during_a_list_is_forgotten_before_its_next_page() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a"), *(("other", str(number)) for number in range(7))) as it:
            it.join("ml", "other")
            await it.begin()
            held = []

            def after_page(name: str) -> None:
                held.append(("ml", "a") in it.found.items or ("ml", "a") in it.observer.history)
                if name == "3":
                    it.leave("ml")

            it.server.after_page = after_page
            it.server.end_watch(GONE)
            await asyncio.sleep(5)
            assert held == [*[True] * 5, *[False] * 3]

    virtual_time.run(run())


def test_of_a_kind_that_is_never_listed_no_namespaces_are_remembered_that_have_left() -> None:
    async def run() -> None:
        async with in_scope() as it:
            it.server.fails_whole = True
            it.namespaces.synced.set()
            for number in range(3):
                it.join(f"team-{number}")
                it.leave(f"team-{number}")
                await asyncio.sleep(50)
                assert (it.found.left, it.found.joined) == (set(), {})
            assert not it.found.synced.is_set()

    virtual_time.run(run())


def test_a_namespace_that_leaves_and_joins_again_before_a_list_is_not_forgotten_after_it() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a")) as it:
            it.join("ml")
            await it.begin()
            async with it.found.turn:
                it.server.end_watch(OSError("reset"))
                await asyncio.sleep(5)  # the list waits for its turn
                it.leave("ml")
                it.join("ml")
            await asyncio.sleep(5)
            assert it.server.listed == [WHOLE, WHOLE]
            assert set(it.found.items) == it.observer.held == {("ml", "a")}

    virtual_time.run(run())


def test_a_namespace_that_leaves_while_its_list_fails_is_forgotten_though_all_are_listed_before_the_next_try() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a"), ("ml", "b")) as it:
            await it.begin()

            def leave(_: str) -> None:
                it.leave("ml")
                it.server.end_watch(OSError("reset"))

            it.server.refused, it.server.after_page = 1, leave
            it.join("ml")
            await asyncio.sleep(20)
            assert it.server.listed == [WHOLE, "ml", WHOLE]
            assert it.observer.history == set()

    virtual_time.run(run())


def test_a_namespace_that_joins_while_no_whole_list_succeeds_is_listed() -> None:
    async def run() -> None:
        async with in_scope(("first", "a"), ("ml", "b")) as it:
            await it.begin()
            it.server.fails_whole = True
            it.server.end_watch(GONE)
            await asyncio.sleep(5)
            it.join("ml")
            await asyncio.sleep(60)
            assert set(it.found.items) == it.observer.held == {("ml", "b")}

    virtual_time.run(run())


def test_a_list_of_a_namespace_that_cannot_be_read_is_tried_again() -> None:
    async def run() -> None:
        async with in_scope(("ml", "a")) as it:
            await it.begin()
            it.server.refused, it.server.refusal = 1, msgspec.DecodeError("JSON is malformed")
            it.join("ml")
            await asyncio.sleep(5)
            assert it.server.listed == [WHOLE, "ml", "ml"]
            assert it.observer.held == {("ml", "a")}

    virtual_time.run(run())


def test_a_namespace_that_joins_and_leaves_all_the_time_does_not_hold_up_the_events_of_others() -> None:
    async def run() -> None:
        async with in_scope(*(("ml", name) for name in "abcdefgh")) as it:
            it.join("other")
            await it.begin()
            for _ in range(40):
                it.join("ml")
                await asyncio.sleep(0.5)
                it.leave("ml")
                it.server.create("other", "a")
            assert it.observer.held >= {("other", "a")}

    virtual_time.run(run())


NAMESPACES: Final = ("ml", "other")
DONE: Final[dict[str, Callable[[InScope, str, str], object]]] = {
    "create": lambda it, namespace, name: it.server.create(namespace, name),
    "delete": lambda it, namespace, name: it.server.delete(namespace, name),
    "join": lambda it, namespace, _: it.join(namespace),
    "leave": lambda it, namespace, _: it.leave(namespace),
    "hold": lambda it, _, __: setattr(it.server, "held", True),
    "release": lambda it, _, __: it.server.release(),
    "resume": lambda it, _, __: it.server.end_watch(),
    "gap": lambda it, _, __: it.server.end_watch(GONE),
    "refuse": lambda it, _, __: setattr(it.server, "refused", 1),
}
STEP = st.tuples(
    st.sampled_from(sorted(DONE)), st.sampled_from(NAMESPACES), st.sampled_from("abc"), st.sampled_from([0, 0.05, 1.0])
)


@settings(max_examples=100)
@given(st.lists(STEP, max_size=30))
def test_in_whatever_order_all_happens_in_the_end_exactly_what_is_in_opted_in_namespaces_is_held(
    steps: list[tuple[str, str, str, float]],
) -> None:
    async def run() -> None:
        async with in_scope(("ml", "a"), ("other", "b")) as it:
            it.namespaces.synced.set()
            for step, namespace, name, pause in steps:
                DONE[step](it, namespace, name)
                await asyncio.sleep(pause)
            it.server.release()
            await asyncio.sleep(200)
            opted_in = {name for _, name in it.namespaces.items}
            wanted = {key for key in it.server.objects if key[0] in opted_in}
            assert set(it.found.items) == it.observer.held == wanted
            assert {namespace for namespace, _ in it.observer.history} <= opted_in
            assert it.found.numbers == Counter(namespace for namespace, _ in it.server.objects)

    virtual_time.run(run())
