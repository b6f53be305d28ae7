"""A copy of one list of the API, kept current by list and watch.

Bookmarks update the resource version. After 410 Gone the list is read again, and after every other error too, with
back-off and jitter. The official client's watch is not used: it ends with the first broken connection, and decodes
objects into models.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from sys import intern
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
import structlog

from webhook import metrics
from webhook.kube.backoff import Backoff
from webhook.kube.bulkhead import Bulkhead, step
from webhook.kube.client import METADATA_ONLY, METADATA_ONLY_LIST, UNREACHABLE, Api, ApiError, decoded, wait_after
from webhook.kube.tasks import in_slices
from webhook.objects.problem import Json
from webhook.objects.shape import Shape, type_of

SHORTEST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 30.0
# An API that opens a watch works, so the next pause may be short; not the shortest, as it may close each watch at once.
LONGEST_PAUSE_AFTER_OPENING: Final = 1.0
WHOLE: Final = "the whole list"  # in the place of an object's name
CHANGES: Final = {"ADDED": 1, "MODIFIED": 0, "DELETED": -1}  # of the number of objects, by the type of an event

Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)

log = structlog.get_logger()


class Event(msgspec.Struct, frozen=True):
    """One line of a watch; its object is not decoded yet."""

    type: str
    object: msgspec.Raw


class ListMetadata(msgspec.Struct, frozen=True):
    """The name and version of the object in an event; in a bookmark, the version of the list."""

    namespace: str = ""
    name: str = ""
    version: str | None = msgspec.field(name="resourceVersion", default=None)


NAMELESS: Final = ListMetadata()


class EventObject(msgspec.Struct, frozen=True):
    """The part that all objects in events have in common, except for the Status in an ERROR event."""

    metadata: ListMetadata


class Status(msgspec.Struct, frozen=True):
    """The object in an ERROR event."""

    code: int = 0
    message: str = ""


_status_in: Final = msgspec.json.Decoder(Status)


class Observer(Protocol[Item_contra]):
    """Is notified of every change of a list."""

    def begin_list(self) -> None:
        """Prepare for all objects of the list: at the start, and after each gap in which changes may be missed.

        If an error ends the list, `end_list` is not called, and the next list begins anew.
        """

    def listed(self, item: Item_contra) -> None:
        """Take an object of the list."""

    async def end_list(self) -> None:
        """Forget the objects that were not listed since `begin_list`: they were deleted."""

    def seen(self, item: Item_contra) -> None:
        """Take an object that was created or has changed."""

    def deleted(self, item: Item_contra) -> None:
        """Take the last state of an object that was deleted."""

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Forget the objects of namespaces that are not opted in any more; they were not deleted."""


class Scope:
    """The namespaces of which lists hold objects: those in the list `namespaces`, which has one object for each.

    What users write into objects of any other namespace is kept and seen nowhere.
    """

    def __init__(self, namespaces: "Informer[Any]") -> None:
        self.namespaces = namespaces
        self.seen: set[str] = set()
        self.followers: list[Informer[Any]] = []
        namespaces.on_change(self.look)

    def has(self, namespace: str) -> bool:
        """Return True if objects of a namespace belong into the lists; those without a namespace do."""
        return not namespace or ("", namespace) in self.namespaces.items

    def look(self) -> None:
        """Tell the lists which namespaces have joined and left since the last look."""
        now = {name for _, name in self.namespaces.items}
        joined, left, self.seen = now - self.seen, self.seen - now, now
        if joined or left:
            for one in self.followers:
                one.change_scope(joined, left)


