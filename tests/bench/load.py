"""A constant load on a server; each answer is checked."""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.served import Served, request

Judge = Callable[[int, bytes], bool]  # returns True if an answer with this status and body is right


@dataclass(slots=True)
class Tally:
    """The results of the requests; `wrong` has the first five wrong answers."""

    sent: int = 0
    unavailable: int = 0  # 503, after which the API server tries again
    wrong: list[str] = field(default_factory=list)


@contextlib.contextmanager
def load(served: Served, path: str, body: bytes, per_second: int, is_right: Judge) -> Iterator[Tally]:
    """Send `body` over one connection at a constant rate while the block runs."""
    tally = Tally()
    stop = threading.Event()

    def run() -> None:
        begin = time.monotonic()
        with contextlib.closing(served.connect()) as connection:
            while not stop.wait(max(0.0, begin + tally.sent / per_second - time.monotonic())):
                send(connection, tally)

    def send(connection: http.client.HTTPSConnection, tally: Tally) -> None:
        reply = request(connection, "POST", path, body)
        tally.sent += 1
        if reply.status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            tally.unavailable += 1
        elif not is_right(reply.status, reply.body) and len(tally.wrong) < 5:
            tally.wrong.append(f"{reply.status} {reply.body[:500]!r}")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield tally
    finally:
        stop.set()
        thread.join()
