"""Bounds the open connections of a listener, and closes them at the end without losing a request.

aiohttp bounds neither how many connections are open, nor how long a client may take for the head of a request or to
take an answer, and closes idle connections without a look at what has just come in. Each piece here names the fault
that demands it: a kind of client in tests/bench/hostile_clients.py, or the roll-outs in tests/bench/rollouts.py.
"""

import asyncio
import fcntl
import termios
from enum import Enum
from typing import Any, Final, cast

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from aiohttp.web_server import Server

from webhook import metrics
from webhook.serving.http_response import text
from webhook.serving.limits import Limits

HASTE: Final = 1.0  # seconds after which a request that has not arrived is no reason to keep its connection
SWEEP: Final = 1.0  # seconds between two checks of what clients owe
RETIRE: Final = 0.02  # seconds between two checks for requests that are still to be answered before the end
# Longer than the 90 s after which the API server closes an idle connection: it must be the one to close.
KEEP_ALIVE: Final = 120.0


class State(Enum):
    """Where a connection stands."""

    SILENT = "no byte of a request has come yet"
    HEAD = "the head of a request is arriving"
    BODY = "the body of a request is arriving"
    BUSY = "a request is worked on"
    IDLE = "all requests are answered"
    LEAVING = "had its last answer"


ARRIVING: Final = {State.SILENT, State.HEAD, State.BODY}


class Connection(RequestHandler):
    """A client's connection.

    `since`: when its state began, in the event loop's time. `untaken`: since when the client does not take its answer;
    None where it does. `unsent`: bytes of a large answer that is its last.
    """

    __slots__ = ("connections", "now", "since", "state", "unsent", "untaken", "wire")

    def __init__(self, server: Server, connections: "Connections", **options: Any) -> None:
        super().__init__(server, loop=connections.loop, **options)
        self.connections = connections
        self.now = connections.loop.time
        self.untaken: float | None = None
        self.unsent = 0
        self.enter(State.SILENT)

    def enter(self, state: State) -> None:
        """Change the state."""
        self.state = state
        self.since = self.now()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, after the TLS handshake."""
        self.wire = cast("asyncio.Transport", transport)  # uvloop's have its methods, but do not derive from it
        super().connection_made(transport)
        self.connections.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        self.connections.open.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when a request begins."""
        if self.state is State.IDLE or self.state is State.SILENT:
            self.enter(State.HEAD)
        super().data_received(data)

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - as in aiohttp
        """Go on with reading where it was paused; aiohttp goes through parser and transport after each body."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        """Note that the client does not take its answer."""
        self.untaken = self.now()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client takes its answer."""
        self.untaken = None
        super().resume_writing()

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> StreamResponse:
        """Answer what is not HTTP. aiohttp would log it with a stack trace, by which clients could fill the log."""
        if message is None:
            return super().handle_error(request, status, exc, message)
        self.enter(State.LEAVING)
        answer = text(f"this is not HTTP/1.1: {message}", status)
        answer.force_close()
        return cast("StreamResponse", answer)

    def is_asking(self) -> bool:
        """Whether a request is just arriving: began less than HASTE ago, or waits to be read."""
        if self.wire.is_closing() or self.untaken is not None or self.state is State.LEAVING:
            return False
        if self.state is State.HEAD or self.state is State.BODY:
            return self.since > self.now() - HASTE
        try:
            return fcntl.ioctl(self.wire.get_extra_info("socket").fileno(), termios.FIONREAD, bytes(4)) != bytes(4)
        except (OSError, ValueError):  # closed meanwhile
            return False

    def drop(self, reason: str) -> None:
        """Close at once."""
        metrics.CONNECTIONS_DROPPED.labels(reason).inc()
        self.connections.open.pop(self, None)
        self.wire.abort()


class Connections:
    """The open connections of one listener; those with a request in progress are never closed."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.open: dict[Connection, None] = {}  # the oldest first

    def add(self, connection: Connection) -> None:
        """Take in a new connection; where there are too many, close the one that is missed least, or the new one."""
        if len(self.open) >= self.limits.connections and not self.make_room():
            connection.drop("room")
        else:
            self.open[connection] = None

    def make_room(self) -> bool:
        """Close the connection that is missed least; return False where each has a request in progress.

        That is one that had its last answer; the oldest of those whose request has not arrived within HASTE, or where
        there are more of these than `spare`, the oldest of all of them; then the longest idle. ("heads byte by byte",
        "silent after the handshake", "idle after a request": without this each kind takes all memory.)
        """
        arriving = sum(connection.state in ARRIVING for connection in self.open)
        late = self.loop.time() if arriving > self.limits.spare else self.loop.time() - HASTE

        def rank(connection: Connection) -> tuple[int, float]:
            if connection.state in ARRIVING:
                return (1 if connection.since <= late else 3), connection.since
            return (0 if connection.state is State.LEAVING else 2), connection.since

        for connection in sorted((one for one in self.open if one.state is not State.BUSY), key=rank):
            if rank(connection)[0] < 2 or not connection.is_asking():  # noqa: PLR2004
                connection.drop("room")
                return True
        return False

    def hold(self, connection: Connection, size: int) -> None:
        """Make room for a large answer, the last of its connection: close others that do not take theirs.

        TLS keeps up to three times as much for each ("large answers that nobody takes").
        """
        untaken = [other for other in self.open if other.unsent]
        held = size + sum(other.unsent for other in untaken)
        for other in untaken:
            if held <= self.limits.answer_bytes:
                break
            held -= other.unsent
            other.drop("slow")
        connection.unsent = size

    def sweep(self) -> None:
        """Close what has waited too long: for the head of a request, for an answer to be taken, or in vain.

        A connection that never asked is no sign of a bad client: a Go client opens one for each call that finds none
        idle, and uses another that became free meanwhile. To close it saves nothing and may meet the next call.
        """
        late = self.loop.time() - self.limits.patience
        for connection in list(self.open):
            slow = connection.state in {State.HEAD, State.LEAVING} and connection.since < late
            if slow or (connection.untaken is not None and connection.untaken < late):
                connection.drop("slow")
        silent = [connection for connection in self.open if connection.state is State.SILENT]
        for connection in silent[: max(len(silent) - self.limits.spare, 0)]:
            if connection.since < late:
                connection.drop("silent")

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(SWEEP)
            self.sweep()

    async def retire(self, seconds: float) -> None:
        """Close each connection at a moment when no request is arriving; wait for the others that long at most.

        aiohttp's shutdown closes idle connections at once: a request that has just arrived would be lost (roll-outs).
        """
        end = self.loop.time() + seconds
        await asyncio.sleep(RETIRE)  # for the handshakes of those that were accepted last
        while self.loop.time() < end and any(is_needed(connection) for connection in self.open):
            late = self.loop.time() - HASTE
            for connection in list(self.open):
                is_new = connection.state is State.SILENT and connection.since > late  # its request is on its way
                if connection.state in {State.IDLE, State.SILENT} and not is_new and not connection.is_asking():
                    connection.force_close()
            await asyncio.sleep(RETIRE)

    def abort(self) -> None:
        """Close what is still open."""
        for connection in list(self.open):
            connection.wire.abort()


def is_needed(connection: Connection) -> bool:
    """Whether a connection has something left to do, if only to send the rest of an answer."""
    return not connection.wire.is_closing() or connection.wire.get_write_buffer_size() > 0
