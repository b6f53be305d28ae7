"""The server's listener in the process of the test, which controls when bytes arrive; by default without TLS."""

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

import uvloop

from tests.awaiting import INTERVAL, LONGEST
from webhook.serving.listen import listen
from webhook.serving.server import Routes

HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


def on_uvloop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on the event loop that the server runs on."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        uvloop.run(asyncio.wait_for(test(*arguments, **fixtures), LONGEST))

    return run


class Client:
    """One connection to the listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def post(self, body: bytes) -> None:
        self.send(HEAD % len(body) + body)

    async def answer(self) -> tuple[int, dict[str, str]]:
        """Return the status and the headers, in lower case, of the next answer."""
        status, headers, _ = await self.whole_answer()
        return status, headers

    async def body(self) -> bytes:
        """Return the body of the next answer."""
        return (await self.whole_answer())[2]

    async def whole_answer(self) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        return int(head[0].split()[1]), headers, await self.reader.readexactly(int(headers["content-length"]))

    async def status_of(self, body: bytes) -> int:
        self.post(body)
        return (await self.answer())[0]

    @property
    def closed(self) -> bool:
        return self.reader.at_eof() or self.reader.exception() is not None


class Sent(asyncio.Transport):
    """A transport that keeps what was written to it: the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bytes] = []
        self.written = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.answers.append(bytes(data))
        self.written.set()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing."""


class Listening:
    """A listener and its clients."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.clients: list[Client] = []

    async def connect(self, context: ssl.SSLContext | None = None) -> Client:
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port, ssl=context)))
        return self.clients[-1]


@contextlib.asynccontextmanager
async def listening(routes: Routes, context: ssl.SSLContext | None = None) -> AsyncIterator[Listening]:
    async with contextlib.AsyncExitStack() as stack:
        address = await listen(stack, routes, ("127.0.0.1", 0), context)
        server = Listening(int(address.rpartition(":")[2]))
        try:
            yield server
        finally:
            for client in server.clients:
                client.writer.transport.abort()


async def eventually(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds."""
    while not condition():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(INTERVAL)
