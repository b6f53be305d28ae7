"""An HTTP response: its bytes on the wire, read by Python's own HTTP client."""

import asyncio
import http.client
import io
from typing import Any

import pytest
from aiohttp import HttpVersion10, HttpVersion11

from webhook.serving.http_response import NAME, HttpResponse, text


class Writer:
    """Records what a response writes, in place of aiohttp's StreamWriter."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.drained = False

    async def write(self, data: bytes) -> None:
        self.writes.append(data)

    async def drain(self) -> None:
        self.drained = True


class Request:
    """The fields of a request that a response reads."""

    def __init__(self, method: str = "POST", version: Any = HttpVersion11, *, keep_alive: bool = True) -> None:
        self.method = method
        self.version = version
        self.keep_alive = keep_alive
        self.writer = Writer()


class Socket:
    """A connection from which a response is read."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, _: str) -> io.BytesIO:
        return io.BytesIO(self.data)


def sent(response: HttpResponse, request: Request | None = None) -> bytes:
    request = request or Request()

    async def send() -> None:
        await response.prepare(request)  # type: ignore[arg-type]
        await response.write_eof()

    asyncio.run(send())
    assert request.writer.drained
    (data,) = request.writer.writes  # in one piece: two would be two TLS records and two system calls
    return data


def read(data: bytes, method: str = "POST") -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(Socket(data), method=method)  # type: ignore[arg-type]
    response.begin()
    return response


def test_an_http_client_reads_back_status_headers_and_body() -> None:
    response = read(sent(HttpResponse(b'{"a": 1}')))
    assert (response.status, response.reason, response.read()) == (200, "OK", b'{"a": 1}')
    assert dict(response.getheaders()).keys() == {"Server", "Content-Type", "Date", "Content-Length"}
    assert (response.getheader("Server"), response.getheader("Content-Type")) == (NAME, "application/json")


def test_a_text_ends_with_a_newline_and_has_the_given_headers() -> None:
    response = read(sent(text("wait", 429, {"Retry-After": "1"})))
    assert (response.status, response.reason, response.read()) == (429, "Too Many Requests", b"wait\n")
    assert response.getheader("Retry-After") == "1"
    assert response.getheader("Content-Type") == "text/plain; charset=utf-8"


def test_a_response_to_head_has_the_length_and_no_body() -> None:
    data = sent(text("ok"), Request("HEAD"))
    assert data.endswith(b"\r\n\r\n")
    assert read(data, "HEAD").getheader("Content-Length") == "3"


@pytest.mark.parametrize(
    ("request_", "header"),
    [
        (Request(), None),
        (Request(keep_alive=False), "close"),
        (Request(version=HttpVersion10), "keep-alive"),
        (Request(version=HttpVersion10, keep_alive=False), "close"),
    ],
)
def test_the_connection_stays_open_if_the_client_asks_for_it(request_: Request, header: str | None) -> None:
    response = HttpResponse(b"")
    assert read(sent(response, request_)).getheader("Connection") == header
    assert response.keep_alive is request_.keep_alive


def test_a_forced_close_is_announced_whatever_the_client_asks_for() -> None:
    response = HttpResponse(b"")
    response.force_close()
    assert read(sent(response)).getheader("Connection") == "close"
    assert response.keep_alive is False
