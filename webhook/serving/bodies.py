"""Reads the bodies of requests, in bounded time and memory.

aiohttp bounds one body. Many that arrive slowly need a bound for all of them: 100 clients that send 7 MiB but for the
last byte would take 700 MiB ("bodies that lack the last byte" in tests/bench/hostile_clients.py).
"""

import asyncio
from typing import Final

from aiohttp import StreamReader, hdrs
from aiohttp.web_exceptions import (
    HTTPException,
    HTTPRequestEntityTooLarge,
    HTTPRequestTimeout,
    HTTPTooManyRequests,
    HTTPUnsupportedMediaType,
)
from aiohttp.web_request import BaseRequest

from webhook.serving.limits import LARGEST_BODY, Limits

GROWS_WITHIN: Final = 1.0  # seconds within which an arriving body grows by STRIDE, or else makes room for others
STRIDE: Final = 64 * 1024
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ArrivingBody:
    """A body of which not all has come; `grown_at`: when it had last grown by STRIDE, in the event loop's time."""

    def __init__(self, content: StreamReader, now: float) -> None:
        self.content = content
        self.chunks: list[bytes] = []
        self.size = self.grown = 0
        self.grown_at = now


class Bodies:
    """The bodies of one listener. A client that sends slowly takes no place, only room for what it has sent.

    `held`: bytes of all bodies, from when they arrive until `release`. `arriving`: in the order in which they began.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0
        self.arriving: dict[ArrivingBody, None] = {}

    async def read(self, request: BaseRequest) -> bytes:
        """Return a request's body, whose bytes count as held until `release`.

        Raise HTTPException for a body that is compressed or too large, that takes longer than `patience`, or for which
        there is no room; ConnectionError or RequestPayloadError if it breaks off.
        """
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            raise HTTPUnsupportedMediaType(text="the body is compressed; send it as it is")
        if request.content.is_eof():  # came with the head, in at most what is read at once
            body = request.content.read_nowait()
            self.held += len(body)
            return body
        if (request.content_length or 0) > LARGEST_BODY:
            raise too_large()
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await request.writer.write(CONTINUE)
            request.writer.output_size = 0  # the answer has not begun
        return await self.arrive(request.content)

    def release(self, size: int) -> None:
        """Give back what a body has taken."""
        self.held -= size

    async def arrive(self, content: StreamReader) -> bytes:
        """Return a body when all of it has come."""
        loop = asyncio.get_running_loop()
        body = ArrivingBody(content, loop.time())
        self.arriving[body] = None
        try:
            async with asyncio.timeout(self.limits.patience):
                async for chunk in content.iter_any():
                    self.add(body, chunk, loop.time())
            whole = b"".join(body.chunks)
            self.held += len(whole)
        except TimeoutError:
            what = f"the body was not there after {self.limits.patience:g} s"
            raise HTTPRequestTimeout(text=f"{what}; send what its headers say") from None
        else:
            return whole
        finally:
            self.give_up(body)
            del self.arriving[body]

    def add(self, body: ArrivingBody, chunk: bytes, now: float) -> None:
        """Add what has come of a body; make room where too much is held."""
        body.chunks.append(chunk)
        body.size += len(chunk)
        self.held += len(chunk)
        if body.size >= body.grown + STRIDE:
            body.grown, body.grown_at = body.size, now
        if body.size > LARGEST_BODY:
            raise too_large()
        if self.held > self.limits.held_bytes:
            self.make_room(body, now)

    def make_room(self, growing: ArrivingBody, now: float) -> None:
        """Give up bodies that arrive slowly, then those that began last, down to the one that has just grown."""
        slow = [body for body in self.arriving if body.grown_at < now - GROWS_WITHIN]
        quick = [body for body in self.arriving if body.grown_at >= now - GROWS_WITHIN]
        for body in (*slow, *reversed(quick)):
            if body is growing:
                raise try_again(f"requests of {self.held} bytes are here")
            self.give_up(body)
            body.content.set_exception(try_again("slow bodies make room for others"))
            if self.held <= self.limits.held_bytes:
                return

    def give_up(self, body: ArrivingBody) -> None:
        """Release what has come of a body."""
        self.held -= body.size
        body.size = 0
        body.chunks.clear()


def too_large() -> HTTPException:
    """Return the refusal of a body that is too large."""
    return HTTPRequestEntityTooLarge(LARGEST_BODY, 0, text=f"the body is larger than {LARGEST_BODY} bytes")


def try_again(why: str) -> HTTPException:
    """Return the refusal for which the API server tries again inside the call's timeout."""
    return HTTPTooManyRequests(text=why, headers={"Retry-After": "1"})
