"""Replaces the Service: a TCP balancer that behaves like kube-proxy and the kubelet together.

A new connection goes to a random endpoint; without an endpoint it is refused. An established connection
stays open even if its backend is no longer ready. A backend is an endpoint from the time at which /readyz answers 200
until /readyz has failed three times, the backend is terminated, or its process has ended.

`python -m tests.faults.balancer`; the commands are the public methods of `Balancer`.
"""

import asyncio
import os
import random
import socket
from dataclasses import dataclass, field
from typing import cast

from tests.faults.lines import obey

HOST = "127.0.0.1"
# Seconds of the readinessProbe in manifests/base/deployment.yaml, and its default failureThreshold.
PERIOD = 2.0
PATIENCE = 2.0
THRESHOLD = 3
# The kubelet checks once a second whether containers have ended.
NOTICED = 1.0
# Seconds from a pod's new state to new rules on all nodes: kube-proxy waits up to a second, EndpointSlices do not.
LAG = 0.5


@dataclass(eq=False)
class Backend:
    """A replica: its ports, and a descriptor that becomes readable when its process ends."""

    port: int
    health_port: int
    pidfd: int
    ready: bool = False
    leaving: bool = False  # True if it was terminated or has ended; it then never becomes an endpoint again
    connections: int = 0
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)


class Balancer:
    """The backends by name, and the port, which never changes."""

    def __init__(self) -> None:
        self.backends: dict[str, Backend] = {}
        self.loop = asyncio.get_running_loop()
        self.server: asyncio.Server | None = None
        self.changing = asyncio.Lock()
        # Bound but never listening: without a listener connections are refused, and no other program gets the port.
        self.holder = bound(0)
        self.number: int = self.holder.getsockname()[1]

    async def port(self) -> int:
        """Return the port to connect to."""
        return self.number

    async def add(self, name: str, port: int, health_port: int, pid: int) -> None:
        """Add a replica; it becomes an endpoint as soon as it is ready."""
        backend = Backend(port, health_port, os.pidfd_open(pid))
        self.backends[name] = backend
        self.loop.add_reader(backend.pidfd, self.ended, backend)
        backend.tasks.append(self.loop.create_task(self.probe(backend)))

    async def terminate(self, name: str) -> None:
        """Treat a replica's pod as terminating."""
        self.leave(self.backends[name], LAG)

    async def remove(self, name: str) -> None:
        """Remove a replica, if it was added."""
        backend = self.backends.pop(name, None)
        if backend is None:
            return
        self.loop.remove_reader(backend.pidfd)
        os.close(backend.pidfd)
        for task in backend.tasks:
            task.cancel()
        await self.listen()

    async def endpoints(self) -> list[str]:
        """Return the names of the backends that get new connections."""
        return [name for name, backend in self.backends.items() if backend in self.targets()]

    async def connections(self) -> dict[str, int]:
        """Return the number of connections of each backend."""
        return {name: backend.connections for name, backend in self.backends.items()}

    def targets(self) -> list[Backend]:
        return [backend for backend in self.backends.values() if backend.ready and not backend.leaving]

    def ended(self, backend: Backend) -> None:
        self.loop.remove_reader(backend.pidfd)
        self.leave(backend, NOTICED + LAG)

    def leave(self, backend: Backend, seconds: float) -> None:
        async def after_a_while() -> None:
            await asyncio.sleep(seconds)
            backend.leaving = True
            await self.listen()

        backend.tasks.append(self.loop.create_task(after_a_while()))

    async def probe(self, backend: Backend) -> None:
        """Probe the readiness of a backend at intervals, as the kubelet does."""
        failures = 0
        while True:
            begin = self.loop.time()
            failures = 0 if await is_ready(backend.health_port) else failures + 1
            if backend.ready != (failures == 0) and (failures == 0 or failures >= THRESHOLD):
                await asyncio.sleep(LAG)
                backend.ready = failures == 0
                await self.listen()
            await asyncio.sleep(max(0.0, begin + PERIOD - self.loop.time()))

    async def listen(self) -> None:
        """Listen only while there is an endpoint."""
        async with self.changing:
            if self.targets() and self.server is None:
                self.server = await self.loop.create_server(lambda: Incoming(self), sock=bound(self.number))
            elif not self.targets() and self.server is not None:
                self.server.close()
                self.server = None


class Half(asyncio.Protocol):
    """One side of a relayed connection; `other` is the transport of the other side."""

    def __init__(self) -> None:
        self.other: asyncio.Transport | None = None
        self.early = b""  # bytes that arrived before the other side was connected

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early += data
        else:
            self.other.write(data)

    def eof_received(self) -> bool:
        if self.other is not None and self.other.can_write_eof() and not self.other.is_closing():
            self.other.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            (self.other.close if exc is None else self.other.abort)()


class Incoming(Half):
    """A connection that the API server has opened."""

    def __init__(self, balancer: Balancer) -> None:
        super().__init__()
        self.balancer = balancer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        targets = self.balancer.targets()
        if not targets:
            self.transport.abort()
            return
        self.connecting = self.balancer.loop.create_task(
            self.connect(random.choice(targets))  # noqa: S311 - as kube-proxy's rules do, no secret
        )

    async def connect(self, backend: Backend) -> None:
        try:
            await self.balancer.loop.create_connection(lambda: Outgoing(backend, self), HOST, backend.port)
        except OSError:  # a pod that has just ended refuses; this connection was accepted already, so it is reset
            self.transport.abort()


class Outgoing(Half):
    """The connection to the backend."""

    def __init__(self, backend: Backend, incoming: Incoming) -> None:
        super().__init__()
        self.backend = backend
        self.incoming = incoming

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.backend.connections += 1
        if self.incoming.transport.is_closing():  # the client has closed it
            self.transport.abort()
            return
        self.other = self.incoming.transport
        self.incoming.other = self.transport
        self.transport.write(self.incoming.early)

    def connection_lost(self, exc: Exception | None) -> None:
        self.backend.connections -= 1
        super().connection_lost(exc)


def bound(port: int) -> socket.socket:
    """Return a socket on a port that other sockets of this program may share."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind((HOST, port))
    return found


async def is_ready(port: int) -> bool:
    """Return True if /readyz answers 200."""
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def main() -> None:
    balancer = Balancer()
    methods = (
        balancer.port,
        balancer.add,
        balancer.terminate,
        balancer.remove,
        balancer.endpoints,
        balancer.connections,
    )
    await obey({method.__name__: method for method in methods})


if __name__ == "__main__":
    asyncio.run(main())
