"""Writes records to a sink: the log, files, or a collector. What fails there delays nothing else."""

import asyncio
from typing import Final, Protocol

import structlog

from webhook import metrics
from webhook.history.waiting import WaitingLines
from webhook.kube.backoff import Backoff

PAUSE: Final = 1.0  # seconds between two batches
LONGEST_PAUSE: Final = 60.0  # seconds after failed writes
LARGEST: Final = 2**20  # bytes of a batch, about

log = structlog.get_logger()


class FailedError(Exception):
    """The sink does not take these lines now; the message says why."""


class RefusedError(Exception):
    """The sink refuses these lines, and would refuse them again."""


class Sink(Protocol):
    """Where records go."""

    @property
    def most(self) -> int:
        """How many lines it takes at once; there is at most one batch a second."""

    async def write(self, lines: list[bytes]) -> None:
        """Write lines, each without its line end.

        Raise FailedError, OSError or TimeoutError if it may succeed later, and RefusedError if it will not.
        """


class Writer:
    """Writes what `put` adds, in batches, until cancelled; after a failure the batch is tried again, later."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.waiting = WaitingLines()
        self.some = asyncio.Event()
        self.failing = False
        metrics.HISTORY_WAITING.set_function(lambda: self.waiting.number)

    def put(self, namespace: str, line: bytes) -> None:
        """Add the line of a record about a namespace."""
        if not self.waiting.put(namespace, line):
            self.dropped(1)
        self.some.set()

    async def run(self) -> None:
        """Write until cancelled."""
        backoff = Backoff(PAUSE, LONGEST_PAUSE)
        while True:
            await self.some.wait()
            self.some.clear()
            batch = self.waiting.take(self.sink.most, LARGEST)
            while batch:
                written = await self.written(batch)
                if written:
                    backoff.reset()
                await asyncio.sleep(PAUSE if written else backoff.take())
                batch = self.waiting.take(self.sink.most, LARGEST) if written else batch

    async def written(self, batch: list[bytes]) -> bool:
        """Write a batch; return False if it has to be tried again."""
        try:
            await self.sink.write(batch)
        except RefusedError as error:
            log.warning("history refused", records=len(batch), error=str(error))
            self.dropped(len(batch))
            return True
        except Exception as error:  # noqa: BLE001 - whatever a disk or a collector does, the server goes on
            metrics.HISTORY_FAILURES.inc()
            if not self.failing:
                log.warning("history not written", error=repr(error), waiting=self.waiting.number + len(batch))
            self.failing = True
            return False
        if self.failing:
            log.info("history written again", waiting=self.waiting.number)
        self.failing = False
        metrics.history("written").inc(len(batch))
        return True

    @staticmethod
    def dropped(number: int) -> None:
        """Count dropped records."""
        metrics.history("dropped").inc(number)
