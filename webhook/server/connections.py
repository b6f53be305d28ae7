"""The open connections: which of them have to go so that those that are used may stay."""

import asyncio
import fcntl
import itertools
import termios
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, cast

from aiohttp import web

from webhook.server import metrics
from webhook.server.limits import Limits

HASTE: Final = 1.0  # seconds after which what has not come, head or body, is no reason to keep a connection
LARGE_ANSWER: Final = 64 * 1024  # bytes; patches are smaller, unless somebody means them not to be
SWEEP: Final = 1.0  # seconds between two looks at what clients owe
RETIRE: Final = 0.02  # seconds between two looks at what is still to be answered before the end

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Connection(asyncio.Protocol):
    """One connection: notes what a client is waited for, and hands everything on to aiohttp's protocol.

    `since`: when it was opened, or its present request began. `owes`: since when the client has been waited for, to
    send the rest of a head or to take its answer; None where it is not.
    """

    transport: asyncio.Transport

    def __init__(self, make: Callable[[], asyncio.Protocol], connections: "Connections") -> None:
        self.make = make
        self.connections = connections
        self.since = 0.0
        self.owes: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, TLS being agreed upon."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's have its methods, but do not derive from it
        self.inner = self.make()
        self.inner.connection_made(transport)
        self.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Note when a head begins."""
        if self.owes is None and self not in self.connections.busy:
            self.owes = self.connections.now()
        self.inner.data_received(data)

    def pause_writing(self) -> None:
        """Note that the client does not take what it asked for."""
        if self.owes is None:
            self.owes = self.connections.now()
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Note that it does."""
        self.owes = None
        self.inner.resume_writing()

    def eof_received(self) -> bool | None:
        """Hand it on."""
        return self.inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self.connections.forget(self)
        self.inner.connection_lost(error)

    def is_asking(self, late: float) -> bool:
        """Tell whether a request is just coming in: has begun after `late`, or waits to be read."""
        socket = self.transport.get_extra_info("socket")
        if self.transport.is_closing() or socket is None:
            return False
        if self.owes is not None:
            return self.owes > late
        try:
            return fcntl.ioctl(socket.fileno(), termios.FIONREAD, bytes(4)) != bytes(4)
        except (OSError, ValueError):  # closed meanwhile
            return False


class Connections:
    """The open connections of one listener; those with a request in progress are never closed."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.now = asyncio.get_running_loop().time
        self.open: dict[asyncio.BaseTransport, Connection] = {}
        self.silent: dict[Connection, None] = {}  # never asked; the oldest first
        self.idle: dict[Connection, None] = {}  # have asked; those that have not for longest first
        self.busy: dict[Connection, web.Request] = {}  # have a request in progress; the oldest first
        self.untaken: dict[Connection, int] = {}  # bytes of large answers not yet taken; the oldest first

    def add(self, connection: Connection) -> None:
        """Take in a new connection; where there are too many, the one that is missed least goes."""
        if len(self.open) >= self.limits.connections and not self.make_room():
            self.drop(connection, "room")
            return
        connection.since = self.now()
        self.open[connection.transport] = connection
        self.silent[connection] = None

    def forget(self, connection: Connection) -> None:
        """Take out a connection that is lost, or as good as."""
        self.open.pop(connection.transport, None)
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)
        self.busy.pop(connection, None)
        self.untaken.pop(connection, None)

    def drop(self, connection: Connection, reason: str) -> None:
        """Close a connection at once."""
        metrics.CONNECTIONS_DROPPED.labels(reason).inc()
        self.forget(connection)
        connection.transport.abort()

    @web.middleware
    async def in_progress(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keep the connection of a request while it is being answered."""
        connection = None if request.transport is None else self.open.get(request.transport)
        if connection is None:
            return await handler(request)
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)
        self.busy[connection] = request
        connection.since, connection.owes = self.now(), None
        try:
            answer = await handler(request)
            if (size := answer.content_length or 0) > LARGE_ANSWER:
                answer.force_close()  # or its connection would keep as much memory for as long as it is open
                self.hold(connection, size)
            return answer
        finally:
            if self.busy.pop(connection, None) is not None:
                self.idle[connection] = None

    def hold(self, connection: Connection, size: int) -> None:
        """Note a large answer; where too much is held of those before, close the connections that they belong to."""
        for other in list(self.untaken):
            if sum(self.untaken.values()) + size <= self.limits.answer_bytes:
                break
            self.drop(other, "slow")
        self.untaken[connection] = size

    def make_room(self) -> bool:
        """Close the connection that is missed least; return False where each has a request in progress.

        That is the oldest that never asked, or whose body has been arriving for longest; else it is the longest idle.
        """
        late = self.now() - HASTE
        arriving = [connection for connection, request in self.busy.items() if not request.content.is_eof()]
        others = (connection for connection in (*self.idle, *self.silent) if not connection.is_asking(late))
        for victim in itertools.chain(self.unfinished(list(self.silent)), self.unfinished(arriving), others):
            self.drop(victim, "room")
            return True
        return False

    def unfinished(self, connections: list[Connection]) -> Iterator[Connection]:
        """Yield those of some connections, the oldest first, that ought to have brought a whole request by now.

        What is new, or in the middle of one, is given a moment; but only few are, or there would be no end of new ones.
        """
        now = self.now()
        surplus = len(connections) - self.limits.spare
        for number, connection in enumerate(connections):
            late = now if number < surplus else now - HASTE
            if connection.since <= late and not connection.is_asking(late):
                yield connection

    def sweep(self) -> None:
        """Close what has waited in vain: for a head, for its answer to be taken, or, where there are many, to be used.

        One that never asked is no sign of a bad client: a Go client opens a connection for each call that finds none
        idle, and uses another that became free meanwhile. To close it saves nothing and may meet the next call.
        """
        late = self.now() - self.limits.patience
        for connection in list(self.open.values()):
            if connection.owes is not None and connection.owes < late:
                self.drop(connection, "slow")
        surplus = len(self.silent) - self.limits.spare
        for connection in list(self.silent)[: max(surplus, 0)]:
            if connection.since < late:
                self.drop(connection, "silent")

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(SWEEP)
            self.sweep()

    async def retire(self, seconds: float) -> None:
        """Close each connection in a moment in which nothing has come in; for what has, wait that long at most."""
        end = self.now() + seconds
        await asyncio.sleep(RETIRE)  # for the handshakes of those that were accepted last
        while self.now() < end and not all(transport.is_closing() for transport in self.open):
            late = self.now() - HASTE
            for connection in (*self.silent, *self.idle):
                is_new = connection in self.silent and connection.since > late  # what it was opened for is on its way
                if not is_new and not connection.is_asking(late):
                    connection.transport.close()
            await asyncio.sleep(RETIRE)
