"""The routes of a listener, and the answers to its requests."""

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from aiohttp import hdrs, web

from webhook.serving.bodies import Bodies
from webhook.serving.connections import KEEP_ALIVE, Connection, Connections, State
from webhook.serving.limits import HEADERS, LONGEST_HEADER

NAME: Final = "retry-policy-webhook"  # aiohttp would tell its version and Python's
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
OF_TEXT: Final = (hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH)  # headers that the answer sets itself
LARGE_ANSWER: Final = 64 * 1024  # bytes; only an object that was made for it has a larger patch
OPTIONS: Final[dict[str, Any]] = {
    "keepalive_timeout": KEEP_ALIVE,
    "auto_decompress": False,  # a small body could expand to a large one
    "max_line_size": LONGEST_HEADER,
    "max_field_size": LONGEST_HEADER,
    "max_headers": HEADERS,
}


class HttpResponse(msgspec.Struct):
    """The answer of a handler; with `closes`, the connection is closed after it."""

    body: bytes
    status: int = HTTPStatus.OK
    content_type: str = JSON
    headers: Mapping[str, str] = {}
    closes: bool = False


class Answer(web.Response):
    """An answer after whose last byte its connection is idle: until then a drain leaves the connection open."""

    def __init__(self, connection: Connection, answer: HttpResponse) -> None:
        headers = {hdrs.SERVER: NAME, hdrs.CONTENT_TYPE: answer.content_type, **answer.headers}
        super().__init__(body=answer.body, status=answer.status, headers=headers)
        self.connection = connection

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the answer."""
        await super().write_eof(data)
        self.connection.enter(State.IDLE if self.keep_alive else State.LEAVING)


Handler = Callable[[bytes], Coroutine[Any, Any, HttpResponse]]  # takes a request's body

log = structlog.get_logger()


class Routes(msgspec.Struct):
    """The routes of one listener: a method and its handler, by path.

    `on_refused` is called with the path and the status of each request that is answered without a handler.
    """

    bodies: Bodies
    by_path: dict[str, tuple[str, Handler]]
    on_refused: Callable[[str, int], None] = lambda *_: None


class Server:
    """Makes the connections of a listener, within the bounds of Connections and Bodies, and answers their requests."""

    def __init__(self, routes: Routes, connections: Connections) -> None:
        self.routes = routes
        self.connections = connections

    def __call__(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(
            self.connections, self.answer, lingering_time=self.connections.limits.client_timeout, **OPTIONS
        )

    async def answer(self, connection: Connection, request: web.BaseRequest) -> web.Response:
        """Return the answer to a request; an exception becomes an error status."""
        connection.enter(State.BODY)
        path = request.rel_url.raw_path
        try:
            answer = await self.handle(request, path, connection)
        except web.HTTPException as refusal:
            self.routes.on_refused(path, refusal.status)
            headers = {name: value for name, value in refusal.headers.items() if name not in OF_TEXT}
            answer = text(str(refusal.text), refusal.status, headers)
        except (ConnectionError, web.RequestPayloadError):  # the client has gone, or the body is not HTTP
            self.routes.on_refused(path, HTTPStatus.BAD_REQUEST)
            answer = text("the body is not valid HTTP/1.1; send it as its headers announce", HTTPStatus.BAD_REQUEST)
        return self.finish(answer, connection, is_read=request.content.is_eof())

    async def handle(self, request: web.BaseRequest, path: str, connection: Connection) -> HttpResponse:
        """Return the answer of a request's handler; raise HTTPException if it has none, and as `Bodies.read` does."""
        method, handler = self.routes.by_path.get(path, (None, None))
        if handler is None:
            raise web.HTTPNotFound(text=f"no such path; use {', '.join(self.routes.by_path)}")
        if request.method != method and (request.method, method) != (hdrs.METH_HEAD, hdrs.METH_GET):
            raise web.HTTPMethodNotAllowed(
                request.method, [str(method)], text=f"the method is not allowed; use {method}"
            )
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

    def finish(self, answer: HttpResponse, connection: Connection, *, is_read: bool) -> web.Response:
        """Return an answer as aiohttp sends it; the last of its connection if it is large, or the body was not read."""
        size = len(answer.body)
        if size > LARGE_ANSWER:  # an open connection would keep as much memory
            self.connections.reserve_answer(connection, size)
        response = Answer(connection, answer)
        if answer.closes or size > LARGE_ANSWER or not is_read:
            response.force_close()
            connection.enter(State.LEAVING)
        return response


def text(message: str, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a response for people: one line or more."""
    return HttpResponse(f"{message}\n".encode(), status, TEXT, headers or {})
