"""The HTTP server of the dashboard, on this machine alone."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from webhook.dashboard.feed import Feed, Read
from webhook.dashboard.guard import AGAIN, HEADERS, TOKEN, Guard, refused
from webhook.page.render import live_page, page_script, page_style

HOST: Final = "127.0.0.1"
MOST_STREAMS: Final = 16  # pages that are told of news
MOST_REQUESTS: Final = 32  # in progress, besides these
LARGEST_HEADER: Final = 8190  # bytes
SLOW: Final = 30.0  # seconds for a client to take an answer, or an event
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
    guard = Guard(listening.getsockname()[1])
    runner = web.AppRunner(
        Pages(feed, guard).app(),
        access_log=None,
        shutdown_timeout=LAST,
        max_line_size=LARGEST_HEADER,
        max_field_size=LARGEST_HEADER,
    )
    await runner.setup()
    reading = asyncio.create_task(feed.run())
    try:
        await web.SockSite(runner, listening).start()
        yield guard.address
    finally:
        reading.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await reading
        finally:
            await runner.cleanup()


class Pages:
    """Answers requests."""

    def __init__(self, feed: Feed, guard: Guard) -> None:
        self.feed = feed
        self.guard = guard
        self.requests = 0

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(middlewares=[self.guarded])
        app.on_response_prepare.append(with_headers)
        for path, handler in (
            ("/", self.page),
            ("/page.css", self.style),
            ("/page.js", self.script),
            ("/report", self.report),
            ("/events", self.events),
        ):
            app.router.add_get(path, handler, allow_head=False)
        return app

    @web.middleware
    async def guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request that may be answered, in bounded time and number."""
        refusal = self.guard.refusal(request)
        if refusal is not None:
            return refused(*refusal)
        if request.path == "/" and TOKEN in request.query and not self.guard.admits(request):
            return self.guard.enter(request)
        if not self.guard.admits(request):
            return refused(HTTPStatus.FORBIDDEN, f"this browser has not opened the dashboard; {AGAIN}")
        if request.path == "/events":
            return await handler(request)
        if self.requests >= MOST_REQUESTS:
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; close other pages of this")
        self.requests += 1
        try:
            return await handler(request)
        except web.HTTPException as error:
            return refused(error.status, error.reason)
        finally:
            self.requests -= 1

    async def page(self, _: web.Request) -> web.Response:
        """Answer with the page."""
        return web.Response(text=live_page(), content_type="text/html", charset="utf-8")

    async def style(self, _: web.Request) -> web.Response:
        """Answer with the style sheet."""
        return web.Response(text=page_style(), content_type="text/css", charset="utf-8")

    async def script(self, _: web.Request) -> web.Response:
        """Answer with the scripts."""
        return web.Response(text=page_script(), content_type="text/javascript", charset="utf-8")

    async def report(self, request: web.Request) -> web.StreamResponse:
        """Answer with the newest report; 204 if there is none. A client that takes it too slowly is cut off."""
        body = self.feed.body
        if body is None:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/json", hdrs.CONTENT_ENCODING: "gzip"})
        response.content_length = len(body)
        try:
            async with asyncio.timeout(SLOW):
                await response.prepare(request)
                await response.write(body)
                await response.write_eof()
        except TimeoutError:
            cut(request)
        return response

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Tell a page of news until it is closed: of many news the last. One that takes them too slowly is cut off."""
        if self.feed.watchers >= MOST_STREAMS:
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_STREAMS} pages are open; close one")
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream"})
        with self.feed.watching(), suppress(ConnectionError, TimeoutError):
            await response.prepare(request)
            news, number, of = RECONNECT, -1, 0
            while True:
                try:
                    async with asyncio.timeout(SLOW):
                        await response.write(news)
                except TimeoutError:
                    cut(request)
                    break
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


def cut(request: web.Request) -> None:
    """Close the connection of a client, with what it has not taken."""
    if request.transport is not None:
        request.transport.abort()


async def with_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Add what browsers are told to each response."""
    response.headers.update(HEADERS)
