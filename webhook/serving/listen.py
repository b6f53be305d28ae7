"""Accepts connections and agrees on TLS, in bounded time and number.

uvloop's own server accepts whatever arrives, and a TLS handshake takes 25 to 65 KiB from its first moment: 10,000
connections without a word would take all memory, and honest clients would wait behind them ("TCP without TLS" in
tests/bench/hostile_clients.py).
"""

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from webhook import metrics
from webhook.serving.connections import Connections
from webhook.serving.limits import raise_open_files
from webhook.serving.server import Server, Site

BACKLOG: Final = 1024  # connections that the kernel holds until they are accepted
AT_ONCE: Final = 16  # accepted in one iteration of the event loop: open connections must not wait for all of them
# The most that the kernel keeps unread for a connection. Without, it may be 32 MiB, which count as the container's
# memory; and the TLS layer's buffers grow with what can be read at once, and stay so.
RECEIVE_BUFFER: Final = 32 * 1024
STALLED: Final = 3.0  # seconds that a handshake may wait for its client while others wait for it
ROOM_POLL: Final = 0.02  # seconds between two checks for a free handshake
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
    connections = Connections(site.bodies.limits)
    stack.callback(connections.abort)
    acceptor = Acceptor(Server(site, connections), connections, context)
    stack.callback(acceptor.abort)
    stack.push_async_callback(connections.retire, LAST_ANSWERS)
    try:
        sockets = await bind(*address)
    except (OSError, UnicodeError) as error:
        host, port = address
        raise CannotListenError(f"cannot listen on {host}:{port}: {error}; choose another host or port") from None
    for listening in sockets:
        acceptor.open(listening)
        stack.callback(acceptor.close, listening)
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


class Acceptor:
    """Accepts connections, and begins the TLS handshake of those that have sent something.

    A connection that has sent nothing costs little; the oldest of them is closed where there are too many. A handshake
    that has begun is not ended for a newer one: on a machine that is short of CPU that would end just those that are
    nearly done, and their clients would begin again. Where too many are in progress the kernel holds the next ones.
    """

    def __init__(self, server: Server, connections: Connections, context: ssl.SSLContext | None) -> None:
        self.server = server
        self.connections = connections
        self.limits = connections.limits
        self.context = context
        self.loop = asyncio.get_running_loop()
        self.silent: dict[socket.socket, asyncio.TimerHandle] = {}  # have sent nothing; the oldest first
        self.handshakes: dict[asyncio.Task[None], tuple[socket.socket, float]] = {}  # since when; the oldest first

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

    def abort(self) -> None:
        """End the handshakes that are not done."""
        for accepted in list(self.silent):
            self.forget(accepted).close()
        for task in self.handshakes:
            task.cancel()

    def accept(self, listening: socket.socket) -> None:
        """Accept a few connections."""
        for _ in range(AT_ONCE):
            if len(self.handshakes) >= self.limits.handshakes and not self.end_stalled():
                self.pause(listening, ROOM_POLL)
                return
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no free file descriptor: until a connection is closed
                if not self.connections.make_room():
                    self.pause(listening, 1.0)
                return
            accepted.settimeout(0)
            if self.context is None or has_sent(accepted):
                self.begin(accepted)
            else:
                self.wait_for_first_bytes(accepted)

    def pause(self, listening: socket.socket, seconds: float) -> None:
        """Let the kernel hold new connections for a while."""
        self.loop.remove_reader(listening)
        self.loop.call_later(seconds, self.open, listening)

    def wait_for_first_bytes(self, accepted: socket.socket) -> None:
        """Begin a connection when it sends something; where too many send nothing, close the oldest."""
        if len(self.silent) >= self.limits.silent:
            self.drop(next(iter(self.silent)))
        self.silent[accepted] = self.loop.call_later(self.limits.patience, self.drop, accepted)
        self.loop.add_reader(accepted, lambda: self.begin(self.forget(accepted)))

    def drop(self, accepted: socket.socket) -> None:
        """Close a connection that has sent nothing."""
        metrics.CONNECTIONS_DROPPED.labels("handshake").inc()
        self.forget(accepted).close()

    def forget(self, accepted: socket.socket) -> socket.socket:
        """Stop waiting for a connection's first bytes."""
        self.silent.pop(accepted).cancel()
        self.loop.remove_reader(accepted)
        return accepted

    def end_stalled(self) -> bool:
        """End the oldest handshake that its client has left; return whether there is one."""
        late = self.loop.time() - STALLED
        for task, (accepted, since) in self.handshakes.items():
            if since > late:
                return False
            if not has_sent(accepted):
                metrics.CONNECTIONS_DROPPED.labels("handshake").inc()
                del self.handshakes[task]
                task.cancel()
                return True
        return False

    def begin(self, accepted: socket.socket) -> None:
        """Begin a connection."""
        task = self.loop.create_task(self.connect(accepted))
        self.handshakes[task] = accepted, self.loop.time()
        task.add_done_callback(lambda done: self.handshakes.pop(done, None))

    async def connect(self, accepted: socket.socket) -> None:
        """Agree on TLS, if this listener has it, and hand the connection to the HTTP server."""
        tls = {"ssl_handshake_timeout": self.limits.patience, "ssl_shutdown_timeout": CLOSING} if self.context else {}
        with contextlib.suppress(OSError):  # not TLS, or closed by the client
            await self.loop.connect_accepted_socket(self.server, accepted, ssl=self.context, **tls)


def has_sent(accepted: socket.socket) -> bool:
    """Whether a connection has sent something that has not been read, if only its end."""
    try:
        accepted.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
