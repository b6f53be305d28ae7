"""Connections: an API server's stay open, useless ones are closed, and none is closed during a request."""

import asyncio
import contextlib
import resource
import socket
import ssl
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from certs import issue
from certs.reload import ReloadableContext
from tests.admission import review_of
from tests.awaiting import LONGEST
from tests.listening import HEAD, Client, Listening, Sent, eventually, listening, on_uvloop
from tests.metrics import counted
from tests.objects import job
from tests.served import Served, raw, serving
from webhook.serving import connections
from webhook.serving.bodies import Bodies
from webhook.serving.connections import Connections, State
from webhook.serving.limits import LIMITS, OPEN_FILES, Limits
from webhook.serving.listen import listen
from webhook.serving.server import Answer, HttpResponse, Routes, Server

REVIEW = review_of(job())
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 25_000_000  # bytes; more than the kernel buffers
ANSWERED = b"HTTP/1.1 200 OK\r\n"


class Waiting:
    """Routes: / is answered at once, /waits when the test says so; `asked` counts the requests that wait."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()

    def routes(self, limits: Limits = LIMITS) -> Routes:
        routes = {"/": self.at_once, "/waits": self.waits, "/large": self.large}
        found = {path: ("GET", handler) for path, handler in routes.items()}
        return Routes(Bodies(limits), {**found, "/mutate": ("POST", self.reads), "/posted": ("POST", self.posted)})

    async def at_once(self, _: bytes) -> HttpResponse:
        return HttpResponse(b"here")

    async def waits(self, _: bytes) -> HttpResponse:
        self.asked += 1
        await self.answers.wait()
        return HttpResponse(b"at last")

    async def reads(self, body: bytes) -> HttpResponse:
        return HttpResponse(body)

    async def posted(self, body: bytes) -> HttpResponse:
        answer = await self.waits(body)
        assert body != b"fail"
        return answer

    async def large(self, _: bytes) -> HttpResponse:
        self.asked += 1
        return HttpResponse(b" " * LARGE)


async def used_connection(server: Listening) -> Client:
    """Return an idle connection, which has had a request before."""
    client = await server.connect()
    client.send(GET)
    assert (await client.answer())[0] == 200
    return client


async def is_served(client: Client) -> bool:
    client.send(GET)
    return (await client.answer())[0] == 200


@on_uvloop
async def test_a_connection_with_an_incomplete_head_is_closed_and_idle_ones_stay_open() -> None:
    async with listening(Waiting().routes(Limits(client_timeout=0.1))) as server:
        idle, silent, beginning, later = (
            await used_connection(server),
            *[await server.connect() for _ in range(2)],
            await used_connection(server),
        )
        beginning.send(GET[:-1])
        later.send(GET[:1])
        await eventually(lambda: beginning.closed and later.closed)
        assert await is_served(idle)
        assert await is_served(silent)


@on_uvloop
async def test_only_a_limited_number_of_connections_without_a_request_stays_open() -> None:
    async with listening(Waiting().routes(Limits(client_timeout=0.1, spare=2))) as server:
        idle = await used_connection(server)
        silent = [await server.connect() for _ in range(5)]
        await eventually(lambda: sum(client.closed for client in silent) == 3)
        assert [client.closed for client in silent] == [True, True, True, False, False]
        assert await is_served(idle)
        assert await is_served(silent[-1])


@on_uvloop
async def test_above_the_limit_unused_connections_are_closed_first_then_idle_ones_and_never_busy_ones() -> None:
    waiting = Waiting()
    async with listening(waiting.routes(Limits(connections=4, spare=0))) as server:
        busy, silent, second, first = (
            await server.connect(),
            await server.connect(),
            await used_connection(server),
            await used_connection(server),
        )
        busy.send(GET.replace(b"/", b"/waits", 1))
        await eventually(lambda: waiting.asked)
        assert await is_served(second)  # so that the other is the longest idle
        await used_connection(server)
        await eventually(lambda: silent.closed)
        await used_connection(server)
        await eventually(lambda: first.closed)
        await used_connection(server)
        await eventually(lambda: second.closed)
        waiting.answers.set()
        assert (await busy.answer())[0] == 200


@on_uvloop
async def test_many_connections_with_an_incomplete_head_are_closed_before_an_idle_one() -> None:
    async with listening(Waiting().routes(Limits(connections=4, spare=2))) as server:
        idle = await used_connection(server)
        beginning = [await server.connect() for _ in range(6)]
        for client in beginning:
            client.send(GET[:1])
        await eventually(lambda: sum(client.closed for client in beginning) == 3)
        for client in beginning[-3:]:
            assert not client.closed
        beginning += [await server.connect() for _ in range(3)]
        for client in beginning[-3:]:
            client.send(GET[:1])
        await eventually(lambda: sum(client.closed for client in beginning) == 6)
        assert await is_served(idle)


@on_uvloop
async def test_if_every_connection_is_in_use_the_new_one_is_closed() -> None:
    waiting = Waiting()
    async with listening(waiting.routes(Limits(connections=2))) as server:
        busy = [await server.connect() for _ in range(2)]
        for client in busy:
            client.send(GET.replace(b"/", b"/waits", 1))
        await eventually(lambda: waiting.asked == len(busy))
        late = await server.connect()
        await eventually(lambda: late.closed)
        waiting.answers.set()
        assert [(await client.answer())[0] for client in busy] == [200, 200]
        assert await is_served(busy[0])


@on_uvloop
async def test_a_connection_with_a_stalled_body_is_closed_before_an_idle_one(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = Waiting().routes(Limits(connections=2))
    async with listening(routes) as server:
        idle, slow = await used_connection(server), await server.connect()
        slow.send(HEAD % 10 + b"{")
        await eventually(lambda: routes.bodies.arriving)
        monkeypatch.setattr(connections, "ARRIVES_WITHIN", 0)
        await used_connection(server)
        await eventually(lambda: slow.closed)
        assert await is_served(idle)


def dropped_as_slow() -> float:
    return counted("retry_policy_connections_dropped_total", reason="slow")


@on_uvloop
async def test_the_connection_of_a_client_that_does_not_read_its_answers_is_closed() -> None:
    before, waiting = dropped_as_slow(), Waiting()
    async with listening(waiting.routes(Limits(client_timeout=0.1))) as server:
        stubborn, idle = await server.connect(), await used_connection(server)
        stubborn.writer.transport.pause_reading()  # type: ignore[attr-defined]
        stubborn.send(GET.replace(b"/", b"/large", 1))
        await eventually(lambda: dropped_as_slow() == before + 1)
        assert await is_served(idle)


@on_uvloop
async def test_the_bytes_of_large_answers_that_are_not_read_are_limited() -> None:
    before, waiting = dropped_as_slow(), Waiting()
    limits = Limits(answer_bytes=2 * LARGE, client_timeout=LONGEST)
    async with listening(waiting.routes(limits), server_context()) as server:
        stubborn = [await server.connect(trusting()) for _ in range(5)]
        for number, client in enumerate(stubborn, 1):
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.send(GET.replace(b"/", b"/large", 1))
            await eventually(lambda number=number: waiting.asked == number)  # type: ignore[misc]
        await eventually(lambda: dropped_as_slow() == before + 3)


@on_uvloop
async def test_a_large_answer_is_the_last_on_its_connection() -> None:
    async with listening(Waiting().routes(Limits(client_timeout=LONGEST)), server_context()) as server:
        client = await server.connect(trusting())
        client.send(GET.replace(b"/", b"/large", 1))
        status, headers = await client.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await client.reader.read() == b""


def server_context() -> ssl.SSLContext:
    now = datetime.now(UTC)
    authority = issue.new_authority("test", now=now, lifetime=timedelta(hours=1))
    reloadable = ReloadableContext()
    reloadable.load(issue.issue(authority, "webhook", now=now, lifetime=timedelta(hours=1), hosts=["127.0.0.1"]))
    return reloadable.context


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@on_uvloop
async def test_a_handshake_that_does_not_complete_is_ended() -> None:
    async with listening(Waiting().routes(Limits(client_timeout=0.1)), server_context()) as server:
        served = await server.connect(trusting())
        half_open = await server.connect()
        assert await half_open.reader.read() == b""
        assert await is_served(served)


@on_uvloop
async def test_if_too_many_clients_send_nothing_the_oldest_are_closed_and_others_are_served() -> None:
    async with listening(Waiting().routes(Limits(silent=2)), server_context()) as server:
        half_open = [await server.connect() for _ in range(5)]
        served = await server.connect(trusting())
        assert await is_served(served)
        await eventually(lambda: all(client.closed for client in half_open[:3]))
        assert not half_open[-1].closed


@on_uvloop
async def test_more_handshakes_than_the_limit_wait_and_are_all_completed() -> None:
    async with listening(Waiting().routes(Limits(handshakes=2)), server_context()) as server:
        clients = await asyncio.gather(*(server.connect(trusting()) for _ in range(20)))
        assert all([await is_served(client) for client in clients])


@on_uvloop
async def test_stalled_handshakes_are_ended_if_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.serving.listen.STALLED", 0.1)
    async with listening(Waiting().routes(Limits(handshakes=2)), server_context()) as server:
        stalled = [await server.connect() for _ in range(4)]
        for client in stalled:
            client.send(client_hello())
        assert await is_served(await server.connect(trusting()))
        await stalled[0].reader.read()  # to its end


def client_hello() -> bytes:
    """Return the first bytes that a TLS client sends."""
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusting().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


@on_uvloop
async def test_bytes_that_have_arrived_but_are_not_read_count_as_a_request() -> None:
    connections = Connections(LIMITS)
    serve = Server(Waiting().routes(), connections)
    server = await asyncio.get_running_loop().create_server(serve, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as client, contextlib.closing(server):
        await eventually(lambda: connections.open)
        (connection,) = connections.open
        assert not connection.is_receiving()
        client.sendall(b"P")  # the event loop does not run before the check
        assert connection.is_receiving()


@on_uvloop
async def test_a_request_with_connection_close_is_answered_and_then_the_connection_is_closed() -> None:
    waiting = Waiting()
    async with listening(waiting.routes()) as server:
        client = await server.connect()
        client.send(b"GET /waits HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await eventually(lambda: waiting.asked)
        waiting.answers.set()
        status, headers = await client.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await client.reader.read() == b""


@on_uvloop
async def test_pipelined_requests_are_answered_in_order() -> None:
    async with listening(Waiting().routes()) as server:
        client = await server.connect()
        client.send(GET * 100)
        assert [(await client.answer())[0] for _ in range(100)] == [200] * 100


@pytest.mark.parametrize("pieces", [1, 2])
@on_uvloop
async def test_a_request_that_is_sent_before_the_last_answer_is_answered_in_order(pieces: int) -> None:
    waiting = Waiting()
    async with listening(waiting.routes()) as server:
        client, first = await server.connect(), GET.replace(b"/", b"/waits", 1)
        for piece in [first + GET] if pieces == 1 else [first, GET]:
            client.send(piece)
            await eventually(lambda: waiting.asked)
        await is_served(await server.connect())  # after that, all bytes sent before have been read
        waiting.answers.set()
        assert [(await client.answer())[1]["content-length"] for _ in range(2)] == ["7", "4"]


@on_uvloop
async def test_on_shutdown_a_request_that_has_arrived_is_answered_and_idle_connections_are_closed() -> None:
    async with contextlib.AsyncExitStack() as stack:
        host, _, port = (await listen(stack, Waiting().routes(), ("127.0.0.1", 0), None)).rpartition(":")
        with socket.create_connection((host, int(port))) as asking, socket.create_connection((host, int(port))) as idle:
            for connection in (asking, idle):
                connection.sendall(GET)
                assert (await asyncio.to_thread(connection.recv, 1000)).startswith(ANSWERED)
            asking.sendall(GET)  # the event loop does not run before the shutdown begins
            await stack.aclose()
            assert asking.recv(1000).startswith(ANSWERED)
            assert asking.recv(1000) == idle.recv(1000) == b""


@on_uvloop
async def test_a_connection_is_idle_only_once_its_answer_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a drain could close it in between."""
    send, states = web.Response.write_eof, list[State]()

    async def noted(answer: Answer, data: bytes = b"") -> None:
        states.append(answer.connection.state)
        await send(answer, data)
        states.append(answer.connection.state)

    monkeypatch.setattr(web.Response, "write_eof", noted)
    async with listening(Waiting().routes()) as server:
        assert await is_served(await used_connection(server))
    assert states == [State.BUSY] * 4


