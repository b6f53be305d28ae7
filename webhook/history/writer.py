"""Writes records to a sink: the log, files, or a collector. What fails there delays nothing else."""

import asyncio
from collections import deque
from typing import Final, Protocol

import structlog

from webhook import metrics
from webhook.kube.backoff import Backoff

MOST: Final = 10_000  # lines


class WaitingLines:
    """The lines that wait, by namespace, the oldest first.

    Beyond MOST lines, the oldest of the namespace with the most lines is dropped: the noise of one namespace does not
    displace the history of another.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.lines: dict[str, deque[bytes]] = {}
        self.number = 0

    def put(self, namespace: str, line: bytes) -> bool:
        """Add a line; return False if another one was dropped for it."""
        self.lines.setdefault(namespace, deque()).append(line)
        self.number += 1
        if self.number <= self.most:
            return True
        fullest = max(self.lines, key=lambda name: len(self.lines[name]))
        self.pop(fullest)
        return False

    def take(self, most: int, size: int) -> list[bytes]:
        """Remove and return lines: at most so many, and about `size` bytes; the namespaces take turns."""
        found: list[bytes] = []
        while self.lines and len(found) < most and size > 0:
            for namespace in list(self.lines):
                if len(found) < most and size > 0:
                    found.append(self.pop(namespace))
                    size -= len(found[-1])
        return found

    def pop(self, namespace: str) -> bytes:
        """Remove and return the oldest line of a namespace."""
        lines = self.lines[namespace]
        line = lines.popleft()
        self.number -= 1
        if not lines:
            del self.lines[namespace]
        return line


PAUSE: Final = 1.0  # seconds between two batches
LONGEST_PAUSE: Final = 60.0  # seconds after failed writes
LARGEST: Final = 2**20  # bytes of a batch, about

log = structlog.get_logger()


class FailedError(Exception):
    """The sink does not take these lines now; the message says why."""


class RefusedRecordsError(Exception):
    """The sink refuses these lines, and would refuse them again."""


class Sink(Protocol):
    """Where records go."""

    @property
    def most(self) -> int:
        """How many lines it takes at once; there is at most one batch a second."""

    async def write(self, lines: list[bytes]) -> None:
        """Write lines, each without its line end.

        Raise FailedError, OSError or TimeoutError if it may succeed later, and RefusedRecordsError if it will not.
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
        except RefusedRecordsError as error:
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
