"""Reads the report again and again while somebody looks at it, and tells each page of it."""

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from webhook.insight.page.render import as_json
from webhook.insight.report.model import Report
from webhook.kube.client import UNREACHABLE, ApiError
from webhook.objects.left_out import unexpected

EVERY: Final = 5.0  # seconds between the end of a reading and the next
# A reading that takes long is followed by a longer pause: at most a fifth of the time is spent reading.
PAUSE: Final = 4.0  # times as long as the reading took
LONGEST_PAUSE: Final = 300.0
REFUSED: Final = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
QUICKEST: Final = 1  # gzip's level: the page is on the same machine

Read = Callable[[], Awaitable[Report]]


class NothingReadableError(Exception):
    """What `Read` raises if the user may read nothing of what the dashboard shows; the message says what to do."""


class Shown(NamedTuple):
    """What the pages are told.

    - `number`: counts what was told. `of`: the number of the report, which many readings may leave as it is.
    - `event`: whether there is a report that was just read, a problem beside the last report, or no report any more.
    - `text`: the time of the reading, RFC 3339, or the problem.
    """

    number: int = 0
    of: int = 0
    event: Literal["checked", "problem", "withdrawn"] = "withdrawn"
    text: str = "There is no report yet."


class Feed:
    """The newest report, gzipped JSON, which all clients share; `body` is None if there is none.

    `ended`: whether the dashboard ends, and nothing more is told.
    """

    def __init__(self, read: Read) -> None:
        self.read = read
        self.body: bytes | None = None
        self.shown = Shown()
        self.digest = b""
        self.ended = False
        self.watchers = 0
        self.watched = asyncio.Event()
        self.news = asyncio.Condition()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Have the report read until this ends."""
        self.watchers += 1
        self.watched.set()
        try:
            yield
        finally:
            self.watchers -= 1
            if not self.watchers:
                self.watched.clear()

    async def after(self, number: int) -> Shown:
        """Return what is to be told, as soon as its number is another, or nothing more is told."""
        async with self.news:
            await self.news.wait_for(lambda: self.ended or self.shown.number != number)
            return self.shown

    async def end(self) -> None:
        """Tell nothing more."""
        async with self.news:
            self.ended = True
            self.news.notify_all()

    async def run(self) -> None:
        """Read the report while it is watched, until this is cancelled."""
        while True:
            await self.watched.wait()
            began = asyncio.get_running_loop().time()
            try:
                await self.refresh()
            except NothingReadableError as error:
                await self.fail(f"{error}.", withdraw=True)
            except ApiError as error:
                await self.fail(f"The API server refused the request: {error}.", withdraw=error.status in REFUSED)
            except UNREACHABLE as error:
                await self.fail(f"The cluster cannot be reached: {str(error) or type(error).__name__}.")
            except Exception as error:  # noqa: BLE001 - the page must say it, and the next reading may succeed
                await self.fail(f"The report cannot be made: {unexpected(error)}.")
            took = asyncio.get_running_loop().time() - began
            await asyncio.sleep(min(max(EVERY, PAUSE * took), LONGEST_PAUSE))

    async def refresh(self) -> None:
        """Read the report once; raise what the reading raises."""
        report = await self.read()
        digest, body = await asyncio.to_thread(packed, report, self.digest)
        if body is not None:
            self.body, self.digest = body, digest
        await self.tell("checked", report.written, self.shown.of + (body is not None))

    async def fail(self, problem: str, *, withdraw: bool = False) -> None:
        """Tell a problem; with `withdraw` forget the last report, which the user may no longer see."""
        if withdraw:
            self.body, self.digest = None, b""
        await self.tell("withdrawn" if self.body is None else "problem", problem, self.shown.of)

    async def tell(self, event: Literal["checked", "problem", "withdrawn"], text: str, of: int) -> None:
        """Tell the pages; a page that has not taken the last news misses them."""
        async with self.news:
            self.shown = Shown(self.shown.number + 1, of, event, text)
            self.news.notify_all()


def packed(report: Report, last: bytes) -> tuple[bytes, bytes | None]:
    """Return a digest of what a report says, and its JSON, gzipped; None in place of this if the digest is `last`."""
    digest = hashlib.sha256(msgspec.json.encode(replace(report, written="", until=""))).digest()
    return digest, None if digest == last else gzip.compress(as_json(report), QUICKEST)