@on_uvloop
async def test_a_small_body_that_does_not_arrive_gets_408() -> None:
    async with listening(Waiting().routes(Limits(client_timeout=0.1))) as server:
        client = await used_connection(server)
        client.send(HEAD % 10 + b"{")
        assert (await client.answer())[0] == 408


@on_uvloop
async def test_requests_that_arrive_while_another_one_waits_are_answered_after_it() -> None:
    waiting = Waiting()
    async with listening(waiting.routes()) as server:
        client, other = await used_connection(server), await used_connection(server)
        client.send(HEAD.replace(b"/mutate", b"/posted") % 4 + b"wait")
        await eventually(lambda: waiting.asked)
        client.post(b"first")
        assert await is_served(other)  # so "first" has arrived
        client.send(HEAD % 6 + b"second" + GET)
        assert await is_served(other)
        waiting.answers.set()
        bodies = [await client.body() for _ in range(4)]
        assert bodies == [b"at last", b"first", b"second", b"here"]
        client.post(b"third")
        assert await client.body() == b"third"


@on_uvloop
async def test_a_request_whose_handler_fails_after_waiting_gets_500() -> None:
    waiting = Waiting()
    async with listening(waiting.routes()) as server:
        client = await used_connection(server)
        client.send(HEAD.replace(b"/mutate", b"/posted") % 4 + b"fail")
        await eventually(lambda: waiting.asked)
        waiting.answers.set()
        assert (await client.answer())[0] == 500
        assert await is_served(client)


