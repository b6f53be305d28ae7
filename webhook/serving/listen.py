"""Listens: accepts connections, agrees on TLS in bounded time and number, ends without losing a request."""

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from webhook import metrics
from webhook.serving.connections import Connections
from webhook.serving.http11 import Connection, Site
from webhook.serving.limits import raise_open_files

BACKLOG: Final = 1024  # connections that the kernel holds until they are accepted
AT_ONCE: Final = 16  # of them accepted in one turn of the loop: who is already connected does not wait for all
# The most that the kernel keeps unread for a connection. Without, it may be 32 MiB, which count as the container's
# memory; and the TLS layer's buffers grow with what can be read at once, and stay so.
RECEIVE_BUFFER: Final = 32 * 1024
STALLED: Final = 3.0  # seconds that a handshake may wait for its client where others wait for it
BREATH: Final = 0.02  # seconds between two looks whether there is room for another handshake
CLOSING: Final = 2.0  # seconds for a client to agree that TLS is at its end
LAST_ANSWERS: Final = 5.0  # seconds at the end for requests in progress


class CannotListenError(Exception):
    """The address cannot be had; the message says what would help."""


async def listen(
    stack: contextlib.AsyncExitStack,
    site: Site,
    address: tuple[str, int],
    context: ssl.SSLContext | None,
) -> str:
    """Listen on a host and port until the stack is left; return them as HOST:PORT, with what port 0 was replaced by."""
    raise_open_files()
    connections = Connections(site.intake)
    stack.callback(connections.end)
    door = Door(site, connections, context)
    stack.callback(door.turn_away)
    stack.push_async_callback(connections.retire, LAST_ANSWERS)
    try:
        sockets = await bind(*address)
    except (OSError, UnicodeError) as error:
        host, port = address
        raise CannotListenError(f"cannot listen on {host}:{port}: {error}; choose another host or port") from None
    for listening in sockets:
        door.open(listening)
        stack.callback(door.close, listening)
    sweeping = asyncio.create_task(connections.run())
    stack.callback(sweeping.cancel)
    bound = sockets[0].getsockname()
    return f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"


async def bind(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of a host; OSError or UnicodeError where that cannot be."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with contextlib.ExitStack() as opened:
        sockets = []
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            listening = opened.enter_context(socket.create_server(address, family=family, backlog=BACKLOG))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            listening.settimeout(0)
            sockets.append(listening)
        opened.pop_all()
    return sockets


class Door:
    """Accepts connections, and lets in who speaks.

    Who says nothing costs little, and the oldest of them goes where there are too many. Who has begun a handshake is
    not sent away for a newer one: on a machine that is short of CPU that would end just those that are nearly done, and
    their clients would begin again. Where too many shake hands the kernel holds the next ones, for a moment.
    """

    def __init__(self, site: Site, connections: Connections, context: ssl.SSLContext | None) -> None:
        self.site = site
        self.connections = connections
        self.limits = connections.limits
        self.context = context
        self.loop = asyncio.get_running_loop()
        self.silent: dict[socket.socket, asyncio.TimerHandle] = {}  # have said nothing yet; the oldest first
        self.entering: dict[asyncio.Task[None], tuple[socket.socket, float]] = {}  # since when; the oldest first

    def open(self, listening: socket.socket) -> None:
        """Accept what comes to a socket, if it is still open."""
        if listening.fileno() >= 0:
            self.loop.add_reader(listening, self.accept, listening)

    def close(self, listening: socket.socket) -> None:
        """Accept what has come until now, and nothing more."""
        for _ in range(BACKLOG // AT_ONCE):
            self.accept(listening)
        self.loop.remove_reader(listening)
        listening.close()

    def turn_away(self) -> None:
        """End the handshakes that are not done."""
        for accepted in list(self.silent):
            self.forget(accepted).close()
        for task in self.entering:
            task.cancel()

    def accept(self, listening: socket.socket) -> None:
        """Accept a few connections."""
        for _ in range(AT_ONCE):
            if len(self.entering) >= self.limits.handshakes and not self.end_stalled():
                self.pause(listening, BREATH)
                return
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no file to be had: as soon as one is closed
                if not self.connections.make_room():
                    self.pause(listening, 1.0)
                return
            accepted.settimeout(0)
            if self.context is None or has_spoken(accepted):
                self.let_in(accepted)
            else:
                self.wait_for_a_word(accepted)

    def pause(self, listening: socket.socket, seconds: float) -> None:
        """Let the kernel hold what comes for a while."""
        self.loop.remove_reader(listening)
        self.loop.call_later(seconds, self.open, listening)

    def wait_for_a_word(self, accepted: socket.socket) -> None:
        """Let a connection in when it says something; where too many say nothing, the oldest goes."""
        if len(self.silent) >= self.limits.silent:
            self.send_away(next(iter(self.silent)))
        self.silent[accepted] = self.loop.call_later(self.limits.patience, self.send_away, accepted)
        self.loop.add_reader(accepted, lambda: self.let_in(self.forget(accepted)))

    def send_away(self, accepted: socket.socket) -> None:
        """Close a connection that has said nothing."""
        metrics.CONNECTIONS_DROPPED.labels("handshake").inc()
        self.forget(accepted).close()

    def forget(self, accepted: socket.socket) -> socket.socket:
        """Wait for a connection no more."""
        self.silent.pop(accepted).cancel()
        self.loop.remove_reader(accepted)
        return accepted

    def end_stalled(self) -> bool:
        """End the oldest handshake that its client has left; return whether there is one."""
        late = self.loop.time() - STALLED
        for task, (accepted, since) in self.entering.items():
            if since > late:
                return False
            if not has_spoken(accepted):
                metrics.CONNECTIONS_DROPPED.labels("handshake").inc()
                del self.entering[task]
                task.cancel()
                return True
        return False

    def let_in(self, accepted: socket.socket) -> None:
        """Begin with a connection."""
        task = self.loop.create_task(self.enter(accepted))
        self.entering[task] = accepted, self.loop.time()
        task.add_done_callback(lambda done: self.entering.pop(done, None))

    async def enter(self, accepted: socket.socket) -> None:
        """Agree on TLS, if that is spoken here, and begin."""
        tls = {"ssl_handshake_timeout": self.limits.patience, "ssl_shutdown_timeout": CLOSING} if self.context else {}
        with contextlib.suppress(OSError):  # what is no TLS, or no longer there
            await self.loop.connect_accepted_socket(
                lambda: Connection(self.site, self.connections), accepted, ssl=self.context, **tls
            )


def has_spoken(accepted: socket.socket) -> bool:
    """Tell whether a connection has brought something that nobody has read, if only its end."""
    try:
        accepted.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
