"""Reads the bodies of requests, in bounded time and memory.

aiohttp bounds the size of one body. Many slow bodies need a bound for all of them together: 100 clients that send 7 MiB
without the last byte would take 700 MiB ("bodies that lack the last byte" in tests/bench/hostile_clients.py).
"""

import asyncio
from typing import Final

from aiohttp import StreamReader, hdrs, web

from webhook.serving.limits import LARGEST_BODY, Limits

# Seconds and bytes: a body that has not grown by STRIDE within GROWS_WITHIN is discarded first if memory is short.
GROWS_WITHIN: Final = 1.0
STRIDE: Final = 64 * 1024
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ArrivingBody:
    """A body that is not complete yet.

    `timeout`: ends the wait for the body. `refusal`: why the body was discarded; None if it was not. `grown` and
    `grown_at`: size and time of the last growth by STRIDE, in seconds of the event loop's clock.
    """

    def __init__(self, timeout: asyncio.Timeout, now: float) -> None:
        self.timeout = timeout
        self.refusal: web.HTTPException | None = None
        self.chunks: list[bytes] = []
        self.size = self.grown = 0
        self.grown_at = now


class Bodies:
    """The bodies of one listener; a client that sends slowly only takes the memory of the bytes that it has sent.

    `held`: the bytes of all bodies, from their arrival until `release`. `arriving`: the bodies that are not complete,
    oldest first.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0
        self.arriving: dict[ArrivingBody, None] = {}

    async def read(self, request: web.BaseRequest) -> bytes:
        """Return a request's body; its bytes count as held until `release`.

        Raise HTTPException if the body is compressed or too large, takes longer than `client_timeout`, or if there is
        no room for it; ConnectionError or RequestPayloadError if the client does not send all of it.
        """
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            raise web.HTTPUnsupportedMediaType(text="the body is compressed; send it as it is")
        if request.content.is_eof():  # arrived together with the head, so its size is at most that of one read
            body = request.content.read_nowait()
            self.held += len(body)
            return body
        if (request.content_length or 0) > LARGEST_BODY:
            raise _too_large()
        expects = request.headers.get(hdrs.EXPECT, "").lower()
        if expects == "100-continue" and request.transport is not None:  # None: the client has closed the connection
            request.transport.write(CONTINUE)
        return await self.arrive(request.content)

    def release(self, size: int) -> None:
        """Stop counting a body of `size` bytes as held."""
        self.held -= size

    async def arrive(self, content: StreamReader) -> bytes:
        """Return a body when it is complete; raise as `read` does."""
        loop = asyncio.get_running_loop()
        timeout = asyncio.timeout(self.limits.client_timeout)
        body = ArrivingBody(timeout, loop.time())
        self.arriving[body] = None
        try:
            async with timeout:
                async for chunk in content.iter_any():
                    self.add(body, chunk, loop.time())
            complete = b"".join(body.chunks)
            self.held += len(complete)
        except TimeoutError:
            if body.refusal is not None:
                raise body.refusal from None
            what = f"the body had not arrived after {self.limits.client_timeout:g} s"
            raise web.HTTPRequestTimeout(text=f"{what}; send as many bytes as its headers announce") from None
        else:
            return complete
        finally:
            self.discard(body)
            del self.arriving[body]

    def add(self, body: ArrivingBody, chunk: bytes, now: float) -> None:
        """Add a chunk to a body; raise HTTPException if the body is too large, or if no room can be made for it."""
        body.chunks.append(chunk)
        body.size += len(chunk)
        self.held += len(chunk)
        if body.size >= body.grown + STRIDE:
            body.grown, body.grown_at = body.size, now
        if body.size > LARGEST_BODY:
            raise _too_large()
        if self.held > self.limits.held_bytes:
            self.make_room(body, now)

    def make_room(self, growing: ArrivingBody, now: float) -> None:
        """Discard slow bodies, oldest first, then the others, newest first, until the bodies held are within the bound.

        Raise HTTPException if it is the turn of `growing`.
        """
        arriving = [body for body in self.arriving if body is growing or not body.timeout.expired()]
        slow = [body for body in arriving if body.grown_at < now - GROWS_WITHIN]
        quick = [body for body in arriving if body.grown_at >= now - GROWS_WITHIN]
        for body in (*slow, *reversed(quick)):
            if body is growing:
                raise _try_again(f"requests of {self.held} bytes are held in memory already; try again in a second")
            self.discard(body)
            if body.refusal is None:
                body.refusal = _try_again("slow request bodies make room for others; send the body faster")
                body.timeout.reschedule(now)  # an exception of `content` would end aiohttp's task with a stack trace
            if self.held <= self.limits.held_bytes:
                return

    def discard(self, body: ArrivingBody) -> None:
        """Release the bytes of a body that have arrived."""
        self.held -= body.size
        body.size = 0
        body.chunks.clear()


def _too_large() -> web.HTTPException:
    return web.HTTPRequestEntityTooLarge(
        LARGEST_BODY, 0, text=f"the body is larger than {LARGEST_BODY} bytes; make the object smaller"
    )


def _try_again(why: str) -> web.HTTPException:
    """Return the error after which the API server sends the request again, within the timeout of the call."""
    return web.HTTPTooManyRequests(text=why, headers={"Retry-After": "1"})
