"""The routes of a listener, served by aiohttp.

Modules of `aiohttp.web` are imported one by one: the whole package takes 1.3 MiB more in each replica.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec
import structlog
from aiohttp import hdrs
from aiohttp.web_exceptions import HTTPException, HTTPMethodNotAllowed, HTTPNotFound
from aiohttp.web_protocol import RequestPayloadError
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from aiohttp.web_server import Server as HttpServer

from webhook.serving.bodies import Bodies
from webhook.serving.connections import KEEP_ALIVE, Connection, Connections, State
from webhook.serving.http_response import HttpResponse, text
from webhook.serving.limits import HEADERS, LONGEST_HEADER

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


class Server(HttpServer):
    """aiohttp's server, with the bounds of Connections and Bodies."""

    def __init__(self, routes: Routes, connections: Connections) -> None:
        super().__init__(cast("Callable[[BaseRequest], Awaitable[StreamResponse]]", self.answer))
        self.routes = routes
        self.bounds = connections

    def __call__(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self, self.bounds, lingering_time=self.bounds.limits.client_timeout, **OPTIONS)

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
        except Exception:
            log.exception("internal error", path=path)
            answer = text("internal error; read the server's log", HTTPStatus.INTERNAL_SERVER_ERROR)
        self.finish(request, answer, connection)
        return answer

    async def handle(self, request: BaseRequest, path: str, connection: Connection) -> HttpResponse:
        """Return the answer of a request's handler; raise HTTPException if it has none, and as `Bodies.read` does."""
        method, handler = self.routes.by_path.get(path, (None, None))
        if handler is None:
            raise HTTPNotFound(text=f"no such path; use {', '.join(self.routes.by_path)}")
        if request.method != method and (request.method, method) != (hdrs.METH_HEAD, hdrs.METH_GET):
            raise HTTPMethodNotAllowed(request.method, [str(method)], text=f"the method is not allowed; use {method}")
        body = await self.routes.bodies.read(request)
        try:
            connection.enter(State.BUSY)
            return await handler(body)
        finally:
            self.routes.bodies.release(len(body))

    def finish(self, request: BaseRequest, answer: HttpResponse, connection: Connection) -> None:
        """Close the connection after this answer if the request's body was not read, or if the answer is large."""
        size = len(answer.body)
        if size > LARGE_ANSWER:  # an open connection would keep as much memory
            self.bounds.reserve_answer(connection, size)
        if size > LARGE_ANSWER or not request.content.is_eof():
            answer.force_close()
        connection.enter(State.IDLE if answer.keep_alive is None else State.LEAVING)


def without_text_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without those of the text, which the answer sets itself."""
    return {name: value for name, value in headers.items() if name not in {hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH}}
