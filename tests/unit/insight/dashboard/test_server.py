"""The server of the dashboard, as a client on this machine sees it."""

import asyncio
import gzip
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from typing import Any

import aiohttp
import pytest

from tests import reports
from tests.awaiting import LONGEST
from webhook.insight import dashboard as module
from webhook.insight.dashboard import PortTakenError, dashboard
from webhook.insight.report.model import Report
from webhook.kube.client import ApiError
from webhook.serving.connections import Connection
from webhook.serving.limits import Limits

POLICY = {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "connect-src 'self'"}


async def read() -> Report:
    return reports.report(3)


@asynccontextmanager
async def opened(source: Callable[[], Awaitable[Report]] = read) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Yield a client that has opened the dashboard, and the address without a path."""
    async with (
        dashboard(source, 0) as address,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), auto_decompress=False) as session,
    ):
        async with session.get(address) as answer:
            assert answer.status == 200
        yield session, address.partition("/?")[0]


def run(work: Callable[[aiohttp.ClientSession, str], Awaitable[Any]], **options: Any) -> None:
    async def main() -> None:
        async with opened(**options) as (session, base):
            await work(session, base)

    asyncio.run(main())


async def next_event(stream: aiohttp.ClientResponse) -> tuple[str, str]:
    """Return the name and the text of the next event."""
    while True:
        block = b""
        while not block.endswith(b"\n\n"):
            block += await asyncio.wait_for(stream.content.readline(), LONGEST)
        found = re.fullmatch(rb"event: (\w+)\ndata: (.*)\n\n", block)
        if found:
            return found[1].decode(), found[2].decode()


def test_after_the_token_the_page_its_parts_and_the_report_are_served() -> None:
    async def work(session: aiohttp.ClientSession, base: str) -> None:
        for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")):
            async with session.get(base + path) as answer:
                assert (answer.status, answer.content_type) == (200, kind)
        async with session.get(f"{base}/report") as answer:
            found = json.loads(gzip.decompress(await answer.read()))
        assert len(found["workloads"]) == 3

    run(work)


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/report", "/events", "/unknown", "/?token=x"])
def test_without_the_cookie_nothing_is_served(path: str) -> None:
    async def work(_: aiohttp.ClientSession, base: str) -> None:
        async with aiohttp.ClientSession() as stranger, stranger.get(base + path) as answer:
            assert answer.status == 403
            assert "start `retry-policy dashboard` again" in await answer.text()

    run(work)


@pytest.mark.parametrize("path", ["/", "/page.js", "/report", "/events", "/unknown"])
@pytest.mark.parametrize("admitted", [True, False])
def test_each_response_tells_browsers_what_they_may_not_do(path: str, *, admitted: bool) -> None:
    async def work(session: aiohttp.ClientSession, base: str) -> None:
        async with session if admitted else aiohttp.ClientSession() as client, client.get(base + path) as answer:
            headers = answer.headers
        assert {*headers["Content-Security-Policy"].split("; ")} >= POLICY
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Server"] == "retry-policy"
        assert [name for name in headers if name.startswith("Access-Control-")] == []

    run(work)


def test_no_other_method_is_answered_even_with_the_cookie() -> None:
    async def work(session: aiohttp.ClientSession, base: str) -> None:
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
            async with session.request(method, f"{base}/report") as answer:
                assert answer.status == 405

    run(work)


def test_only_this_machine_is_listened_to() -> None:
    async def main() -> None:
        async with dashboard(read, 0) as address:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)

    asyncio.run(main())


def test_a_port_in_use_is_an_error_with_a_remedy() -> None:
    async def main() -> None:
        async with dashboard(read, 0) as address:
            port = int(address.split(":")[2].split("/")[0])
            with pytest.raises(PortTakenError, match="choose another port"):
                await dashboard(read, port).__aenter__()

    asyncio.run(main())


def test_a_cluster_that_cannot_be_read_is_known_before_the_address() -> None:
    async def refuse() -> Report:
        raise ApiError(403, "forbidden")

    with pytest.raises(ApiError):
        asyncio.run(dashboard(refuse, 0).__aenter__())


def test_events_tell_of_each_new_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.insight.dashboard.EVERY", 0.01)
    sizes = [1, 2, 3]

    async def growing() -> Report:
        return reports.report(sizes.pop(0) if len(sizes) > 1 else sizes[0])

    async def work(session: aiohttp.ClientSession, base: str) -> None:
        async with session.get(f"{base}/events") as stream:
            told = [await next_event(stream)]
            while told[-1] != ("report", "3"):
                told.append(await next_event(stream))
        assert {name for name, _ in told} == {"report", "checked"}
        async with session.get(f"{base}/report") as answer:
            assert len(json.loads(gzip.decompress(await answer.read()))["workloads"]) == 3

    run(work, source=growing)


def test_a_withdrawn_report_is_no_longer_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.insight.dashboard.EVERY", 0.01)
    answers: list[Report | ApiError] = [reports.report(2), ApiError(403, "jobs is forbidden")]

    async def once() -> Report:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, ApiError):
            raise answer
        return answer

    async def work(session: aiohttp.ClientSession, base: str) -> None:
        async with session.get(f"{base}/events") as stream:
            while (await next_event(stream))[0] != "withdrawn":
                pass
        async with session.get(f"{base}/report") as answer:
            assert (answer.status, await answer.read()) == (204, b"")

    run(work, source=once)


def test_the_number_of_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STREAMS", 2)

    async def work(session: aiohttp.ClientSession, base: str) -> None:
        async with session.get(f"{base}/events") as first, session.get(f"{base}/events") as second:
            assert {first.status, second.status} == {200}
            async with session.get(f"{base}/events") as third:
                assert (third.status, await third.text()) == (503, "2 pages are open; close one\n")

    run(work)


def test_the_number_of_requests_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_REQUESTS", 0)

    async def work(session: aiohttp.ClientSession, base: str) -> None:
        async with session.get(f"{base}/report") as answer:
            assert answer.status == 503

    run(work)


def test_a_client_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMITS", Limits(client_timeout=0.2))
    monkeypatch.setattr("webhook.insight.dashboard.packed", lambda *_: (b"digest", bytes(64 * 1024 * 1024)))
    is_cut, dropped = asyncio.Event(), Connection.drop

    def drop(connection: Connection, reason: str) -> None:
        dropped(connection, reason)
        is_cut.set()

    monkeypatch.setattr(Connection, "drop", drop)

    async def work(session: aiohttp.ClientSession, base: str) -> None:
        cookies = "; ".join(f"{one.key}={one.value}" for one in session.cookie_jar)
        host = base.removeprefix("http://")
        name, _, port = host.partition(":")
        reader, writer = await asyncio.open_connection(name, int(port), limit=1024)
        writer.write(f"GET /report HTTP/1.1\r\nHost: {host}\r\nCookie: {cookies}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.wait_for(is_cut.wait(), LONGEST)
        taken = 0
        with suppress(ConnectionError):
            while piece := await asyncio.wait_for(reader.read(1 << 20), LONGEST):
                taken += len(piece)
        assert taken < 64 * 1024 * 1024
        writer.close()

    run(work)


# The dashboard in a process that may open no more files than on macOS; each reading opens one, as the API client does.
CROWDED = """
import asyncio, resource, sys
from tests import reports
from webhook.insight import dashboard
from webhook.insight.dashboard import dashboard

