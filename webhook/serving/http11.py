"""One connection: HTTP/1.1 as API servers, probes and Prometheus speak it, one request at a time.

llhttp (Node's parser, by way of httptools) reads; what is left for us is the way of a request, and what a client may
make us keep. A client that sends its next request before it has its answer, as HTTP allows and nobody does, is answered
at most once more and told that the connection ends: it comes again over another one.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
import msgspec
import structlog

from webhook.kube import eager
from webhook.serving.intake import Intake
from webhook.serving.limits import LARGEST_BODY, LARGEST_HEAD

if TYPE_CHECKING:
    from webhook.serving.connections import Connections

LARGE_ANSWER: Final = 64 * 1024  # bytes; patches are smaller, unless somebody means them not to be
TEXT: Final = "text/plain; charset=utf-8"
# Where a connection stands.
HEAD: Final = "HEAD"  # nothing has come, or not all of a head
BODY: Final = "BODY"
ANSWERING: Final = "ANSWERING"
REFUSED: Final = "REFUSED"  # the rest of a body that has had its answer is still to come
LEAVING: Final = "LEAVING"  # has had its last answer; what still comes is not looked at
READ: Final = {b"content-length", b"content-encoding", b"expect"}  # headers that are looked at

log = structlog.get_logger()


class Answer(msgspec.Struct):
    """What is answered; `close`: whether the connection ends with it."""

    body: bytes
    status: int = 200
    content_type: str = TEXT
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    close: bool = False


Handler = Callable[[bytes], Coroutine[Any, Any, Answer]]  # of a body


class Site(msgspec.Struct):
    """What is there to be asked: by path, a method and what answers it, and how much of it at a time.

    `refused` is told the path and the status of what no handler saw.
    """

    intake: Intake
    routes: dict[bytes, tuple[bytes, Handler]]
    refused: Callable[[bytes, int], None] = lambda *_: None


class Connection(asyncio.Protocol):
    """A client's connection.

    `since`: when it was opened, or its present request began. `owes`: since when the client has been waited for, to
    send the rest of a head, to take its answer or to leave; None where it is not. `held`: bytes of the body that are
    here, `unread`: what came since the last of them. `answered`: whether what has come last held a whole request.
    `grown`, `grown_at`: what it had grown to when it last grew as fast as it should.
    """

    __slots__ = (
        *("answered", "body", "connections", "grown", "grown_at", "held", "intake", "last", "owes", "parser"),
        *("received", "since", "site", "state", "transport", "unread", "untaken", "url", "without_body"),
    )

    def __init__(self, site: Site, connections: "Connections") -> None:
        self.site = site
        self.intake = site.intake
        self.connections = connections
        self.state: str = HEAD
        self.since = 0.0
        self.owes: float | None = None
        self.untaken = self.answered = False
        self.held = self.grown = 0
        self.grown_at = 0.0
        self.forget_request()

    def forget_request(self) -> None:
        """Be as before a request."""
        self.url = b""
        self.body: bytes | bytearray = b""
        self.received = self.unread = 0
        self.last = self.without_body = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, TLS being agreed upon."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's have its methods, but do not derive from it
        self.parser = httptools.HttpRequestParser(self)
        self.connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        """End."""
        self.state = LEAVING
        self.connections.forget(self)
        del self.parser  # which refers to this: nothing is left for the garbage collector

    def pause_writing(self) -> None:
        """Note that the client does not take what it asked for; until it does it is asked for nothing more."""
        self.untaken = True
        self.owes = self.connections.now()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Note that it does."""
        self.untaken = False
        if self.state is LEAVING:
            self.owes = self.connections.now()
            self.transport.close()
        else:
            self.owes = None
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Take in what has come."""
        if self.state is ANSWERING or self.state is LEAVING:
            self.last = True
            return
        self.received += len(data)
        self.unread += len(data)
        self.answered = False
        self.parse(data)
        if self.state is BODY:
            # What is around a body's chunks and behind the last one costs memory too.
            if self.received > LARGEST_HEAD + LARGEST_BODY or self.unread > LARGEST_HEAD:
                self.refuse(413, f"the body, or what stands around it, is larger than {LARGEST_BODY} bytes")
            else:
                self.intake.arrive(self)
        elif self.state is HEAD and self.received > LARGEST_HEAD:
            self.refuse(431, f"the head is larger than {LARGEST_HEAD} bytes")

    def parse(self, data: bytes) -> None:
        """Read on; the parser calls what stands below."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # what comes now is said in another protocol, which is not spoken here; the connection ends
        except httptools.HttpParserCallbackError:
            raise  # a bug of ours
        except httptools.HttpParserError as error:
            self.last = True
            if self.state in {HEAD, BODY}:
                self.refuse(400, f"this is no HTTP/1.1: {error}")
            elif self.state is REFUSED:
                self.transport.close()

    def on_message_begin(self) -> None:
        """Begin to read a request; where one is being answered, only note that there is another."""
        if self.state is HEAD:
            self.url = b""
            self.last = self.answered or self.untaken
            if not self.untaken:
                self.owes = self.connections.now()
        else:
            self.last = True

    def on_url(self, url: bytes) -> None:
        """Note a part of what is asked for."""
        if self.state is HEAD:
            self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Look at a header, name and value."""
        name = name.lower()
        if name not in READ or self.state is not HEAD:
            return
        if name == b"content-length" and int(value) > LARGEST_BODY:
            self.refuse(413, f"the body is larger than {LARGEST_BODY} bytes")
        elif name == b"content-encoding" and value.lower() != b"identity":
            self.refuse(415, "the body is compressed; send it as it is")
        elif name == b"expect" and value.lower() == b"100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_headers_complete(self) -> None:
        """Begin with the body."""
        if self.state is not HEAD:
            return
        if self.parser.should_upgrade():
            self.last = True
            if self.parser.get_method() not in {b"GET", b"HEAD"}:
                self.refuse(400, "only HTTP/1.1 is spoken here; leave out Upgrade")
                return
        self.state = BODY
        if not self.untaken:
            self.owes = None
        self.connections.begin(self)

    def on_body(self, chunk: bytes) -> None:
        """Keep a part of the body."""
        if self.state is not BODY:
            return
        if not self.body:
            self.body = chunk
        elif isinstance(self.body, bytes):
            self.body = bytearray(self.body + chunk)
        else:
            self.body += chunk
        self.unread = 0
        self.intake.hold(self, len(chunk))
        if self.held > LARGEST_BODY:
            self.refuse(413, f"the body is larger than {LARGEST_BODY} bytes")

    def on_message_complete(self) -> None:
        """Have the request answered."""
        if self.state is REFUSED:
            if self.parser.should_keep_alive():
                self.rest()
            else:
                self.transport.close()
        if self.state is not BODY:
            return
        self.state = ANSWERING
        body, self.body = bytes(self.body), b""
        intake = self.intake
        if intake.arriving:
            intake.arriving.pop(self, None)
        # What the parser knows of a request it forgets with the end of it.
        asked = self.parser.get_method()
        self.last = self.last or not self.parser.should_keep_alive()
        self.without_body = asked == b"HEAD"
        method, handler = self.site.routes.get(self.path, (b"", None))
        if handler is None:
            self.refuse(404, "nothing is here")
        elif asked != method and (asked, method) != (b"HEAD", b"GET"):
            self.refuse(405, f"only {method.decode()} is answered here", Allow=method.decode())
        else:
            self.begin(self.work(handler, body))

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Answer a request; where that has to wait, the connection is busy until it is done."""
        task = eager.run(work, self.connections.loop)
        if task is None:
            return
        self.connections.busy[self] = task

        def done(_: asyncio.Task[None]) -> None:
            if self.connections.busy.get(self) is task:
                del self.connections.busy[self]
            if task.cancelled():
                self.intake.release(self)
                work.close()

        task.add_done_callback(done)

    @property
    def path(self) -> bytes:
        """What is asked for, without a query."""
        path = self.url.partition(b"?")[0]
        if path.startswith(b"/"):
            return path
        try:
            return httptools.parse_url(self.url).path or b"/"
        except httptools.HttpParserInvalidURLError:
            return path

    async def work(self, handler: Handler, body: bytes) -> None:
        """Answer a request, the body of which is here."""
        try:
            answer = await handler(body)
        except Exception:
            log.exception("internal error", path=self.path.decode(errors="replace"))
            answer = Answer(b"internal error; the server's log tells more\n", status=500)
        self.answer(answer)

    def refuse_for_now(self, why: str) -> None:
        """Say that there is no room: the API server tries again inside the call's timeout."""
        self.refuse(429, why, **{"Retry-After": "1"})

    def refuse(self, status: int, why: str, **headers: str) -> None:
        """Answer what no handler is to see; where not all of it has come the connection ends with a lasting refusal."""
        self.site.refused(self.path, status)
        close = self.state is not ANSWERING and status != HTTPStatus.TOO_MANY_REQUESTS
        self.answer(Answer(f"{why}\n".encode(), status, headers=headers, close=close))

    def answer(self, answer: Answer) -> None:
        """Write an answer, of which the client may still be sending the question."""
        is_whole = self.state is ANSWERING
        self.intake.release(self)
        if self.transport.is_closing():
            return
        size = len(answer.body)
        last = self.last or answer.close or size > LARGE_ANSWER
        head = start_of(answer.status, answer.content_type) % (date_at(int(time.time())), size)
        if answer.headers:
            head += "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items()).encode()
        if last:
            head += b"Connection: close\r\n"
        body = b"" if self.without_body else answer.body
        self.state = LEAVING if last else REFUSED
        self.answered = True
        self.transport.write(b"".join((head, b"\r\n", body)))
        if size > LARGE_ANSWER:  # its connection would keep as much memory for as long as it is open
            self.connections.hold(self, size)
        if is_whole and not last:
            self.rest()
            return
        self.owes = self.connections.now()
        if not is_whole:
            self.connections.leave(self)  # who is still sending reads the answer only if all is taken
        elif not self.untaken:
            self.transport.close()

    def rest(self) -> None:
        """Be idle."""
        self.state = HEAD
        self.owes = self.owes if self.untaken else None
        self.forget_request()
        self.connections.rest(self)


@lru_cache(maxsize=100)
def start_of(status: int, content_type: str) -> bytes:
    """Return the head of an answer up to what differs; date and length are to be filled in."""
    line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n"
    return line.encode() + b"Date: %b\r\nContent-Length: %d\r\n"


@lru_cache(maxsize=1)
def date_at(now: int) -> bytes:
    """Spell a Unix time as HTTP does."""
    return formatdate(now, usegmt=True).encode()