@on_uvloop
async def test_a_client_that_disconnects_while_its_request_waits_does_not_affect_others() -> None:
    waiting = Waiting()
    async with listening(waiting.routes()) as server:
        leaving, staying = await used_connection(server), await used_connection(server)
        for client in (leaving, staying):
            client.send(HEAD.replace(b"/mutate", b"/posted") % 4 + b"wait")
        await eventually(lambda: waiting.asked == 2)
        leaving.writer.transport.abort()
        waiting.answers.set()
        assert await staying.body() == b"at last"


@on_uvloop
async def test_a_client_that_does_not_read_gets_one_more_answer_and_the_others_when_it_reads() -> None:
    routes, sent = Waiting().routes(), Sent()
    connection = Server(routes, Connections(routes.bodies.limits))()
    connection.connection_made(sent)
    await asyncio.sleep(0)
    connection.pause_writing()
    for number in range(3):
        connection.data_received(HEAD % 1 + b"%d" % number)
        for _ in range(10):  # iterations of the event loop in which a second answer could be sent
            await asyncio.sleep(0)
    assert [answer[-1:] for answer in sent.answers] == [b"0"]
    connection.resume_writing()
    await eventually(lambda: [answer[-1:] for answer in sent.answers] == [b"0", b"1", b"2"])
    connection.connection_lost(None)


