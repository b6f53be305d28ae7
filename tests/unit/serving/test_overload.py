"""Overload: excess requests are refused at once, so that the API server repeats them; others are answered."""

import asyncio
import signal
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.admission import review_of
from tests.awaiting import until
from tests.listening import HEAD, eventually, listening, on_uvloop
from tests.metrics import counted
from tests.objects import job
from tests.served import Served, raw, request
from webhook.policy.parse import load_default
from webhook.serving.endpoints import Endpoints
from webhook.serving.limits import LIMITS, Limits
from webhook.tracking.policy_source import PolicySource

REVIEW = review_of(job())
LARGE = review_of(job(annotations={"large": "x" * 20_000}))  # is not kept until all of it has arrived


class SlowApi:
    """The caches that an endpoint uses, while the API does not answer: only namespace "cached" is known."""

    recognised = None
    message_patterns = False
    runtime_patches = None
    pools = ()
    restart_job = False

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()

    def serves(self, namespace: str) -> bool:
        return namespace == "cached"

    async def opt_in(self, namespace: str) -> tuple[str | None, str]:
        if namespace != "cached":
            self.asked += 1
            await self.answers.wait()
        return None, "Enforce"


def endpoints(limits: Limits, api: Any = None) -> Endpoints:
    return Endpoints(PolicySource(load_default()), api, limits=limits)


