"""Any bytes are answered as HTTP or the connection is closed, without an internal error, and others are served."""

import asyncio
import gzip
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
import uvloop
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.admission import review_of
from tests.listening import HEAD, Listening, listening
from tests.objects import job, pod
from tests.strategies import Strategy
from webhook.policy.parse import load_default
from webhook.serving.endpoints import Endpoints
from webhook.serving.limits import LIMITS
from webhook.tracking.policy_source import PolicySource

REVIEWS = [review_of(job()), review_of(pod()), review_of(job(), old=job())]
GOOD = HEAD % len(REVIEWS[0]) + REVIEWS[0]
STATUS = re.compile(rb"HTTP/\d\.\d (\d{3}) [ -~]*\r\n")
PIECES = st.sampled_from(
    [b"\r\n", b"\r\n\r\n", b"\0", b"\xff", b'"', b"{", b"}", b"]", b",", b"\\", b"1e9999", b"null"]
)
EDITS = st.tuples(st.integers(0, len(GOOD)), st.integers(0, 40), PIECES | st.binary(max_size=8))
HEADERS = st.sampled_from(
    [
        b"Content-Length: 5",
        b"Content-Length: -1",
        b"Content-Length: 99999999999999999999",
        b"Content-Length: 7340033",
        b"Content-Length: abc",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Content-Encoding: gzip",
        b"Content-Encoding: deflate",
        b"Content-Encoding: br",
        b"Content-Type: text/plain; charset=nonsense",
        b"Expect: 100-continue",
        b"Expect: the-unexpected",
        b"Connection: upgrade",
        b"Upgrade: h2c",
        b"Connection: close",
        b"Host: a:b:c",
        b"X: " + b"x" * 9000,
        b": no name",
        b"no colon",
        b" folded",
    ]
)
LENGTH = b"Content-Length: 4"
METHODS = st.sampled_from([b"POST", b"GET", b"PRI", b"post", b"CONNECT", b"OPTIONS"])
PATHS = st.sampled_from(
    [b"/mutate", b"/validate", b"/mutate?timeout=5s", b"/", b"*", b"http://x/mutate", b"/%00", b"//"]
)
VERSIONS = st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b""])


def edited(edits: list[tuple[int, int, bytes]]) -> bytes:
    """Return a valid request with some parts replaced."""
    data = GOOD
    for place, length, piece in edits:
        data = data[:place] + piece + data[place + length :]
    return data


def request_bytes(method: bytes, path: bytes, version: bytes, headers: list[bytes], body: bytes) -> bytes:
    return b"\r\n".join([b" ".join([method, path, version]), b"Host: x", *headers, b"", body])


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


BODIES: Strategy = st.one_of(
    st.sampled_from(REVIEWS),
    st.binary(max_size=60),
    st.lists(st.binary(min_size=1, max_size=20), max_size=4).map(chunked),
    st.sampled_from(REVIEWS).map(lambda review: chunked([review[:99], review[99:]])),
    st.sampled_from(REVIEWS).map(gzip.compress),
)
REQUESTS: Strategy = st.one_of(
    st.binary(max_size=300),
    st.lists(EDITS, min_size=1, max_size=4).map(edited),
    st.builds(request_bytes, METHODS, PATHS, VERSIONS, st.lists(HEADERS, max_size=4), BODIES),
)