@pytest.mark.parametrize("begun", [0, 10, -5], ids=["a new connection", "a head", "a body"])
@on_uvloop
async def test_on_shutdown_requests_that_have_begun_are_answered(begun: int) -> None:
    asking = HEAD % len(REVIEW) + REVIEW
    waiting = Waiting()
    async with contextlib.AsyncExitStack() as stack:
        host, _, port = (await listen(stack, waiting.routes(), ("127.0.0.1", 0), None)).rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(asking[:begun])
            ending = asyncio.create_task(stack.aclose())
            await asyncio.sleep(0.1)  # the end has begun
            assert not ending.done()
            client.sendall(asking[begun:])
            await ending
            assert client.recv(1000).startswith(ANSWERED)


@on_uvloop
async def test_on_shutdown_a_connection_that_is_not_accepted_yet_is_answered() -> None:
    async with contextlib.AsyncExitStack() as stack:
        host, _, port = (await listen(stack, Waiting().routes(), ("127.0.0.1", 0), None)).rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(GET)  # the event loop does not run before the shutdown begins
            await stack.aclose()
            assert client.recv(1000).startswith(ANSWERED)


@on_uvloop
async def test_on_shutdown_a_connection_whose_handshake_begins_later_is_answered() -> None:
    async with contextlib.AsyncExitStack() as stack:
        host, _, port = (await listen(stack, Waiting().routes(), ("127.0.0.1", 0), server_context())).rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            ending = asyncio.create_task(stack.aclose())
            await asyncio.sleep(0.1)  # the end has begun
            with await asyncio.to_thread(trusting().wrap_socket, client) as secure:
                secure.sendall(GET)
                await ending
                assert secure.recv(1000).startswith(ANSWERED)


