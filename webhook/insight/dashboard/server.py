"""The HTTP server of the dashboard, on this machine alone."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from webhook.insight.dashboard.feed import Feed, Read
from webhook.insight.dashboard.guard import AGAIN, HEADERS, TOKEN, Guard, refused
from webhook.insight.page.render import live_page, page_script, page_style
from webhook.serving.connections import Connection, Connections, State
from webhook.serving.limits import Limits

HOST: Final = "127.0.0.1"
MOST_STREAMS: Final = 16  # pages that are told of news
MOST_REQUESTS: Final = 32  # in progress, besides these
# More than are ever in progress; the rest waits for a request, and gives way to a new one. With those that are accepted
# at once, and what reads the cluster, that is below the 256 files that a process may open on macOS.
LIMITS: Final = Limits(connections=64, spare=16, client_timeout=30.0)
ACCEPTED: Final = 100
HEARTBEAT: Final = 15.0  # seconds without news after which a page is asked whether it is still there
LAST: Final = 1.0  # seconds for answers in progress when the dashboard ends
RECONNECT: Final = b"retry: 2000\n\n"  # milliseconds after which a page connects again


class CannotListenError(Exception):
    """The port cannot be used; the message has a remedy."""


@asynccontextmanager
async def dashboard(read: Read, port: int) -> AsyncIterator[str]:
    """Serve the reports that `read` returns, until the context ends; yield the address to open, with its token.

    `port`: 0 picks a free one. Raise CannotListenError, and what `read` raises: it is called before the address is
    yielded, and from then on while a page is open.
    """
    feed = Feed(read)
    await feed.refresh()
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        message = f"cannot listen on {HOST}:{port}: {error.strerror}; choose another port, or leave --port out"
        raise CannotListenError(message) from None
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
            "/": self.page,
            "/page.css": self.style,
            "/page.js": self.script,
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
            return refused(*refusal)
        if request.path == "/" and TOKEN in request.query and not self.guard.admits(request):
            return self.guard.enter(request)
        if not self.guard.admits(request):
            return refused(HTTPStatus.FORBIDDEN, f"this browser has not opened the dashboard; {AGAIN}")
        handler = self.by_path.get(request.path)
        if handler is None:
            return refused(HTTPStatus.NOT_FOUND, f"there is no such page; there are {', '.join(self.by_path)}")
        if request.path == "/events":
            return await handler(request)
        if self.requests >= MOST_REQUESTS:
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; close other pages of this")
        self.requests += 1
        try:
            return await handler(request)
        finally:
            self.requests -= 1

    async def page(self, _: web.BaseRequest) -> web.StreamResponse:
        """Answer with the page."""
        return web.Response(text=live_page(), content_type="text/html", charset="utf-8")

    async def style(self, _: web.BaseRequest) -> web.StreamResponse:
        """Answer with the style sheet."""
        return web.Response(text=page_style(), content_type="text/css", charset="utf-8")

    async def script(self, _: web.BaseRequest) -> web.StreamResponse:
        """Answer with the scripts."""
        return web.Response(text=page_script(), content_type="text/javascript", charset="utf-8")

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
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_STREAMS} pages are open; close one")
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
                news = event("report", str(shown.of)) if shown.of != of and self.feed.body is not None else b""
                news += event(shown.event, shown.text)
                number, of = shown.number, shown.of
        return response


def event(name: str, text: str) -> bytes:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {' '.join(text.split())}\n\n".encode()
