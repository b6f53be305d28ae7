"""Bounds the open connections of a listener, and closes them on shutdown without losing a request.

aiohttp bounds neither the number of open connections, nor the time in which a client sends the head of a request or
reads an answer; and it closes idle connections without checking whether a request has just arrived. Each function here
names the fault that demands it: a kind of client in tests/bench/hostile_clients.py, or the roll-outs in
tests/bench/rollouts.py.
"""

import asyncio
import fcntl
import logging
import termios
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

from webhook.serving.limits import Limits

ARRIVES_WITHIN: Final = 1.0  # seconds within which a request must arrive to protect its connection from being closed
SWEEP_INTERVAL: Final = 1.0  # seconds between two checks for connections that are overdue
DRAIN_INTERVAL: Final = 0.02  # seconds between two checks for requests that must be answered before shutdown
# Seconds; more than the 90 s after which the API server closes an idle connection. If the server closed it first, a
# request that is on its way would be lost.
KEEP_ALIVE: Final = 120.0


# A client could fill the log with a stack trace for each request that is not HTTP.
logger: Final = logging.getLogger("aiohttp.server")
logger.addFilter(lambda record: record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError))


class State(Enum):
    """The state of a connection."""

    SILENT = "no byte of a request has arrived yet"
    HEAD = "the head of a request is arriving"
    BODY = "the body of a request is arriving"
    BUSY = "a request is being processed"
    IDLE = "all requests are answered"
    LEAVING = "the last answer was sent, and the connection is being closed"


ARRIVING: Final = {State.SILENT, State.HEAD, State.BODY}


Handler = Callable[["Connection", web.BaseRequest], Awaitable[web.StreamResponse]]


class Connection(asyncio.Protocol):
    """A client's connection, which aiohttp's server serves.

    `handler` answers a request of this connection; `options` are those of `web.Server`. `since`: the time at which its
    state began, in seconds of the event loop's clock. `write_paused_at`: the time at which the client stopped reading
    its answer; None if it reads. `unsent`: the bytes of a large answer, which is the last one of the connection.
    """

    __slots__ = ("connections", "http", "now", "since", "state", "transport", "unsent", "write_paused_at")

    def __init__(self, connections: "Connections", handler: Handler, **options: Any) -> None:
        # A server for each connection: its handler knows the connection.
        self.http = web.Server(partial(handler, self), access_log=None, logger=logger, **options)()
        self.connections = connections
        self.now = connections.loop.time
        self.write_paused_at: float | None = None
        self.unsent = 0
        self.enter(State.SILENT)

    def enter(self, state: State) -> None:
        """Change the state, and record the time."""
        self.state = state
        self.since = self.now()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start after the TLS handshake."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's have its methods, but do not derive from it
        self.http.connection_made(transport)
        self.connections.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the closed connection from the open ones."""
        self.connections.open.pop(self, None)
        self.http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Record the time at which a request begins."""
        if self.state is State.IDLE or self.state is State.SILENT:
            self.enter(State.HEAD)
        self.http.data_received(data)

    def pause_writing(self) -> None:
        """Record the time at which the client stopped reading its answer."""
        self.write_paused_at = self.now()
        self.http.pause_writing()

    def resume_writing(self) -> None:
        """Record that the client reads its answer again."""
        self.write_paused_at = None
        self.http.resume_writing()

    def is_receiving(self) -> bool:
        """Return True if a request is arriving: it began within ARRIVES_WITHIN, or its bytes are not read yet."""
        if self.transport.is_closing() or self.write_paused_at is not None or self.state is State.LEAVING:
            return False
        if self.state is State.HEAD or self.state is State.BODY:
            return self.since > self.now() - ARRIVES_WITHIN
        try:
            return fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.FIONREAD, bytes(4)) != bytes(4)
        except (OSError, ValueError):  # the connection was closed
            return False

    def drop(self, reason: str) -> None:
        """Close the connection at once."""
        self.connections.on_dropped(reason)
        self.connections.open.pop(self, None)
        self.transport.abort()


