"""A copy of one list of the API, kept current by list and watch.

Bookmarks keep the resource version fresh; 410 Gone lists again; anything else is tried again with back-off and jitter.
Our own, because the official client's watch gives up at the first broken connection and decodes into models.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
import structlog

from webhook import metrics
from webhook.kube.backoff import Backoff
from webhook.kube.client import METADATA_ONLY, METADATA_ONLY_LIST, UNREACHABLE, Api, ApiError
from webhook.kube.slices import in_slices
from webhook.objects.problem import Json
from webhook.objects.shape import Shape, type_of

SHORTEST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 30.0
LONGEST_ERROR: Final = 500  # characters of a log line
LONGEST_PAUSE_AFTER_OPENING: Final = 1.0  # an API that opens watches is well, unless it closes each at once

Kept = TypeVar("Kept")
Told_contra = TypeVar("Told_contra", contravariant=True)

log = structlog.get_logger()


class Event(msgspec.Struct, frozen=True):
    """One line of a watch, its object not decoded yet."""

    type: str
    object: msgspec.Raw


class Metadata(msgspec.Struct, frozen=True):
    """Which object an event tells of, and which version of it, or with a bookmark of the list."""

    namespace: str = ""
    name: str = ""
    version: str | None = msgspec.field(name="resourceVersion", default=None)


class Told(msgspec.Struct, frozen=True):
    """What every object of an event has, but that of an error."""

    metadata: Metadata


class Status(msgspec.Struct, frozen=True):
    """What the API server says of an error."""

    code: int = 0
    message: str = ""


class Observer(Protocol[Told_contra]):
    """Who wants to know of every change."""

    async def listed(self, items: Iterable[Told_contra]) -> None:
        """Hear what there is, at the start and after a gap in which anything may have happened.

        There may be tens of thousands: taken in slices.
        """

    def seen(self, item: Told_contra) -> None:
        """Hear of an object that is new, or has changed."""

    def deleted(self, item: Told_contra) -> None:
        """Hear of an object that is gone, as it was last."""


class Informer(Generic[Kept]):
    """The objects of one list by namespace and name, each reduced to what `keep` returns of it.

    `shape`: what is decoded of an object for that, by default all of it: one may be of megabytes, and a list have
    thousands. `which`: what its metric has before the resource, where another list is of the same. `clock`: seconds of
    a monotonic clock.
    """

    def __init__(  # noqa: PLR0913 - what a list has
        self,
        api: Api,
        path: str,
        keep: Callable[[Json], Kept],
        *,
        shape: Shape = dict,
        query: dict[str, str],
        metadata_only: bool = False,
        which: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api = api
        self.path = path
        self.keep = keep
        self.clock = clock
        self.kind = type_of(shape)
        self.decoder = msgspec.json.Decoder(self.kind)
        self.query = query
        self.list_accept = METADATA_ONLY_LIST if metadata_only else "application/json"
        self.watch_accept = METADATA_ONLY if metadata_only else "application/json"
        self.items: dict[tuple[str, str], Kept] = {}
        self.live = False  # whether a watch is open, so that `items` is no older than its latency
        self.lost = self.clock()  # when that was last so
        self.heard = 0.0  # when the watch told something last: an event, or once a minute that there is none
        self.missing = False  # whether the API server knows no such kind: its CRD is not installed
        metrics.CACHE_AGE.labels(f"{which}{path.rpartition('/')[2]}").set_function(self.age)
        self.synced = asyncio.Event()  # set for ever after the first list
        self.callbacks: list[Callable[[], None]] = []
        self.observers: list[Observer[Kept]] = []

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call a function after every list and event, beside those that are called already."""
        self.callbacks.append(callback)

    def notify(self) -> None:
        """Call the functions that are to be called after every list and event."""
        for callback in self.callbacks:
            callback()

    async def run(self) -> None:
        """List and watch until cancelled.

        A watch that the server ends in order is resumed where it ended. After a broken one the list is read again: a
        resumed watch would look open while it still delivers what was missed.
        """
        version = ""
        backoff = Backoff(SHORTEST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                if not version:
                    version = await self.list()
                    self.synced.set()
                    self.notify()
                async with self.watch(version) as lines:
                    self.live = True
                    self.missing = False
                    backoff.shorten(LONGEST_PAUSE_AFTER_OPENING)
                    async for line in lines:
                        version = self.take(event_decoder.decode(line)) or version
                        self.heard = self.clock()
                        backoff.reset()
            except (ApiError, *UNREACHABLE) as error:
                version = ""
                status = error.status if isinstance(error, ApiError) else None
                if status == HTTPStatus.NOT_FOUND and not self.missing:
                    log.info("kind not installed", path=self.path)
                elif status not in {HTTPStatus.GONE, HTTPStatus.NOT_FOUND}:
                    log.warning("watch broken", path=self.path, error=repr(error), retry_in=round(backoff.pause, 1))
                self.missing = status == HTTPStatus.NOT_FOUND
            except Exception:  # an answer that nobody foresaw must not end the server: what is not watched is asked for
                version = ""
                log.exception("watch broken", path=self.path, retry_in=round(backoff.pause, 1))
            finally:
                if self.live:
                    self.lost = self.clock()
                self.live = False
            await asyncio.sleep(backoff.take() * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, no secret

    def age(self) -> float:
        """Return for how many seconds the list has not been watched, where there is one."""
        return 0.0 if self.live or self.missing else self.clock() - self.lost

    async def list(self) -> str:
        """Replace `items` by the server's list, read in pages; return its resource version."""
        found: dict[tuple[str, str], Kept] = {}
        version = ""
        async for page in self.api.pages(self.path, self.query, self.list_accept):
            async for raw in in_slices(page.items or ()):
                if read := self.read(raw):
                    found[read[0]] = read[1]
            version = page.metadata.version
        self.items = found
        for observer in self.observers:
            try:
                await observer.listed(found.values())
            except Exception:  # its trouble is not this list's, which stays current for all others
                log.exception("not taken in", path=self.path)
        return version

    def read(self, raw: msgspec.Raw) -> tuple[tuple[str, str], Kept] | None:
        """Return the key of an object and what is kept of it; None where it is not as the API promises."""
        try:
            item = self.decoder.decode(raw)
            return key_of(item), self.keep(item)
        except Exception as error:  # noqa: BLE001 - one object must not hide all others, whatever is wrong with it
            log.warning("object not read", path=self.path, error=repr(error)[:LONGEST_ERROR])
            return None

    def guarded(self, hear: Callable[[Any], None], what: Any) -> None:
        """Have an observer hear of something; its trouble is not this list's."""
        try:
            hear(what)
        except Exception:  # the list stays current for all others
            log.exception("not taken in", path=self.path)

    def watch(self, version: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Watch from a resource version; the server ends the watch after a few minutes."""
        query = {
            **self.query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(random.randint(300, 600)),  # noqa: S311 - spreads replicas, no secret
        }
        return self.api.stream(self.path, query, self.watch_accept)

    def take(self, event: Event) -> str | None:
        """Apply one event; return the resource version to go on from. An ERROR event raises ApiError."""
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=Status)
            raise ApiError(status.code, status.message)
        metadata = told_decoder.decode(event.object).metadata
        if event.type in {"ADDED", "MODIFIED", "DELETED"}:
            read, key = self.read(event.object), (metadata.namespace, metadata.name)
            if read is None or event.type == "DELETED":
                self.items.pop(key, None)
            else:
                self.items[key] = read[1]
            if read is not None:
                for observer in self.observers:
                    self.guarded(observer.deleted if event.type == "DELETED" else observer.seen, read[1])
            self.notify()
        return metadata.version


def key_of(item: Json) -> tuple[str, str]:
    """Return an object's namespace, empty where it has none, and name."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


event_decoder = msgspec.json.Decoder(Event)
told_decoder = msgspec.json.Decoder(Told)