dashboard.EVERY = dashboard.PAUSE = 0.05
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

async def read():
    open(__import__("os").devnull).close()
    return reports.report(3)

async def main():
    async with dashboard(read, 0) as address:
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def test_connections_of_others_take_the_dashboard_no_files() -> None:
    sent = (b"", b"GET /", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

    async def work(process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        host, _, port = address.removeprefix("http://").partition("/")[0].partition(":")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), auto_decompress=False) as session:
            async with session.get(address) as answer:
                assert answer.status == 200
            async with session.get(f"http://{host}:{port}/events") as stream:
                opened = [await asyncio.open_connection(host, int(port)) for _ in range(600)]
                for (_, writer), first in zip(opened, cycle(sent), strict=False):
                    writer.write(first)
                for _ in range(3):  # readings, of which each opens a file
                    assert (await next_event(stream))[0] in {"report", "checked"}
                async with session.get(f"http://{host}:{port}/report") as answer:
                    assert answer.status == 200
                files = len(os.listdir(f"/proc/{process.pid}/fd"))  # noqa: PTH208 - names alone
                assert files < module.LIMITS.connections + 64
            for _, writer in opened:
                writer.close()

    async def main() -> None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", CROWDED, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        try:
            async with asyncio.timeout(LONGEST):
                await work(process)
        finally:
            process.stdin.close()
            assert await asyncio.wait_for(process.wait(), 60) == 0

    asyncio.run(main())


def test_nothing_is_read_before_a_page_is_open_and_after_the_last_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.insight.dashboard.EVERY", 0.01)
    readings = 0

    async def counted() -> Report:
        nonlocal readings
        readings += 1
        return reports.report(1)

    async def work(session: aiohttp.ClientSession, base: str) -> None:
        assert readings == 1  # before the address was printed
        async with session.get(f"{base}/events") as stream:
            while readings < 3:
                await next_event(stream)

    run(work, source=counted)
