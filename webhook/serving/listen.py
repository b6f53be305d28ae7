"""Accepts connections and does their TLS handshakes, in bounded time and number.

uvloop's own server accepts every connection, and a TLS handshake takes 25 to 65 KiB from its start: 10,000 connections
that send nothing would take all memory, and other clients would wait behind them ("TCP without TLS" in
tests/bench/hostile_clients.py).
"""

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from webhook import metrics
from webhook.serving.connections import ARRIVES_WITHIN, Connections
from webhook.serving.limits import raise_open_files
from webhook.serving.server import Routes, Server

BACKLOG: Final = 1024  # connections that the kernel holds until they are accepted
AT_ONCE: Final = 16  # connections accepted in one iteration of the event loop; open connections wait for that long
# Bytes that the kernel keeps unread for a connection. By default it may keep 32 MiB, which count as memory of the
# container; and the buffers of the TLS layer grow with the size of one read, and never shrink.
RECEIVE_BUFFER: Final = 32 * 1024
STALLED: Final = 3.0  # seconds that a handshake may wait for its client while other connections wait for a handshake
ROOM_POLL: Final = 0.02  # seconds between two checks for a free handshake
LAST_ANSWERS: Final = 5.0  # seconds to finish requests in progress on shutdown


class CannotListenError(Exception):
    """The address cannot be used; the message has a remedy."""


async def listen(
    stack: contextlib.AsyncExitStack,
    routes: Routes,
    address: tuple[str, int],
    context: ssl.SSLContext | None,
) -> str:
    """Listen on a host and port until the stack exits; return HOST:PORT, with the chosen port if `address` has port 0.

    Raise CannotListenError if the address cannot be used.
    """
    raise_open_files()
    connections = Connections(routes.bodies.limits, lambda reason: metrics.CONNECTIONS_DROPPED.labels(reason).inc())
    if context is not None:
        metrics.CONNECTIONS.set_function(lambda: len(connections.open))
    stack.callback(connections.abort)
    acceptor = Acceptor(Server(routes, connections), connections, context)
    stack.callback(acceptor.abort)
    stack.push_async_callback(connections.drain, LAST_ANSWERS, opening=acceptor.is_opening)
    try:
        sockets = await _bind(*address)
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


async def _bind(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of a host; raise OSError or UnicodeError if there cannot be one."""
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
    """Accepts connections, and begins a TLS handshake when the client sends its first bytes.

    A connection without a byte takes little memory; if there are too many, the oldest is closed. A handshake in
    progress is not ended for a newer one: on a machine with little CPU this would end those that are nearly complete,
    and their clients would begin again. While too many handshakes are in progress, new connections stay in the kernel.
    """

    def __init__(self, server: Server, connections: Connections, context: ssl.SSLContext | None) -> None:
        self.server = server
        self.connections = connections
        self.limits = connections.limits
        self.context = context
        self.loop = asyncio.get_running_loop()
        self.silent: dict[socket.socket, asyncio.TimerHandle] = {}  # connections without a byte, oldest first
        self.handshakes: dict[asyncio.Task[None], tuple[socket.socket, float]] = {}  # with their start; oldest first

    def open(self, listening: socket.socket) -> None:
        """Accept the connections of a listening socket from now on, if the socket is still open."""
        if listening.fileno() >= 0:
            self.loop.add_reader(listening, self.accept, listening)

    def close(self, listening: socket.socket) -> None:
        """Accept the connections that have arrived until now, and no later ones."""
        for _ in range(BACKLOG // AT_ONCE):
            self.accept(listening)
        self.loop.remove_reader(listening)
        listening.close()

    def is_opening(self) -> bool:
        """Return True if a connection was accepted, or its handshake has begun, within ARRIVES_WITHIN."""
        late = self.loop.time() - ARRIVES_WITHIN
        accepted = [timer.when() - self.limits.client_timeout for timer in self.silent.values()]
        begun = [since for _, since in self.handshakes.values()]
        return any(since > late for since in accepted + begun)

    def abort(self) -> None:
        """Close all connections whose handshake is not complete."""
        for accepted in list(self.silent):
            self.forget(accepted).close()
        for task in self.handshakes:
            task.cancel()

    def accept(self, listening: socket.socket) -> None:
        """Accept up to AT_ONCE connections; pause if too many handshakes are in progress or too many files are open."""
        for _ in range(AT_ONCE):
            if len(self.handshakes) >= self.limits.handshakes and not self.end_stalled():
                self.pause(listening, ROOM_POLL)
                return
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no file descriptor is free until a connection is closed
                if not self.connections.make_room():
                    self.pause(listening, 1.0)
                return
            accepted.settimeout(0)
            if self.context is None or _has_sent(accepted):
                self.begin(accepted)
            else:
                self.wait_for_first_bytes(accepted)

    def pause(self, listening: socket.socket, seconds: float) -> None:
        """Leave new connections in the kernel for some seconds."""
        self.loop.remove_reader(listening)
        self.loop.call_later(seconds, self.open, listening)

    def wait_for_first_bytes(self, accepted: socket.socket) -> None:
        """Begin the handshake when the client sends its first bytes; if too many wait for that, close the oldest."""
        if len(self.silent) >= self.limits.silent:
            self.drop(next(iter(self.silent)))
        self.silent[accepted] = self.loop.call_later(self.limits.client_timeout, self.drop, accepted)
        self.loop.add_reader(accepted, lambda: self.begin(self.forget(accepted)))

    def drop(self, accepted: socket.socket) -> None:
        """Close a connection without a byte."""
        metrics.CONNECTIONS_DROPPED.labels("handshake").inc()
        self.forget(accepted).close()

    def forget(self, accepted: socket.socket) -> socket.socket:
        """Stop waiting for the first bytes of a connection, and return its socket."""
        self.silent.pop(accepted).cancel()
        self.loop.remove_reader(accepted)
        return accepted

    def end_stalled(self) -> bool:
        """End the oldest handshake whose client has sent nothing for it since STALLED seconds; return True if so."""
        late = self.loop.time() - STALLED
        for task, (accepted, since) in self.handshakes.items():
            if since > late:
                return False
            if not _has_sent(accepted):
                metrics.CONNECTIONS_DROPPED.labels("handshake").inc()
                del self.handshakes[task]
                task.cancel()
                return True
        return False

    def begin(self, accepted: socket.socket) -> None:
        """Begin the handshake of a connection."""
        task = self.loop.create_task(self.connect(accepted))
        self.handshakes[task] = accepted, self.loop.time()
        task.add_done_callback(lambda done: self.handshakes.pop(done, None))

    async def connect(self, accepted: socket.socket) -> None:
        """Do the TLS handshake, if this listener uses TLS, and pass the connection to the HTTP server."""
        timeout = self.limits.client_timeout
        # The rest of a large answer is sent while TLS is shut down.
        tls = {"ssl_handshake_timeout": timeout, "ssl_shutdown_timeout": timeout} if self.context else {}
        with contextlib.suppress(OSError):  # not TLS, or closed by the client
            await self.loop.connect_accepted_socket(self.server, accepted, ssl=self.context, **tls)


def _has_sent(accepted: socket.socket) -> bool:
    """Return True if a connection has bytes that are not read yet, or was closed by the client."""
    try:
        accepted.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
