"""Reports that the API server is busy: it refuses requests for now, with 429 and a Retry-After."""

import time
from collections.abc import Callable
from typing import Final

import structlog

from webhook import metrics

LOGGED_EVERY: Final = 30.0  # seconds

log = structlog.get_logger()


class Busy:
    """Counts the refused requests, and logs them at most every LOGGED_EVERY seconds; `clock`: monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.logged = float("-inf")
        self.refused = 0  # since the last line of the log

    def __call__(self, method: str, seconds: float) -> None:
        """Record a request that the API server wants again after so many seconds."""
        metrics.API_BUSY.labels(method).inc()
        self.refused += 1
        if self.clock() - self.logged >= LOGGED_EVERY:
            what = "the API server is busy: it refuses requests of this server for now, which are sent again later"
            log.warning(what, refused=self.refused, last=method, wants_it_after=seconds)
            self.logged, self.refused = self.clock(), 0
