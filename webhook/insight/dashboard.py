"""The dashboard: when the cluster is read, who may see it, and the server of its page.

Only the browser that opened the address that was printed may see it, and only its own pages. Other pages in the same
browser can send requests to this machine, also under a name of their own that leads here (DNS rebinding), and other
users of this machine can reach its ports.
"""

import asyncio
import gzip
import hashlib
import hmac
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from typing import Final, Literal, NamedTuple

import msgspec
from aiohttp import hdrs, web
from msgspec.structs import replace

from webhook.insight.page.render import STRICT, as_json, live_page, page_script, page_style
from webhook.insight.report.model import Report
from webhook.kube.client import UNREACHABLE, ApiError
from webhook.objects.left_out import unexpected
from webhook.serving.connections import Connection, Connections, State
from webhook.serving.limits import Limits

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


TOKEN: Final = "token"  # noqa: S105 - the name of the parameter
AGAIN: Final = "start `retry-policy dashboard` again, and open the address that it prints"
HEADERS: Final = {
    "Content-Security-Policy": (
        f"{STRICT}; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "retry-policy",
}
# The first response: it leaves the address with the token at once. A redirection would, after a click in a page of
# another site, arrive without the cookie, which is for requests of this site alone.
ENTER: Final = (
    '<!doctype html><html lang="en"><meta http-equiv="refresh" content="0; url=/"><title>Retry report</title>'
)


class Guard:
    """The address, the token that opens it once, and the cookie that the browser gets for it."""

    def __init__(self, port: int) -> None:
        self.hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self.cookie = f"retry-policy-dashboard-{port}"  # browsers share cookies between the ports of a host
        self.token: str | None = secrets.token_urlsafe(32)
        self.session = secrets.token_urlsafe(32)
        self.address = f"http://127.0.0.1:{port}/?{TOKEN}={self.token}"

    def refusal(self, request: web.BaseRequest) -> tuple[int, str] | None:
        """Return the status and the reason if a request must not be answered; None if it may be."""
        if request.method != hdrs.METH_GET:
            return HTTPStatus.METHOD_NOT_ALLOWED, "the dashboard only shows: GET is the only method"
        if request.headers.getall(hdrs.HOST, []) not in [[host] for host in self.hosts]:
            return HTTPStatus.FORBIDDEN, f"the header Host names another host; open http://{min(self.hosts)}/"
        origins = request.headers.getall(hdrs.ORIGIN, [])
        if origins not in ([], [f"http://{request.headers[hdrs.HOST]}"]):
            return HTTPStatus.FORBIDDEN, "the request comes from a page of another origin"
        if not _is_own(request):
            return HTTPStatus.FORBIDDEN, "the request comes from a page of another site"
        return None

    def admits(self, request: web.BaseRequest) -> bool:
        """Return True if the request has the cookie of this dashboard."""
        return _same(request.cookies.get(self.cookie, ""), self.session)

    def enter(self, request: web.BaseRequest) -> web.Response:
        """Return the cookie for the token, which is good for once; a refusal for another token."""
        if self.token is None or not _same(request.query[TOKEN], self.token):
            return _refused(HTTPStatus.FORBIDDEN, f"this address was used already, or is not this dashboard's; {AGAIN}")
        self.token = None
        response = web.Response(text=ENTER, content_type="text/html", charset="utf-8")
        response.set_cookie(self.cookie, self.session, httponly=True, samesite="Strict", path="/")
        return response


def _is_own(request: web.BaseRequest) -> bool:
    """Return True if a browser says that a page of ours, or the user, sends a request; or if no browser says anything.

    A link in another page may lead the user here, as the main page of a tab, but loads no part of the dashboard.
    """
    site = request.headers.get("Sec-Fetch-Site", "none")
    leads = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.headers.get("Sec-Fetch-Dest") == "document"
    return site in {"none", "same-origin"} or (leads and request.path == "/")


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def _refused(status: int, reason: str) -> web.Response:
    return web.Response(status=status, text=f"{reason}\n", content_type="text/plain", charset="utf-8")


HOST: Final = "127.0.0.1"
MOST_STREAMS: Final = 16  # pages that are told of news
MOST_REQUESTS: Final = 32  # in progress, besides these
# More than are ever in progress; the rest waits for a request, and gives way to a new one. With those that are accepted
# at once, and what reads the cluster, that is below the 256 files that a process may open on macOS.
LIMITS: Final = Limits(connections=64, spare=16, client_timeout=30.0)
ACCEPTED: Final = 100
HEARTBEAT: Final = 15.0  # seconds without news after which a page is asked whether it is still there
LAST: Final = 1.0  # seconds for answers in progress when the dashboard ends
# What the page is made of: the text of each path, and its type.
PARTS: Final[dict[str, tuple[Callable[[], str], str]]] = {
    "/": (live_page, "text/html"),
    "/page.css": (page_style, "text/css"),
    "/page.js": (page_script, "text/javascript"),
}
RECONNECT: Final = b"retry: 2000\n\n"  # milliseconds after which a page connects again


class PortTakenError(Exception):
    """The port cannot be used; the message has a remedy."""


@asynccontextmanager
async def dashboard(read: Read, port: int) -> AsyncIterator[str]:
    """Serve the reports that `read` returns, until the context ends; yield the address to open, with its token.

    `port`: 0 picks a free one. Raise PortTakenError, and what `read` raises: it is called before the address is
    yielded, and from then on while a page is open.
    """
    feed = Feed(read)
    await feed.refresh()
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        message = f"cannot listen on {HOST}:{port}: {error.strerror}; choose another port, or leave --port out"
        raise PortTakenError(message) from None
    guard, connections = Guard(listening.getsockname()[1]), Connections(LIMITS)
    pages = Pages(feed, guard)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(connections, pages.handle), sock=listening, backlog=ACCEPTED)
    tasks = [asyncio.create_task(feed.run()), asyncio.create_task(connections.run())]
    try:
        yield guard.address
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks)
            await feed.end()
            await connections.drain(LAST)
        finally:
            connections.abort()


