"""Records are posted to a collector: whole batches, with a token, over verified TLS."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext

import pytest
from aiohttp import ClientTimeout, web

from certs.rotate import Lifetimes, Rotation
from webhook.history import sinks
from webhook.history.sinks import CollectorSink
from webhook.history.writer import FailedError, RefusedRecordsError


class Server:
    """Answers with `statuses`, then 204, and keeps what it got."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.headers.append(dict(request.headers))
        status = self.statuses.pop(0) if self.statuses else 204
        return web.Response(status=status, headers={"Location": "/other"} if status // 100 == 3 else {})


def against(server: Server, work: Callable[[str], Awaitable[None]], tls: SSLContext | None = None) -> None:
    async def run() -> None:
        application = web.Application()
        application.router.add_post("/{any:.*}", server.answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        try:
            await work(f"{'http' if tls is None else 'https'}://{host}:{port}/lines")
        finally:
            await runner.cleanup()

    asyncio.run(run())


async def post(sink: CollectorSink, *lines: bytes) -> None:
    try:
        await sink.write([*lines])
    finally:
        await sink.close()
        sink.session = None


def test_a_batch_is_one_request_of_ndjson() -> None:
    server = Server()
    against(server, lambda url: post(CollectorSink(url), b"1", b"2"))
    assert (server.bodies, server.headers[0]["Content-Type"]) == ([b"1\n2\n"], "application/x-ndjson")
    assert "Authorization" not in server.headers[0]


def test_the_token_is_read_for_each_batch(tmp_path: Path) -> None:
    server, file = Server(), tmp_path / "token"

    async def work(url: str) -> None:
        sink = CollectorSink(url, file)
        for token in ("first\n", "second"):
            file.write_text(token)
            await post(sink, b"1")

    against(server, work)
    assert [one["Authorization"] for one in server.headers] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("text", ["", "two words", "a\nb: c", "é", "x" * 20_000])
def test_a_file_without_a_token_is_a_fault_and_nothing_is_sent(tmp_path: Path, text: str) -> None:
    server, file = Server(), tmp_path / "token"
    file.write_text(text)

    async def work(url: str) -> None:
        with pytest.raises(FailedError, match="has no bearer token"):
            await post(CollectorSink(url, file), b"1")

    against(server, work)
    assert server.bodies == []


@pytest.mark.parametrize("status", [302, 401, 404, 408, 429, 500, 503])
def test_after_these_answers_the_same_batch_may_succeed_later(status: int) -> None:
    async def work(url: str) -> None:
        with pytest.raises(FailedError, match=f"answered {status}"):
            await post(CollectorSink(url), b"1")

    server = Server(status)
    against(server, work)
    assert len(server.bodies) == 1  # a redirection is not followed


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_after_these_answers_it_will_not(status: int) -> None:
    async def work(url: str) -> None:
        with pytest.raises(RefusedRecordsError, match=f"answered {status}"):
            await post(CollectorSink(url), b"1")

    against(Server(status), work)


def test_a_collector_that_is_not_there_is_a_fault() -> None:
    with pytest.raises(FailedError, match="Cannot connect"):
        asyncio.run(post(CollectorSink("http://127.0.0.1:9/"), b"1"))


def test_a_certificate_that_nobody_trusts_is_a_fault_and_nothing_is_sent(tmp_path: Path) -> None:
    leaf = (
        Rotation(name="x", hosts=["127.0.0.1"], lifetimes=Lifetimes(leaf=timedelta(days=1)))
        .begin(datetime.now(UTC))
        .leaf
    )
    pem = tmp_path / "leaf.pem"
    pem.write_bytes(leaf.key + leaf.certificate)
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = Server()

    async def work(url: str) -> None:
        with pytest.raises(FailedError, match="certificate verify failed"):
            await post(CollectorSink(url), b"1")

    against(server, work, context)
    assert server.bodies == []


def test_a_collector_that_does_not_answer_delays_a_batch_by_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "TIMEOUT", ClientTimeout(total=0.05))

    class Silent(Server):
        async def answer(self, request: web.Request) -> web.Response:
            await asyncio.Event().wait()
            raise AssertionError(request)

    async def work(url: str) -> None:
        with pytest.raises(TimeoutError):
            await post(CollectorSink(url), b"1")

    against(Silent(), work)
