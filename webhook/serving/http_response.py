"""An HTTP response, sent in one piece.

aiohttp's Response serves every purpose: to fill in, check and send its headers takes 25 of the 54 µs of CPU that HTTP
takes for a request. With it, creating one pod at a time took 1.15 to 1.24 times as long as with a Go webhook that
returns the same patch (`python -m tests.bench.speed api`).
"""

import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import cache, lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from aiohttp import HttpVersion, HttpVersion11, hdrs
from aiohttp.web_request import BaseRequest

NAME: Final = "retry-policy-webhook"  # aiohttp would tell its version and Python's
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
NONE: Final[Mapping[str, str]] = MappingProxyType({})


class HttpResponse:
    """A response with a body of bytes, which aiohttp's RequestHandler sends in place of its own Response.

    `keep_alive`: whether the connection stays open; None until the request is known, unless `force_close` was called.
    None counts as open. `version`: that of the request.
    """

    __slots__ = ("body", "content_type", "headers", "keep_alive", "request", "status", "version")

    def __init__(
        self, body: bytes, status: int = HTTPStatus.OK, content_type: str = JSON, headers: Mapping[str, str] = NONE
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = headers
        self.keep_alive: bool | None = None
        self.version: HttpVersion = HttpVersion11

    def force_close(self) -> None:
        """Close the connection after this response."""
        self.keep_alive = False

    async def prepare(self, request: BaseRequest) -> None:
        """Set the request that this responds to."""
        self.request = request
        self.version = request.version
        if self.keep_alive is None:
            self.keep_alive = request.keep_alive

    async def write_eof(self) -> None:
        """Send head and body; raise ConnectionError if the client has closed the connection."""
        body = b"" if self.request.method == hdrs.METH_HEAD else self.body
        await self.request.writer.write(self.head() + body)
        await self.request.writer.drain()

    def head(self) -> bytes:
        """Return the status line and all headers."""
        head = start(self.status, self.content_type) % (date(int(time.time())), len(self.body))
        for name, value in self.headers.items():
            head += f"{name}: {value}\r\n".encode()
        if self.keep_alive is False:
            return head + b"Connection: close\r\n\r\n"
        if self.version < HttpVersion11:
            return head + b"Connection: keep-alive\r\n\r\n"
        return head + b"\r\n"


def text(message: str, status: int = HTTPStatus.OK, headers: Mapping[str, str] = NONE) -> HttpResponse:
    """Return a response for people: one line or more."""
    return HttpResponse(f"{message}\n".encode(), status, TEXT, headers)


@cache
def start(status: int, content_type: str) -> bytes:
    """Return the head up to its Date and Content-Length, which are left as placeholders."""
    lines = (f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Server: {NAME}", f"Content-Type: {content_type}")
    return "".join(f"{line}\r\n" for line in lines).encode() + b"Date: %b\r\nContent-Length: %d\r\n"


@lru_cache(maxsize=1)
def date(now: int) -> bytes:
    """Return a time, in seconds since 1970, as HTTP writes it."""
    return formatdate(now, usegmt=True).encode()