class Pages:
    """Answers requests."""

    def __init__(self, feed: Feed, guard: Guard) -> None:
        self.feed = feed
        self.guard = guard
        self.requests = 0
        self.by_path = {
            **dict.fromkeys(PARTS, self.part),
            "/report": self.report,
            "/events": self.events,
        }

    async def handle(self, connection: Connection, request: web.BaseRequest) -> web.StreamResponse:
        """Return the answer to a request, with the headers of every answer."""
        connection.enter(State.BUSY)
        try:
            answer = await self.answer(request)
            answer.headers.update(HEADERS)
            return answer
        finally:
            connection.enter(State.IDLE)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request that may be answered, in bounded number."""
        refusal = self.guard.refusal(request)
        if refusal is not None:
            return _refused(*refusal)
        if request.path == "/" and TOKEN in request.query and not self.guard.admits(request):
            return self.guard.enter(request)
        if not self.guard.admits(request):
            return _refused(HTTPStatus.FORBIDDEN, f"this browser has not opened the dashboard; {AGAIN}")
        handler = self.by_path.get(request.path)
        if handler is None:
            return _refused(HTTPStatus.NOT_FOUND, f"there is no such page; there are {', '.join(self.by_path)}")
        if request.path == "/events":
            return await handler(request)
        if self.requests >= MOST_REQUESTS:
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; close other pages of this")
        self.requests += 1
        try:
            return await handler(request)
        finally:
            self.requests -= 1

    async def part(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer with the page, its style sheet or its scripts."""
        made, content_type = PARTS[request.path]
        return web.Response(text=made(), content_type=content_type, charset="utf-8")

    async def report(self, _: web.BaseRequest) -> web.StreamResponse:
        """Answer with the newest report; 204 if there is none."""
        body = self.feed.body
        if body is None:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        headers = {hdrs.CONTENT_TYPE: "application/json", hdrs.CONTENT_ENCODING: "gzip"}
        return web.Response(body=body, headers=headers)

    async def events(self, request: web.BaseRequest) -> web.StreamResponse:
        """Tell a page of news until it is closed: of many news the last."""
        if self.feed.watchers >= MOST_STREAMS:
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_STREAMS} pages are open; close one")
        response = web.StreamResponse(headers={**HEADERS, hdrs.CONTENT_TYPE: "text/event-stream"})
        with self.feed.watching(), suppress(ConnectionError):
            await response.prepare(request)
            news, number, of = RECONNECT, -1, 0
            while not self.feed.ended:
                await response.write(news)
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        shown = await self.feed.after(number)
                except TimeoutError:
                    news = b": still there\n\n"
                    continue
                news = _event("report", str(shown.of)) if shown.of != of and self.feed.body is not None else b""
                news += _event(shown.event, shown.text)
                number, of = shown.number, shown.of
        return response


def _event(name: str, text: str) -> bytes:
    return f"event: {name}\ndata: {' '.join(text.split())}\n\n".encode()
