"""The open connections: which of them have to go so that those that are used may stay."""

import asyncio
import fcntl
import itertools
import termios
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from webhook import metrics
from webhook.serving.intake import Intake

if TYPE_CHECKING:
    from webhook.serving.http11 import Connection

HASTE: Final = 1.0  # seconds after which what has not come, head or body, is no reason to keep a connection
SWEEP: Final = 1.0  # seconds between two looks at what clients owe
RETIRE: Final = 0.02  # seconds between two looks at what is still to be answered before the end
# Longer than the 90 s after which the API server closes an idle connection: it must be the one to close.
KEEP_ALIVE: Final = 120.0


class Connections:
    """The open connections of one listener; those with a request in progress are never closed."""

    def __init__(self, intake: Intake) -> None:
        self.intake = intake
        self.limits = intake.limits
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time
        self.open: dict[Connection, None] = {}
        self.silent: dict[Connection, None] = {}  # never asked; the oldest first
        self.idle: dict[Connection, None] = {}  # have asked; those that have not for longest first
        self.busy: dict[Connection, asyncio.Task[None]] = {}  # what works on a request whose body is here
        self.leaving: dict[Connection, None] = {}  # were refused while they were sending
        self.untaken: dict[Connection, int] = {}  # bytes of large answers not yet taken; the oldest first

    def add(self, connection: "Connection") -> None:
        """Take in a new connection; where there are too many, the one that is missed least goes."""
        if len(self.open) >= self.limits.connections and not self.make_room():
            self.drop(connection, "room")
            return
        connection.since = self.now()
        self.open[connection] = None
        self.silent[connection] = None

    def forget(self, connection: "Connection") -> None:
        """Take out a connection that is lost, or as good as; what works on its request goes on."""
        if connection not in self.busy:
            self.intake.release(connection)
        self.open.pop(connection, None)
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)
        self.leaving.pop(connection, None)
        self.untaken.pop(connection, None)

    def drop(self, connection: "Connection", reason: str) -> None:
        """Close a connection at once."""
        metrics.CONNECTIONS_DROPPED.labels(reason).inc()
        self.forget(connection)
        connection.transport.abort()

    def begin(self, connection: "Connection") -> None:
        """Keep a connection whose request has begun."""
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)
        connection.since = self.now()

    def rest(self, connection: "Connection") -> None:
        """Keep a connection that has been answered, for as long as there is room."""
        self.leaving.pop(connection, None)
        self.idle[connection] = None

    def leave(self, connection: "Connection") -> None:
        """Keep a connection only until its client has read that it was refused."""
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)
        self.leaving[connection] = None

    def hold(self, connection: "Connection", size: int) -> None:
        """Note a large answer; where too much is held of those before, close the connections that they belong to."""
        for other in list(self.untaken):
            if sum(self.untaken.values()) + size <= self.limits.answer_bytes:
                break
            self.drop(other, "slow")
        self.untaken[connection] = size

    def make_room(self) -> bool:
        """Close the connection that is missed least; return False where each has a request in progress.

        That is one that has been refused, the oldest that never asked, or whose body has been arriving for longest;
        else it is the longest idle.
        """
        late = self.now() - HASTE
        unfinished = itertools.chain(self.unfinished(list(self.silent)), self.unfinished(list(self.intake.arriving)))
        others = (connection for connection in (*self.idle, *self.silent) if not is_asking(connection, late))
        for victim in itertools.chain(self.leaving, unfinished, others):
            self.drop(victim, "room")
            return True
        return False

    def unfinished(self, connections: "list[Connection]") -> "Iterator[Connection]":
        """Yield those of some connections, the oldest first, that ought to have brought a whole request by now.

        What is new, or in the middle of one, is given a moment; but only few are, or there would be no end of new ones.
        """
        now = self.now()
        surplus = len(connections) - self.limits.spare
        for number, connection in enumerate(connections):
            late = now if number < surplus else now - HASTE
            if connection.since <= late and not is_asking(connection, late):
                yield connection

    def sweep(self) -> None:
        """Close what has waited in vain: for a request, its answer to be taken, or, where there are many, to be used.

        One that never asked is no sign of a bad client: a Go client opens a connection for each call that finds none
        idle, and uses another that became free meanwhile. To close it saves nothing and may meet the next call.
        """
        now = self.now()
        late = now - self.limits.patience
        for connection in list(self.open):
            if connection.owes is not None and connection.owes < late:
                self.drop(connection, "slow")
        for connection in list(self.intake.arriving):
            if connection.since < late:
                what = f"the body was not there after {self.limits.patience:g} s"
                connection.refuse(408, f"{what}; send what its headers say")
        for connection in list(self.idle):
            if connection.since > now - KEEP_ALIVE:
                break
            if not is_asking(connection, now - HASTE):
                connection.transport.close()
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
        while self.now() < end and any(is_needed(connection) for connection in self.open):
            late = self.now() - HASTE
            for connection in (*self.silent, *self.idle):
                is_new = connection in self.silent and connection.since > late  # what it was opened for is on its way
                if not is_new and not is_asking(connection, late):
                    connection.transport.close()
            await asyncio.sleep(RETIRE)

    def end(self) -> None:
        """Close what is still open, and give up what is still worked on."""
        for connection in list(self.open):
            connection.transport.abort()
        for task in self.busy.values():
            task.cancel()


def is_asking(connection: "Connection", late: float) -> bool:
    """Tell whether a request is just coming in: has begun after `late`, or waits to be read."""
    socket = connection.transport.get_extra_info("socket")
    if connection.transport.is_closing() or socket is None or connection.untaken:
        return False
    if connection.owes is not None:
        return connection.owes > late
    try:
        return fcntl.ioctl(socket.fileno(), termios.FIONREAD, bytes(4)) != bytes(4)
    except (OSError, ValueError):  # closed meanwhile
        return False


def is_needed(connection: "Connection") -> bool:
    """Tell whether a connection has something to do yet, if only to send the rest of an answer."""
    return not connection.transport.is_closing() or connection.transport.get_write_buffer_size() > 0