@pytest.fixture(scope="module")
def here() -> Iterator[tuple[asyncio.AbstractEventLoop, Listening]]:
    """Yield a server and its event loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        stack = AsyncExitStack()
        admission = Endpoints(PolicySource(load_default()), None, limits=LIMITS).admission()
        server = runner.run(stack.enter_async_context(listening(admission)))
        yield runner.get_loop(), server
        runner.run(stack.aclose())


async def exchanged(server: Listening, data: bytes) -> bytes:
    """Send bytes, check that another client is served, close the connection; return all bytes of the answer."""
    client, other = await server.connect(), await server.connect()
    try:
        client.send(data)
        assert await other.status_of(REVIEWS[0]) == 200
        if not client.writer.transport.is_closing():
            client.writer.write_eof()
        return await client.reader.read()
    except ConnectionResetError:
        return b""
    finally:
        while server.clients:
            server.clients.pop().writer.transport.abort()


@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=REQUESTS)
@example(data=GOOD)
@example(data=GOOD * 3)
@example(data=edited([(5, 0, b"\r\n")]))  # each of these two left a stack trace in the log
@example(
    data=request_bytes(b"POST", b"/mutate", b"HTTP/1.1", [b"Content-Length: 5", b"Content-Encoding: gzip"], REVIEWS[0])
)
def test_any_bytes_are_answered_or_the_connection_is_closed(
    here: tuple[asyncio.AbstractEventLoop, Listening], caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    loop, server = here
    caplog.clear()
    answer = loop.run_until_complete(exchanged(server, data))
    statuses = {int(status) for status in STATUS.findall(answer)}
    assert statuses <= {100, 200, 400, 404, 405, 413, 415}, answer
    assert not answer or statuses, answer
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        pytest.param(b"POST /mutate HTTP/1.1", [LENGTH, b"Content-Encoding: gzip"], 415, id="a compressed body"),
        pytest.param(b"POST /mutate HTTP/1.1", [b"Content-Length: 99999999"], 413, id="a body that is too large"),
        pytest.param(
            b"POST /mutate HTTP/1.1", [b"Content-Length: 5", b"Expect: 100-continue"], 100, id="an expectation"
        ),
        pytest.param(b"POST http://x/mutate?a=b HTTP/1.0", [LENGTH], 400, id="a whole URL"),
        pytest.param(b"HEAD /mutate HTTP/1.1", [LENGTH], 405, id="another method"),
        pytest.param(
            b"POST /mutate HTTP/1.1", [LENGTH, b"Connection: upgrade", b"Upgrade: h2c"], 400, id="another protocol"
        ),
        pytest.param(b"GET /mutate/ HTTP/1.1", [LENGTH], 404, id="another path"),
        pytest.param(b"GET / HTTP/1.1", [LENGTH, b"X: " + b"x" * 4000], 404, id="a long header"),
        pytest.param(b"GET / HTTP/1.1", [LENGTH, b"X: " + b"x" * 5000], 400, id="a header that is too long"),
        pytest.param(b"GET / HTTP/1.1", [LENGTH, *[b"X: x"] * 40], 400, id="too many headers"),
        pytest.param(b"GET / HTTP/1.1 and more", [LENGTH], 400, id="no HTTP"),
        pytest.param(b"GET / HTTP/1.1", [], 400, id="a body without a length"),
    ],
)
def test_an_unusual_request_gets_the_right_status(
    here: tuple[asyncio.AbstractEventLoop, Listening], request_line: bytes, headers: list[bytes], status: int
) -> None:
    loop, server = here
    data = b"\r\n".join([request_line, b"Host: x", *headers, b"", b"body"])
    answer = loop.run_until_complete(exchanged(server, data))
    assert [int(found) for found in STATUS.findall(answer)][:1] == [status]


@pytest.mark.parametrize("around", [b"1\r\n{\r\n0\r\nX: ", b"1;"], ids=["a trailer", "an extension"])
def test_the_size_of_trailers_and_chunk_extensions_is_limited(
    here: tuple[asyncio.AbstractEventLoop, Listening], around: bytes
) -> None:
    loop, server = here
    data = request_bytes(b"POST", b"/mutate", b"HTTP/1.1", [b"Transfer-Encoding: chunked"], around + b"x" * 1_000_000)
    answer = loop.run_until_complete(exchanged(server, data))
    assert not answer or STATUS.findall(answer) == [b"400"]


@pytest.mark.parametrize("size", [1, 7, len(REVIEWS[0])])
def test_a_body_may_be_chunked(here: tuple[asyncio.AbstractEventLoop, Listening], size: int) -> None:
    loop, server = here
    body = chunked([REVIEWS[0][start : start + size] for start in range(0, len(REVIEWS[0]), size)])
    data = request_bytes(b"POST", b"/mutate", b"HTTP/1.1", [b"Transfer-Encoding: chunked"], body)
    assert loop.run_until_complete(exchanged(server, data)).startswith(b"HTTP/1.1 200 ")
