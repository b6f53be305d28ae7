"""The bodies of requests: each one and all together are limited in bytes and time."""

import asyncio
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from tests import virtual_time
from webhook.serving.bodies import GROWS_WITHIN, STRIDE, Bodies
from webhook.serving.limits import LARGEST_BODY, LIMITS, Limits


class Sender:
    """A client that sends a body in pieces."""

    def __init__(self, bodies: Bodies, **headers: str) -> None:
        self.content = StreamReader(Mock(), 2**16, loop=asyncio.get_running_loop())
        self.request = make_mocked_request("POST", "/mutate", headers, payload=self.content)
        self.reading = asyncio.create_task(bodies.read(self.request))

    async def send(self, data: bytes) -> None:
        self.content.feed_data(data)
        await asyncio.sleep(0.001)

    async def end(self) -> bytes:
        self.content.feed_eof()
        return await self.reading

    async def refusal(self) -> int:
        with pytest.raises(web.HTTPException) as refused:
            await self.reading
        return refused.value.status


def test_a_body_counts_as_held_until_it_is_released() -> None:
    async def run() -> None:
        bodies = Bodies(LIMITS)
        sender = Sender(bodies)
        await sender.send(b"ab")
        assert bodies.held == 2
        await sender.send(b"c")
        assert await sender.end() == b"abc"
        assert bodies.held == 3
        bodies.release(3)
        assert (bodies.held, bodies.arriving) == (0, {})

    virtual_time.run(run())


def test_a_body_that_does_not_end_gets_408_after_the_client_timeout() -> None:
    async def run() -> None:
        bodies = Bodies(Limits(client_timeout=10))
        sender = Sender(bodies)
        for _ in range(3):
            await sender.send(b"a")
            await asyncio.sleep(3)
        assert await sender.refusal() == 408
        assert 10 <= virtual_time.now() < 10.1
        assert (bodies.held, bodies.arriving) == (0, {})

    virtual_time.run(run())


def test_a_chunked_body_gets_413_as_soon_as_it_exceeds_the_limit() -> None:
    async def run() -> None:
        sender = Sender(Bodies(LIMITS))
        for _ in range(LARGEST_BODY // 2**20):
            await sender.send(bytes(2**20))
        assert not sender.reading.done()
        await sender.send(b"a")
        assert await sender.refusal() == 413

    virtual_time.run(run())


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [("Content-Length", str(LARGEST_BODY + 1), 413), ("Content-Encoding", "gzip", 415)],
)
def test_a_body_that_is_too_large_or_compressed_is_refused_before_it_arrives(
    name: str, value: str, status: int
) -> None:
    async def run() -> None:
        bodies = Bodies(LIMITS)
        assert await Sender(bodies, **{name: value}).refusal() == status
        assert bodies.held == 0

    virtual_time.run(run())


def test_a_slow_body_is_discarded_before_a_newer_fast_one() -> None:
    async def run() -> None:
        bodies = Bodies(Limits(held_bytes=4 * STRIDE, client_timeout=60))
        slow, quick, last = Sender(bodies), Sender(bodies), Sender(bodies)
        for sender in (slow, quick, last):
            await sender.send(bytes(STRIDE))
        await asyncio.sleep(2 * GROWS_WITHIN)
        await quick.send(bytes(STRIDE))
        await last.send(bytes(STRIDE))
        assert await slow.refusal() == 429
        assert bodies.held == 4 * STRIDE
        await quick.send(bytes(STRIDE))
        assert await last.refusal() == 429
        assert await quick.end() == bytes(3 * STRIDE)

    virtual_time.run(run())


def test_the_body_of_a_client_that_disconnects_is_released() -> None:
    async def run() -> None:
        bodies = Bodies(LIMITS)
        sender = Sender(bodies)
        await sender.send(b"a")
        sender.content.set_exception(ConnectionResetError())
        with pytest.raises(ConnectionResetError):
            await sender.reading
        assert (bodies.held, bodies.arriving) == (0, {})

    virtual_time.run(run())
