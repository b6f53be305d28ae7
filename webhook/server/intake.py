"""Takes requests in: how many are worked on at once, and how many bytes are held, has an end."""

import asyncio
from types import TracebackType
from typing import Final

from aiohttp import web

from webhook.review import BadReviewError
from webhook.server.limits import MEBIBYTE, Limits

# Two objects of 3 MiB, the most that the API server stores, and what stands around them.
LARGEST_BODY: Final = 7 * MEBIBYTE
HASTE: Final = 1.0  # seconds within which a body that is still arriving grows by STRIDE, or else makes room for others
STRIDE: Final = 64 * 1024


class OverloadedError(Exception):
    """There is no room for the request now: HTTP 429, and the API server comes again."""


class SlowBodyError(Exception):
    """The client did not send what its headers say in time: HTTP 408."""


class Intake:
    """What is in the house. A client that sends slowly takes no place, only room for the bytes that it has sent."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.requests = 0
        self.held = 0
        self.decoded = 0
        self.arriving: dict[Visit, None] = {}  # in the order in which they began


class Visit:
    """A request while it is in the house: `async with Visit(intake, http) as body`."""

    __slots__ = ("chunks", "decoded", "dropped", "grown", "grown_at", "held", "http", "intake", "requests", "timeout")

    def __init__(self, intake: Intake, http: web.Request) -> None:
        self.intake = intake
        self.http = http
        self.requests = self.held = self.decoded = 0
        self.dropped = False

    async def __aenter__(self) -> bytes:
        """Return the body; raise OverloadedError, SlowBodyError, web.HTTPRequestEntityTooLarge or BadReviewError."""
        try:
            body = await self.read()
            self.count()
            # Nothing in the work itself waits: without this turn each request would be alone whenever it is counted.
            await asyncio.sleep(0)
            self.decode(len(body))
        except BaseException:
            self.release()
            raise
        return body

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def read(self) -> bytes:
        """Return the body, without the two copies that aiohttp makes, one of which it keeps until the next request."""
        content = self.http.content
        try:
            if content.is_eof():
                body = content.read_nowait()
                self.hold(len(body))
                return body  # small, and gone in a moment: slow and large ones are no reason to refuse it
            return await self.arrive()
        except (web.RequestPayloadError, ConnectionError) as error:
            raise BadReviewError(f"the body cannot be read: {error}; send what its headers say") from None

    async def arrive(self) -> bytes:
        """Return a body that is not all there yet."""
        content, patience = self.http.content, self.intake.limits.patience
        self.chunks: list[bytes] = []
        self.grown, self.grown_at = 0, asyncio.get_running_loop().time()
        self.intake.arriving[self] = None
        try:
            async with asyncio.timeout(patience) as self.timeout:
                while not self.dropped and not content.at_eof():
                    self.chunks.append(await content.readany())
                    self.hold(len(self.chunks[-1]))
                    if self.held >= self.grown + STRIDE:
                        self.grown, self.grown_at = self.held, asyncio.get_running_loop().time()
                    if self.intake.held > self.intake.limits.held_bytes:
                        self.make_room()
        except TimeoutError:
            if not self.dropped:
                what = f"the body was not there after {patience:g} s"
                raise SlowBodyError(f"{what}; send what its headers say") from None
        finally:
            self.intake.arriving.pop(self, None)
        if self.dropped:
            raise OverloadedError("slow bodies make room for others")
        return b"".join(self.chunks)

    def hold(self, size: int) -> None:
        """Count bytes that have arrived."""
        self.held += size
        self.intake.held += size
        if self.held > LARGEST_BODY:
            raise web.HTTPRequestEntityTooLarge(LARGEST_BODY, self.held)

    def count(self) -> None:
        """Count a request whose body is there."""
        if self.intake.requests >= self.intake.limits.requests:
            raise OverloadedError(f"{self.intake.requests} requests are being worked on")
        self.requests = 1
        self.intake.requests += 1

    def decode(self, size: int) -> None:
        """Count the bytes of a body that is about to be decoded."""
        before = self.intake.decoded
        if before and before + size > self.intake.limits.decoded_bytes:
            raise OverloadedError(f"requests of {before} bytes wait for the API")
        self.decoded = size
        self.intake.decoded += size

    def make_room(self) -> None:
        """Give up bodies that arrive slowly, then those that began last; OverloadedError where this is one of them."""
        now = asyncio.get_running_loop().time()
        arriving = self.intake.arriving
        slow = [visit for visit in arriving if visit.grown_at < now - HASTE]
        for visit in (*slow, *reversed([visit for visit in arriving if visit not in slow])):
            if visit is self:
                raise OverloadedError(f"requests of {self.intake.held} bytes are here")
            visit.drop(now)
            if self.intake.held <= self.intake.limits.held_bytes:
                return

    def drop(self, now: float) -> None:
        """Give up a body that is still arriving: its bytes at once, the rest when its turn comes."""
        self.dropped = True
        del self.intake.arriving[self]
        self.chunks.clear()
        self.release()
        self.timeout.reschedule(now)

    def release(self) -> None:
        """Give back what was counted."""
        self.intake.requests -= self.requests
        self.intake.held -= self.held
        self.intake.decoded -= self.decoded
        self.requests = self.held = self.decoded = 0
