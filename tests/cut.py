"""A TCP relay that can be cut: its target cannot be reached until the relay is repaired."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Relay:
    """Relays to a port of this machine; `cut` closes every connection and refuses new ones until `mend`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.open: list[socket.socket] = []
        self.whole = threading.Event()
        self.whole.set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                incoming, _ = self.listener.accept()
                if not self.whole.is_set():
                    incoming.close()
                    continue
                outgoing = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self.open += [incoming, outgoing]
            for source, sink in ((incoming, outgoing), (outgoing, incoming)):
                threading.Thread(target=pump, args=(source, sink), daemon=True).start()

    def cut(self) -> None:
        self.whole.clear()
        while self.open:
            connection = self.open.pop()
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def mend(self) -> None:
        self.whole.set()


def pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def relaying(target: int) -> Iterator[Relay]:
    relay = Relay(target)
    try:
        yield relay
    finally:
        relay.cut()
        relay.listener.close()
