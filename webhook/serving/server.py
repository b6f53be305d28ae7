"""The routes of a listener, served by aiohttp.

Modules of `aiohttp.web` are imported one by one: the whole package takes 1.3 MiB more in each replica.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec
import structlog
from aiohttp import HttpVersion11, hdrs
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_exceptions import HTTPException, HTTPMethodNotAllowed, HTTPNotFound
from aiohttp.web_protocol import RequestPayloadError
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from aiohttp.web_server import Server as HttpServer

from webhook.kube.tasks import rest_of
from webhook.serving.bodies import Bodies
from webhook.serving.connections import KEEP_ALIVE, Connection, Connections, State
from webhook.serving.http_response import HttpResponse, text
from webhook.serving.limits import HEADERS, LONGEST_HEADER

SMALL_BODY: Final = 16 * 1024  # bytes; most reviews of pods and Jobs have 2 to 8 KiB
LARGE_ANSWER: Final = 64 * 1024  # bytes; only an object that was made for it has a larger patch
OPTIONS: Final[dict[str, Any]] = {
    "keepalive_timeout": KEEP_ALIVE,
    "access_log": None,
    "auto_decompress": False,  # a small body could expand to a large one
    "max_line_size": LONGEST_HEADER,
    "max_field_size": LONGEST_HEADER,
    "max_headers": HEADERS,
}

Handler = Callable[[bytes], Coroutine[Any, Any, HttpResponse]]  # takes a request's body

log = structlog.get_logger()


class Routes(msgspec.Struct):
    """The routes of one listener: a method and its handler, by path.

    `on_refused` is called with the path and the status of each request that is answered without a handler.
    """

    bodies: Bodies
    by_path: dict[str, tuple[str, Handler]]
    on_refused: Callable[[str, int], None] = lambda *_: None


class AnsweringConnection(Connection):
    """A connection that answers a small request when all of it has arrived, and leaves the others to aiohttp.

    An API server sends head and body separately. For the head, aiohttp wakes a task, which starts another one for the
    request, which waits for the body: with that, creating one pod at a time took 1.08 times as long as with a Go
    webhook that returns the same patch (`python -m tests.bench.speed api`).
    """

    __slots__ = ("server", "task")

    def __init__(self, server: "Server", connections: Connections, **options: Any) -> None:
        super().__init__(server, connections, **options)
        self.server = server
        self.task: asyncio.Task[None] | None = None

    def data_received(self, data: bytes) -> None:
        """Answer a small request when its last byte has arrived."""
        waiter, self._waiter = self._waiter, None  # else aiohttp would wake its task
        super().data_received(data)
        self._waiter = waiter
        if waiter is None or waiter.done() or self.state is State.BUSY or not self._messages:
            return
        message, payload = self._messages[0]
        if len(self._messages) > 1 or not isinstance(message, RawRequestMessage):
            self.leave_to_aiohttp()
            return
        handler = self.handler_of(message)
        if handler is None:
            self.leave_to_aiohttp()
        elif payload.is_eof():
            self._messages.clear()
            self.answer(message.url.raw_path, handler, payload.read_nowait())

    def handler_of(self, message: RawRequestMessage) -> Handler | None:
        """Return the handler of a small request with this head; None if it is aiohttp's."""
        if message.should_close or message.upgrade or message.chunked or message.version != HttpVersion11:
            return None
        if self.write_paused_at is not None:  # aiohttp waits until the client has read the answers before
            return None
        length = int(message.headers.get(hdrs.CONTENT_LENGTH, 0))
        return self.server.handler_of(message) if length <= SMALL_BODY else None

    def answer(self, path: str, handler: Handler, body: bytes) -> None:
        """Answer a request, at once unless its handler has to wait."""
        if self._parser is not None:
            self._parser.message_consumed()
        self._next_keepalive_close_time = self.now() + KEEP_ALIVE
        work = self.server.answer_small(path, handler, body, self)
        try:
            awaited = work.send(None)
        except StopIteration as done:
            self.send(done.value)
        else:
            self.task = self.connections.loop.create_task(self.send_result(work, awaited))

    async def send_result(self, work: Coroutine[Any, Any, HttpResponse], awaited: Any) -> None:
        """Send the answer of a handler that waits; `awaited` is what it waits for."""
        answer = await rest_of(work, awaited)
        self.task = None
        self.send(answer)

    def send(self, answer: HttpResponse) -> None:
        """Send an answer, and let aiohttp handle the requests that have arrived meanwhile."""
        if self.wire.is_closing():
            return
        self.wire.write(answer.head() + answer.body)
        if answer.keep_alive is False:
            self.force_close()
        else:
            self.leave_to_aiohttp()


