"""Places for requests that wait for the API: their number is bounded, and no namespace can take all of them.

A request that is answered from the caches needs no place, so waiting requests cannot cause its refusal. A namespace may
have as many places as remain free: one namespace alone gets half of the places, two get a third each, and a namespace
without a waiting request gets a place as long as one is free. The same holds for the bytes of the bodies.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from webhook.kube.tasks import rest_of
from webhook.serving.limits import Limits

Result = TypeVar("Result")


class CrowdedError(Exception):
    """Too many requests wait for the API already: HTTP 429 with Retry-After."""


class Places:
    """Bounds the requests that wait for the API and the bytes of their bodies, whose objects are in memory.

    `is_known` returns True for a namespace that the server serves. All others count as one namespace: otherwise a
    client that invents names would have a share for each.
    """

    def __init__(self, limits: Limits, is_known: Callable[[str], bool]) -> None:
        self.limits = limits
        self.is_known = is_known
        self.requests = 0
        self.bytes = 0
        self.shares: dict[str, tuple[int, int]] = {}  # requests and bytes of each namespace with a waiting request

    async def wait(self, work: Coroutine[Any, Any, Result], namespace: str, size: int) -> Result:
        """Return the result of `work`; if `work` has to wait, hold a place for `size` bytes until it ends.

        Raise CrowdedError if there is no place, and close `work`, which cancels the look-up that it waits for.
        """
        try:
            awaited = work.send(None)
        except StopIteration as done:
            result: Result = done.value
            return result
        share = namespace if self.is_known(namespace) else ""
        if not self.has_room(share, size):
            work.close()
            raise CrowdedError(
                f"{self.requests} requests of {self.bytes} bytes wait for the API already; try again in a second"
            )
        self.count(share, 1, size)
        try:
            return await rest_of(work, awaited)
        finally:
            self.count(share, -1, -size)

    def has_room(self, share: str, size: int) -> bool:
        """Return True if one more request of a namespace may wait; also True if no other request waits."""
        if not self.requests:
            return True
        requests, held = self.shares.get(share, (0, 0))
        free = self.limits.waiting_bytes - self.bytes
        return requests < self.limits.requests - self.requests and held + size <= free

    def count(self, share: str, requests: int, size: int) -> None:
        """Add requests and bytes to the totals and to a namespace's share; negative numbers subtract."""
        self.requests += requests
        self.bytes += size
        before = self.shares.pop(share, (0, 0))
        if before[0] + requests:
            self.shares[share] = before[0] + requests, before[1] + size