class Informer(Generic[Item]):
    """The objects of one list by namespace and name, each reduced to the value that `keep` returns for it.

    `shape`: the fields that are decoded for `keep`, by default all: an object may have megabytes, and a list thousands
    of objects. `items`: where the values are stored, by default in a dict; `stored`: whether they are, or only the
    observers take them. `name`: in the label of metrics, by default the resource; it distinguishes two lists of the
    same resource. `scope`: which namespaces it holds objects of, by default all. `clock`: monotonic, in seconds.
    """

    def __init__(  # noqa: PLR0913 - the parameters of a list
        self,
        api: Api,
        path: str,
        keep: Callable[[Json], Item],
        *,
        shape: Shape = dict,
        query: dict[str, str],
        items: MutableMapping[tuple[str, str], Item] | None = None,
        stored: bool = True,
        metadata_only: bool = False,
        name: str = "",
        scope: Scope | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api = api
        self.scope = scope
        if scope is not None:
            scope.followers.append(self)
        self.joined: dict[str, None] = {}  # namespaces whose objects are to be listed, the longest waiting first
        self.left: set[str] = set()  # namespaces whose objects are to be forgotten
        self.scope_changed = asyncio.Event()
        self.turn = asyncio.Lock()  # of a list, of an event of the watch, and of a change of the scope
        self.numbers: dict[str, int] = {}  # of the objects in each namespace, in the scope or not; no zeros
        self.is_counted = False  # whether `numbers` has all of them: the last whole list did not fail
        self.path = path
        self.keep = keep
        self.clock = clock
        self.kind = type_of(shape)
        self.decoder = msgspec.json.Decoder(self.kind)
        self.query = query
        self.list_accept = METADATA_ONLY_LIST if metadata_only else "application/json"
        self.watch_accept = METADATA_ONLY if metadata_only else "application/json"
        self.stored = stored
        self.items: MutableMapping[tuple[str, str], Item] = {} if items is None else items
        self.live = False  # whether a watch is open, so that `items` is out of date by no more than its latency
        self.last_live = self.clock()  # the time until which a watch was open last
        self.last_event = 0.0  # the time of the last event of the watch; without changes a bookmark comes each minute
        self.missing = False  # whether the API server does not know the kind, because its CRD is not installed
        self.name = name or path.rpartition("/")[2]  # in metrics
        metrics.CACHE_AGE.labels(self.name).set_function(self.age)
        self.bulkhead = Bulkhead(self.name, clock)
        self.synced = asyncio.Event()  # set after the first list, and never cleared
        self.known = asyncio.Event()  # set with it, or once the API server has said that it does not know the kind
        self.answered = False  # whether a page of a list has come: the API server allows the list
        self.callbacks: list[Callable[[], None]] = []
        self.observers: list[Observer[Item]] = []

    def on_change(self, callback: Callable[[], None]) -> None:
        """Add a function that is called after every list and event."""
        self.callbacks.append(callback)

    def notify(self, about: ListMetadata | None = None) -> None:
        """Call the functions that `on_change` has added; `about`: the object that has changed, None after a list."""
        namespace, name = ("", "") if about is None else (about.namespace, about.name)
        for callback in self.callbacks:
            self.bulkhead.call(namespace, name, callback)

    async def run(self) -> None:
        """List and watch until cancelled, and list each namespace that is opted in later."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follow())
            if self.scope is not None:
                group.create_task(self.follow_scope())

    async def follow(self) -> None:
        """List and watch until cancelled.

        A watch that the server ends normally is resumed at the last version. After a broken watch the list is read
        again: a resumed watch would count as live while it still delivers the events that were missed. But if a busy
        API server refuses a watch, it is opened again at the same version: a list would cost that server far more.
        """
        version = ""
        backoff = Backoff(SHORTEST_PAUSE, LONGEST_PAUSE)
        if self.scope is not None:
            await self.scope.namespaces.synced.wait()
        while True:
            since, version, wait = version, "", None
            with step(f"follow {self.name}"):  # without a watch, look-ups ask the API
                version, wait = await self.follow_since(since, backoff)
            pause = backoff.take() * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, no secret
            await asyncio.sleep(max(pause, wait or 0.0))

    async def follow_since(self, version: str, backoff: Backoff) -> tuple[str, float | None]:
        """List if `version` is empty, and watch until the watch ends.

        Return the version at which to watch again, empty if the list has to be read again; and for how many seconds a
        busy API server wants to get nothing, None if it is not busy.
        """
        try:
            if not version:
                async with self.turn:
                    version = await self.list()
                self.synced.set()
                self.known.set()
                self.notify()
            async with self.watch(version) as lines:
                self.live = True
                self.missing = False
                backoff.shorten(LONGEST_PAUSE_AFTER_OPENING)
                async for line in lines:
                    async with self.turn:
                        version = self.take(decoded(event_decoder.decode, line)) or version
                    self.last_event = self.clock()
                    backoff.reset()
        except (ApiError, *UNREACHABLE) as error:
            wait = wait_after(error)
            status = error.status if isinstance(error, ApiError) else None
            if status == HTTPStatus.NOT_FOUND and not self.missing:
                log.info("kind not installed", path=self.path)
            elif status not in {HTTPStatus.GONE, HTTPStatus.NOT_FOUND}:
                pause = round(max(backoff.pause, wait or 0.0), 1)
                log.warning("watch broken", path=self.path, error=repr(error), retry_in=pause)
            self.missing = status == HTTPStatus.NOT_FOUND
            if self.missing:
                self.known.set()
            return version if wait is not None else "", wait
        finally:
            if self.live:
                self.last_live = self.clock()
            self.live = False
        return version, None

    def get(self, namespace: str, name: str) -> Item | None:
        """Return what is kept of an object; None if it is not cached. `namespace` is empty for one without."""
        return self.items.get((namespace, name))

    def age(self) -> float:
        """Return the seconds since the list was last watched; 0 if it is watched now, or its kind is not installed."""
        return 0.0 if self.live or self.missing else self.clock() - self.last_live

    async def list(self) -> str:
        """Take in the API server's list, object by object; return its resource version.

        An object that is not in the list is removed at its end: the whole list would need too much memory. So are all
        if the API server does not know the kind any more.
        """
        await self._forget_left()
        self.joined.clear()  # this list has what is in them
        self.numbers.clear()
        self.is_counted = False
        unlisted = set(self.items)
        for observer in self.observers:
            self.bulkhead.call("", WHOLE, observer.begin_list)
        try:
            version = await self._take_pages(unlisted)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND and self.synced.is_set():
                await self._end_list(unlisted)
            raise
        await self._end_list(unlisted)
        return version

    async def _take_pages(self, unlisted: set[tuple[str, str]]) -> str:
        version = ""
        async for page in self.api.pages(self.path, self.query, self.list_accept):
            self.answered = True
            await self._forget_left()
            async for raw in in_slices(page.items or ()):
                namespace, read = self.read_listed(raw)
                self._count(namespace, 1)
                if read is not None:
                    unlisted.discard(read[0])
                    self.store(*read)
                    for observer in self.observers:
                        self.bulkhead.call(*read[0], observer.listed, read[1])
            version = page.metadata.version
        return version

    async def _end_list(self, unlisted: set[tuple[str, str]]) -> None:
        self.is_counted = True
        async for key in in_slices(unlisted):
            self.items.pop(key, None)
        for observer in self.observers:
            with self.bulkhead.around("", WHOLE):
                await observer.end_list()

    def is_wanted(self, namespace: str) -> bool:
        """Return True if objects of a namespace are in the scope."""
        return self.scope is None or self.scope.has(namespace)

    def _count(self, namespace: str, change: int) -> None:
        """Record that there are so many more objects in a namespace."""
        number = self.numbers.get(namespace, 0) + change
        if number > 0:
            self.numbers[intern(namespace)] = number
        else:
            self.numbers.pop(namespace, None)

    def change_scope(self, joined: set[str], left: set[str]) -> None:
        """Forget the objects of namespaces that have left the scope, and list those of others that have joined it."""
        self.joined = {name: None for name in (*self.joined, *joined) if name not in left}
        self.left |= left
        self.scope_changed.set()

    async def follow_scope(self) -> None:
        """Follow the changes of the scope after the first list, until cancelled.

        A namespace without objects is not listed: each object that it gets comes by the watch, and is kept.
        """
        await self.synced.wait()
        while True:
            await self.scope_changed.wait()
            self.scope_changed.clear()
            while self.left or self.joined:  # between two of them the watch has its turn
                is_done = False
                with step(f"adapt {self.name} to its scope"):
                    async with self.turn:
                        is_done = await self._adapt()
                if not is_done:
                    await asyncio.sleep(LONGEST_PAUSE_AFTER_OPENING)

    async def _adapt(self) -> bool:
        """Forget the namespaces that have left, or else list one that has joined; return False if that failed."""
        if self.left:
            await self._forget_left()
            return True
        if not self.joined:
            return True
        namespace, is_listed = next(iter(self.joined)), False
        del self.joined[namespace]
        if self.is_counted and namespace not in self.numbers:
            return True
        try:
            await self.list_namespace(namespace)
            is_listed = True
        except (ApiError, *UNREACHABLE) as error:
            log.warning("namespace not listed", path=self.path, namespace=namespace, error=repr(error))
        finally:
            if not is_listed and self.is_wanted(namespace):
                self.joined[namespace] = None
        return is_listed

    async def _forget_left(self) -> None:
        while self.left:  # others may leave meanwhile
            namespaces, self.left = self.left, set()
            async for key in in_slices(list(self.items)):
                if key[0] in namespaces:
                    self.items.pop(key, None)
            for observer in self.observers:
                with self.bulkhead.around(", ".join(sorted(namespaces)), WHOLE):
                    await observer.forget_namespaces(namespaces)

    async def list_namespace(self, namespace: str) -> None:
        """Take in the objects of one namespace, as new ones; raise as `Api` does."""
        resource = self.path.rpartition("/")
        path = f"{resource[0]}/namespaces/{namespace}/{resource[2]}"
        async for page in self.api.pages(path, self.query, self.list_accept):
            async for raw in in_slices(page.items or ()):
                _, read = self.read_listed(raw)
                if read is not None:
                    self.store(*read)
                    for observer in self.observers:
                        self.bulkhead.call(*read[0], observer.seen, read[1])
        self.notify()

    def store(self, key: tuple[str, str], item: Item) -> None:
        """Store what is kept of an object, if the objects of this list are stored."""
        if self.stored:
            self.items[key] = item

    def read_listed(self, raw: msgspec.Raw) -> tuple[str, tuple[tuple[str, str], Item] | None]:
        """Return the namespace of an object of a list; with its key and what is kept of it.

        None in place of these two if the object is malformed, or not in the scope. It is decoded once, as
        there may be 100,000; only to name one that cannot be decoded is it read twice.
        """
        try:
            item = decoded(self.decoder.decode, raw)
            key = key_of(item)
        except (msgspec.DecodeError, RecursionError, LookupError, TypeError, AttributeError):
            metadata = metadata_of(raw)
            return metadata.namespace, self.read(raw, metadata) if self.is_wanted(metadata.namespace) else None
        return key[0], self.bulkhead.call(*key, self.kept_as, key, item) if self.is_wanted(key[0]) else None

    def kept_as(self, key: tuple[str, str], item: Json) -> tuple[tuple[str, str], Item]:
        """Return a key, and the value that `keep` returns for an object."""
        return key, self.keep(item)

    def read(self, raw: msgspec.Raw, metadata: ListMetadata = NAMELESS) -> tuple[tuple[str, str], Item] | None:
        """Return the key of an object and the value that `keep` returns for it; None if the object is malformed."""
        return self.bulkhead.call(metadata.namespace, metadata.name, self.kept, raw)

    def kept(self, raw: msgspec.Raw) -> tuple[tuple[str, str], Item]:
        """Return the key of an object and the value that `keep` returns for it; raise what these raise."""
        item = decoded(self.decoder.decode, raw)
        return self.kept_as(key_of(item), item)

    def watch(self, version: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch from a resource version; the API server ends it after five to ten minutes."""
        query = {
            **self.query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(random.randint(300, 600)),  # noqa: S311 - spreads replicas, no secret
        }
        return self.api.stream(self.path, query, self.watch_accept)

    def take(self, event: Event) -> str | None:
        """Apply one event; return the resource version after it. Raise ApiError for an ERROR event."""
        if event.type == "ERROR":
            status = _status_in.decode(event.object)
            raise ApiError(status.code, status.message)
        metadata = metadata_of(event.object)
        if event.type in CHANGES:
            self._count(metadata.namespace, CHANGES[event.type])
        if event.type in CHANGES and self.is_wanted(metadata.namespace):
            read, key = self.read(event.object, metadata), (metadata.namespace, metadata.name)
            if read is None or event.type == "DELETED":
                self.items.pop(key, None)
            else:
                self.store(key, read[1])
            if read is not None:
                for observer in self.observers:
                    handler = observer.deleted if event.type == "DELETED" else observer.seen
                    self.bulkhead.call(metadata.namespace, metadata.name, handler, read[1])
            self.notify(metadata)
        return metadata.version


def key_of(item: Json) -> tuple[str, str]:
    """Return an object's namespace, empty if it has none, and its name."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def metadata_of(raw: msgspec.Raw) -> ListMetadata:
    """Return the name and version of an object; empty ones if they cannot be read, as in no object of the API."""
    try:
        return decoded(event_object_decoder.decode, raw).metadata
    except (msgspec.DecodeError, RecursionError):
        return NAMELESS


event_decoder = msgspec.json.Decoder(Event)
event_object_decoder = msgspec.json.Decoder(EventObject)
