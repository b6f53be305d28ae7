"""What is in the house: how many bytes of requests are held has an end."""

import asyncio
from typing import TYPE_CHECKING, Final

from webhook.serving.limits import Limits

if TYPE_CHECKING:
    from webhook.serving.http11 import Connection

HASTE: Final = 1.0  # seconds within which a body that is still arriving grows by STRIDE, or else makes room for others
STRIDE: Final = 64 * 1024


class Intake:
    """The requests of one listener. A client that sends slowly takes no place, only room for what it has sent.

    `held`: bytes of all bodies, from when they arrive until the answer. `arriving`: those that did not come at once, in
    the order in which they began.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0
        self.arriving: dict[Connection, None] = {}

    def hold(self, connection: "Connection", size: int) -> None:
        """Count bytes that have arrived."""
        connection.held += size
        self.held += size
        if self.arriving and connection in self.arriving:
            self.arrive(connection)

    def release(self, connection: "Connection") -> None:
        """Give back what a connection's request has taken."""
        self.held -= connection.held
        connection.held = 0
        connection.body = b""
        self.arriving.pop(connection, None)

    def arrive(self, connection: "Connection") -> None:
        """Note that a body has grown that is not all there yet; where too much is held, make room."""
        now = asyncio.get_running_loop().time()
        if connection not in self.arriving or connection.held >= connection.grown + STRIDE:
            connection.grown, connection.grown_at = connection.held, now
            self.arriving[connection] = None
        if self.held > self.limits.held_bytes:
            self.make_room(connection, now)

    def make_room(self, connection: "Connection", now: float) -> None:
        """Give up bodies that arrive slowly, then those that began last, down to the one that has just grown."""
        slow = [other for other in self.arriving if other.grown_at < now - HASTE]
        quick = [other for other in self.arriving if other.grown_at >= now - HASTE]
        for other in (*slow, *reversed(quick)):
            if other is connection:
                other.refuse_for_now(f"requests of {self.held} bytes are here")
                return
            other.refuse_for_now("slow bodies make room for others")
            if self.held <= self.limits.held_bytes:
                return