class Connections:
    """The open connections of one listener; those with a request in progress are never closed.

    `on_dropped` is called with the reason each time that one is closed: room, slow or silent.
    """

    def __init__(self, limits: Limits, on_dropped: Callable[[str], None] = lambda _reason: None) -> None:
        self.limits = limits
        self.on_dropped = on_dropped
        self.loop = asyncio.get_running_loop()
        self.open: dict[Connection, None] = {}  # the oldest first

    def add(self, connection: Connection) -> None:
        """Add a new connection; if there are too many, close the one that `make_room` chooses, or else the new one."""
        if len(self.open) >= self.limits.connections and not self.make_room():
            connection.drop("room")
        else:
            self.open[connection] = None

    def make_room(self) -> bool:
        """Close the connection whose loss does least harm; return False if every connection has a request in progress.

        In this order: one whose last answer was sent; the oldest whose request has not arrived within ARRIVES_WITHIN,
        or, if more than `spare` requests are arriving, the oldest of those; the one that has been idle for longest.
        Without this each of these clients takes all memory: "heads byte by byte", "silent after the handshake", "idle
        after a request".
        """
        arriving = sum(connection.state in ARRIVING for connection in self.open)
        late = self.loop.time() if arriving > self.limits.spare else self.loop.time() - ARRIVES_WITHIN

        def rank(connection: Connection) -> tuple[int, float]:
            if connection.state in ARRIVING:
                return (1 if connection.since <= late else 3), connection.since
            return (0 if connection.state is State.LEAVING else 2), connection.since

        for connection in sorted((one for one in self.open if one.state is not State.BUSY), key=rank):
            if rank(connection)[0] < 2 or not connection.is_receiving():  # noqa: PLR2004
                connection.drop("room")
                return True
        return False

    def reserve_answer(self, connection: Connection, size: int) -> None:
        """Make room for a large answer of `size` bytes: close other connections whose large answers are not read.

        TLS keeps up to three times as much memory for each ("large answers that nobody takes").
        """
        unread = [other for other in self.open if other.unsent]
        held = size + sum(other.unsent for other in unread)
        for other in unread:
            if held <= self.limits.answer_bytes:
                break
            held -= other.unsent
            other.drop("slow")
        connection.unsent = size

    def sweep(self) -> None:
        """Close overdue connections: no complete head, an answer that is not read, or no request, for `client_timeout`.

        Up to `spare` connections without a request stay open: they do not mean a bad client. A Go client opens one for
        each call that finds no idle connection, and then uses another one that became idle first. Closing the new one
        saves little, and could lose the next call.
        """
        late = self.loop.time() - self.limits.client_timeout
        for connection in list(self.open):
            slow = connection.state in {State.HEAD, State.LEAVING} and connection.since < late
            if slow or (connection.write_paused_at is not None and connection.write_paused_at < late):
                connection.drop("slow")
        silent = [connection for connection in self.open if connection.state is State.SILENT]
        for connection in silent[: max(len(silent) - self.limits.spare, 0)]:
            if connection.since < late:
                connection.drop("silent")

    async def run(self) -> None:
        """Sweep every SWEEP_INTERVAL seconds until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_INTERVAL)
            self.sweep()

    async def drain(self, seconds: float, *, opening: Callable[[], bool] = lambda: False) -> None:
        """Close each connection when no request is arriving on it; return after `seconds` at the latest.

        aiohttp's shutdown closes idle connections at once: a request that has just arrived would be lost (roll-outs).
        `opening`: whether connections are still being opened, whose requests are on their way.
        """
        end = self.loop.time() + seconds
        while self.loop.time() < end and (opening() or any(_is_needed(connection) for connection in self.open)):
            late = self.loop.time() - ARRIVES_WITHIN
            for connection in list(self.open):
                is_new = connection.state is State.SILENT and connection.since > late  # its request is on its way
                if connection.state in {State.IDLE, State.SILENT} and not is_new and not connection.is_receiving():
                    connection.transport.close()
            await asyncio.sleep(DRAIN_INTERVAL)

    def abort(self) -> None:
        """Close all connections that are still open."""
        for connection in list(self.open):
            connection.transport.abort()


def _is_needed(connection: Connection) -> bool:
    """Return True if a connection is still open, or has the rest of an answer to send."""
    return not connection.transport.is_closing() or connection.transport.get_write_buffer_size() > 0