def test_all_requests_that_need_no_look_up_are_answered(served: Served) -> None:
    with ExitStack() as stack:
        connections = []
        for _ in range(LIMITS.requests * 4):  # none is silent for long, so the server has no reason to close it
            connections.append(stack.enter_context(raw(served)))
            connections[-1].sendall(HEAD % len(REVIEW) + REVIEW)
            assert connections[-1].recv(65536).startswith(b"HTTP/1.1 200 ")
        served.process.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(served))
        for connection in connections:
            connection.sendall(HEAD % len(REVIEW) + REVIEW)
        served.process.send_signal(signal.SIGCONT)
        for connection in connections:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def is_stopped(served: Served) -> bool:
    return Path(f"/proc/{served.process.pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def test_incomplete_bodies_take_no_place_of_waiting_requests(served: Served) -> None:
    with ExitStack() as stack:
        for _ in range(LIMITS.requests + 1):
            stack.enter_context(raw(served)).sendall(HEAD % 10 + b"{")
        until(lambda: "retry_policy_admission_requests_waiting 0.0" in served.get("/metrics").body.decode())
        assert served.post("/mutate", REVIEW).status == 200


def overloaded() -> float:
    labels = {"path": "mutate", "kind": "Job", "operation": "CREATE", "result": "overloaded"}
    return counted("retry_policy_admission_requests_total", **labels)


@on_uvloop
async def test_a_request_that_waits_for_the_api_holds_a_place_until_it_is_answered() -> None:
    limits, api, before = Limits(requests=4), SlowApi(), overloaded()
    async with listening(endpoints(limits, api).admission()) as server:
        waiting = [await server.connect() for _ in range(2)]
        for client in waiting:
            client.post(REVIEW)
        await eventually(lambda: api.asked == 2)
        late = await server.connect()
        late.post(REVIEW)
        status, headers = await late.answer()
        assert (status, headers["retry-after"]) == (429, "1")
        assert overloaded() == before + 1
        api.answers.set()
        assert [(await client.answer())[0] for client in waiting] == [200, 200]
        assert await late.status_of(REVIEW) == 200


@on_uvloop
async def test_requests_that_need_only_the_caches_are_answered_while_many_wait_for_the_api() -> None:
    limits, api, cached = Limits(requests=4, waiting_bytes=1), SlowApi(), review_of(job(), namespace="cached")
    async with listening(endpoints(limits, api).admission()) as server:
        waiting, late, other = [await server.connect() for _ in range(3)]
        waiting.post(REVIEW)
        await eventually(lambda: api.asked)
        assert await late.status_of(REVIEW) == 429
        assert await other.status_of(cached) == 200
        api.answers.set()
        assert (await waiting.answer())[0] == 200


@on_uvloop
async def test_a_client_that_disconnects_releases_its_place() -> None:
    limits, api = Limits(requests=1), SlowApi()
    service = endpoints(limits, api)
    async with listening(service.admission()) as server:
        gone, late = await server.connect(), await server.connect()
        gone.post(REVIEW)
        await eventually(lambda: api.asked)
        gone.writer.transport.abort()
        api.answers.set()
        await eventually(lambda: not service.places.requests)
        assert await late.status_of(REVIEW) == 200


@on_uvloop
async def test_the_bytes_of_requests_that_wait_for_the_api_are_limited() -> None:
    limits, api = Limits(waiting_bytes=2 * len(REVIEW) - 1), SlowApi()
    async with listening(endpoints(limits, api).admission()) as server:
        first, second = await server.connect(), await server.connect()
        first.post(REVIEW)
        await eventually(lambda: api.asked)
        assert await second.status_of(REVIEW) == 429
        api.answers.set()
        assert (await first.answer())[0] == 200


@on_uvloop
async def test_bytes_count_when_they_arrive_and_the_newest_body_is_refused() -> None:
    limits = Limits(held_bytes=21_000)
    service = endpoints(limits)
    async with listening(service.admission()) as server:
        announcing, first, last = [await server.connect() for _ in range(3)]
        announcing.send(HEAD % 1_000_000)
        first.send(HEAD % len(LARGE) + LARGE[:1500])
        await eventually(lambda: service.bodies.held == 1500)
        last.send(HEAD % len(LARGE) + LARGE[:19_501])
        status, headers = await last.answer()
        assert (status, headers["retry-after"]) == (429, "1")
        first.send(LARGE[1500:])
        assert (await first.answer())[0] == 200


@on_uvloop
async def test_the_newest_body_is_discarded_to_make_room_for_older_ones() -> None:
    limits = Limits(held_bytes=21_000)
    service = endpoints(limits)
    async with listening(service.admission()) as server:
        first, last = await server.connect(), await server.connect()
        first.send(HEAD % len(LARGE) + LARGE[:500])
        await eventually(lambda: service.bodies.held == 500)
        last.send(HEAD % len(LARGE) + LARGE[:20_000])
        await eventually(lambda: service.bodies.held == 20_500)
        first.send(LARGE[500:])
        assert (await first.answer())[0] == 200
        assert (await last.answer())[0] == 429


@on_uvloop
async def test_a_small_request_is_answered_while_many_bytes_are_arriving() -> None:
    limits = Limits(held_bytes=100)
    service = endpoints(limits)
    async with listening(service.admission()) as server:
        filling, small = await server.connect(), await server.connect()
        filling.send(HEAD % 100_000 + b" " * 100)
        await eventually(lambda: service.bodies.held == 100)
        assert await small.status_of(REVIEW) == 200


@on_uvloop
async def test_a_stalled_body_is_discarded_to_make_room_for_others_without_a_stack_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = Limits(held_bytes=22_000)
    service = endpoints(limits)
    async with listening(service.admission()) as server:
        filling, other = await server.connect(), await server.connect()
        filling.send(HEAD % 1_000_000 + b" " * 1900)
        await eventually(lambda: service.bodies.held == 1900)
        status = 429
        while status == 429:
            other.send(HEAD % len(LARGE))
            await eventually(lambda: len(service.bodies.arriving) == 2)
            other.send(LARGE)
            status, _ = await other.answer()
        assert status == 200
        assert (await filling.answer())[0] == 429
        assert service.bodies.held == 0
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


@on_uvloop
async def test_a_body_that_never_ends_gets_408_and_the_connection_is_closed() -> None:
    limits = Limits(client_timeout=0.1)
    service = endpoints(limits)
    async with listening(service.admission()) as server:
        client = await server.connect()
        client.send(HEAD % 100_000 + b"{")
        status, headers = await client.answer()
        assert (status, headers["connection"]) == (408, "close")
        assert await client.reader.read() == b""
        assert (service.bodies.held, service.places.requests, len(service.bodies.arriving)) == (0, 0, 0)


@on_uvloop
async def test_a_body_in_several_pieces_is_joined() -> None:
    async with listening(endpoints(LIMITS).admission()) as server:
        client = await server.connect()
        client.send(HEAD % len(REVIEW))
        for byte in REVIEW[:100]:
            client.send(bytes((byte,)))
            await asyncio.sleep(0)
        client.send(REVIEW[100:])
        assert (await client.answer())[0] == 200


def resident(served: Served) -> int:
    """Return the memory of the server, in bytes."""
    return int(Path(f"/proc/{served.process.pid}/status").read_text().partition("VmRSS:")[2].split()[0]) * 1024


def test_an_idle_connection_does_not_keep_a_large_body(served: Served) -> None:
    size = 3_000_000
    large = review_of(job(annotations={"large": "x" * size}))
    with ExitStack() as stack:
        first, *others = [stack.enter_context(closing(served.connect())) for _ in range(21)]
        assert request(first, "POST", "/mutate", large).status == 200
        before = resident(served)
        for connection in others:
            assert request(connection, "POST", "/mutate", large).status == 200
        assert resident(served) - before < len(others) * size / 3
