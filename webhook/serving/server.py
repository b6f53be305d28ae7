"""The routes of a listener, served by aiohttp.

Modules of `aiohttp.web` are imported one by one: the package brings applications and files too, 1.3 MiB a replica.
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

LARGE_ANSWER: Final = 64 * 1024  # bytes; patches are smaller, unless an object is made to need a large one
OPTIONS: Final[dict[str, Any]] = {
    "keepalive_timeout": KEEP_ALIVE,
    "access_log": None,
    "auto_decompress": False,  # a small body could become a large one
    "max_line_size": LONGEST_HEADER,
    "max_field_size": LONGEST_HEADER,
    "max_headers": HEADERS,
}

Handler = Callable[[bytes], Coroutine[Any, Any, HttpResponse]]  # of a request's body

log = structlog.get_logger()


class Site(msgspec.Struct):
    """The routes of one listener, by path: a method and its handler.

    `refused` is called with the path and the status of a request that no handler has seen.
    """

    bodies: Bodies
    routes: dict[str, tuple[str, Handler]]
    refused: Callable[[str, int], None] = lambda *_: None


class Server(HttpServer):
    """aiohttp's server, with the bounds of Connections and Bodies."""

    def __init__(self, site: Site, connections: Connections) -> None:
        super().__init__(cast("Callable[[BaseRequest], Awaitable[StreamResponse]]", self.answer))
        self.site = site
        self.bounds = connections

    def __call__(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self, self.bounds, lingering_time=self.bounds.limits.patience, **OPTIONS)

    async def answer(self, request: BaseRequest) -> HttpResponse:
        """Answer a request, whatever comes."""
        connection = cast("Connection", request.protocol)
        connection.enter(State.BODY)
        path = request.rel_url.raw_path
        try:
            answer = await self.handle(request, path, connection)
        except HTTPException as refusal:
            self.site.refused(path, refusal.status)
            answer = text(str(refusal.text), refusal.status, kept(refusal.headers))
        except (ConnectionError, RequestPayloadError):  # the client has gone, or what it sent is not HTTP
            self.site.refused(path, HTTPStatus.BAD_REQUEST)
            answer = text("this is not HTTP/1.1: the body is broken", HTTPStatus.BAD_REQUEST)
        except Exception:
            log.exception("internal error", path=path)
            answer = text("internal error; the server's log tells more", HTTPStatus.INTERNAL_SERVER_ERROR)
        self.finish(request, answer, connection)
        return answer

    async def handle(self, request: BaseRequest, path: str, connection: Connection) -> HttpResponse:
        """Read a request and have its handler answer; raise HTTPException where there is none."""
        method, handler = self.site.routes.get(path, (None, None))
        if handler is None:
            raise HTTPNotFound(text="nothing is here")
        if request.method != method and (request.method, method) != (hdrs.METH_HEAD, hdrs.METH_GET):
            raise HTTPMethodNotAllowed(request.method, [str(method)], text=f"only {method} is answered here")
        body = await self.site.bodies.read(request)
        try:
            connection.enter(State.BUSY)
            return await handler(body)
        finally:
            self.site.bodies.release(len(body))

    def finish(self, request: BaseRequest, answer: HttpResponse, connection: Connection) -> None:
        """Decide whether the connection ends with an answer: where a body was not read, and after a large answer."""
        size = len(answer.body)
        if size > LARGE_ANSWER:  # the connection would keep as much memory for as long as it is open
            self.bounds.hold(connection, size)
        if size > LARGE_ANSWER or not request.content.is_eof():
            answer.force_close()
        connection.enter(State.IDLE if answer.keep_alive is None else State.LEAVING)


def kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a refusal but those of its text, which the answer gets anew."""
    return {name: value for name, value in headers.items() if name not in {hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH}}