@on_uvloop
async def test_on_shutdown_a_request_in_progress_is_answered() -> None:
    waiting = Waiting()
    async with contextlib.AsyncExitStack() as stack:
        host, _, port = (await listen(stack, waiting.routes(), ("127.0.0.1", 0), None)).rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(GET.replace(b"/", b"/waits", 1))
            await eventually(lambda: waiting.asked)
            ending = asyncio.create_task(stack.aclose())
            await asyncio.sleep(0.1)  # the end has begun
            waiting.answers.set()
            await ending
            assert client.recv(1000).startswith(ANSWERED)


@on_uvloop
async def test_on_shutdown_an_answer_that_is_being_read_is_written_completely() -> None:
    async with contextlib.AsyncExitStack() as stack:
        host, _, port = (await listen(stack, Waiting().routes(), ("127.0.0.1", 0), None)).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(GET.replace(b"/", b"/large", 1))
        assert (await reader.readline()) == ANSWERED
        ending = asyncio.create_task(stack.aclose())
        assert len((await reader.read()).partition(b"\r\n\r\n")[2]) == LARGE
        await ending
        writer.close()


@on_uvloop
async def test_the_server_listens_on_all_addresses_of_a_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with contextlib.AsyncExitStack() as stack:
        await listen(stack, Waiting().routes(), ("localhost", port), None)
        for *_, address in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM):
            with socket.create_connection((str(address[0]), port)) as connection:
                connection.sendall(GET)
                assert (await asyncio.to_thread(connection.recv, 1000)).startswith(ANSWERED)


def test_a_hundred_slow_clients_do_not_delay_others(served: Served) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(raw(served)) for _ in range(100)]
        head = HEAD % len(REVIEW)
        for number in range(20):
            for connection in slow[:50]:
                connection.sendall(head[number : number + 1])
            for connection in slow[50:]:
                connection.sendall(REVIEW[number : number + 1] if number else head)
            assert served.post("/mutate", REVIEW).status == 200


def test_the_server_raises_the_limit_of_open_files_to_what_its_connections_need(tmp_path: Path) -> None:
    assert 2 * (LIMITS.connections + LIMITS.handshakes + LIMITS.silent) < OPEN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    try:
        with serving(tmp_path) as running:
            text = Path(f"/proc/{running.process.pid}/limits").read_text()
            assert int(text.partition("Max open files")[2].split()[0]) == min(OPEN_FILES, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