class Server(HttpServer):
    """aiohttp's server, with the bounds of Connections and Bodies."""

    def __init__(self, routes: Routes, connections: Connections) -> None:
        super().__init__(cast("Callable[[BaseRequest], Awaitable[StreamResponse]]", self.answer))
        self.routes = routes
        self.bounds = connections

    def __call__(self) -> AnsweringConnection:
        """Return the protocol of a new connection."""
        return AnsweringConnection(self, self.bounds, lingering_time=self.bounds.limits.client_timeout, **OPTIONS)

    async def answer(self, request: BaseRequest) -> HttpResponse:
        """Return the answer to a request; an exception becomes an error status."""
        connection = cast("Connection", request.protocol)
        connection.enter(State.BODY)
        path = request.rel_url.raw_path
        try:
            answer = await self.handle(request, path, connection)
        except HTTPException as refusal:
            self.routes.on_refused(path, refusal.status)
            answer = text(str(refusal.text), refusal.status, without_text_headers(refusal.headers))
        except (ConnectionError, RequestPayloadError):  # the client has closed the connection, or the body is not HTTP
            self.routes.on_refused(path, HTTPStatus.BAD_REQUEST)
            answer = text("the body is not valid HTTP/1.1; send it as its headers announce", HTTPStatus.BAD_REQUEST)
        self.finish(answer, connection, is_read=request.content.is_eof())
        return answer

    async def handle(self, request: BaseRequest, path: str, connection: Connection) -> HttpResponse:
        """Return the answer of a request's handler; raise HTTPException if it has none, and as `Bodies.read` does."""
        method, handler = self.routes.by_path.get(path, (None, None))
        if handler is None:
            raise HTTPNotFound(text=f"no such path; use {', '.join(self.routes.by_path)}")
        if request.method != method and (request.method, method) != (hdrs.METH_HEAD, hdrs.METH_GET):
            raise HTTPMethodNotAllowed(request.method, [str(method)], text=f"the method is not allowed; use {method}")
        return await self.process(path, handler, await self.routes.bodies.read(request), connection)

    async def process(self, path: str, handler: Handler, body: bytes, connection: Connection) -> HttpResponse:
        """Return a handler's answer to a body that counts as held; an exception becomes status 500."""
        try:
            connection.enter(State.BUSY)
            return await handler(body)
        except Exception:
            log.exception("internal error", path=path)
            return text("internal error; read the server's log", HTTPStatus.INTERNAL_SERVER_ERROR)
        finally:
            self.routes.bodies.release(len(body))

    def handler_of(self, message: RawRequestMessage) -> Handler | None:
        """Return the handler of a POST request whose body is sent at once and as it is; None for all others."""
        headers = message.headers
        if message.method != hdrs.METH_POST or hdrs.CONTENT_ENCODING in headers or hdrs.EXPECT in headers:
            return None
        method, handler = self.routes.by_path.get(message.url.raw_path, (None, None))
        return handler if method == message.method else None

    async def answer_small(self, path: str, handler: Handler, body: bytes, connection: Connection) -> HttpResponse:
        """Return the answer to a request that has arrived with its body."""
        self.routes.bodies.held += len(body)
        answer = await self.process(path, handler, body, connection)
        self.finish(answer, connection, is_read=True)
        return answer

    def finish(self, answer: HttpResponse, connection: Connection, *, is_read: bool) -> None:
        """Close the connection after this answer if the request's body was not read, or if the answer is large."""
        size = len(answer.body)
        if size > LARGE_ANSWER:  # an open connection would keep as much memory
            self.bounds.reserve_answer(connection, size)
        if size > LARGE_ANSWER or not is_read:
            answer.force_close()
        connection.enter(State.IDLE if answer.keep_alive is None else State.LEAVING)


def without_text_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without those of the text, which the answer sets itself."""
    return {name: value for name, value in headers.items() if name not in {hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH}}
