"""A period of load, and what came of the admissions in it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from tests.awaiting import until
from tests.faults.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.program import Program

RATE = 100  # Jobs a second, each with two calls: what a machine with two cores can do beside other work
CALM = 100  # admissions before a fault and after it


@dataclass
class Watched:
    """A period of load: how often the fault was tried, the results of the admissions, and the reasons of lost ones."""

    fault: str
    load: Program
    tries: int = 1
    note: str = ""
    laps: list[Tally] = field(default_factory=list)

    @property
    def tally(self) -> Tally:
        return sum(self.laps, Tally())

    @property
    def seconds(self) -> float:
        """The longest time in a lap from the first lost admission to the last."""
        return max((lap.seconds for lap in self.laps), default=0.0)

    def lap(self) -> Tally:
        """Return the results of the admissions since the last lap."""
        self.laps.append(msgspec.convert(self.load.ask("lap"), Tally))
        return self.laps[-1]

    def until_sent(self, admissions: int = CALM) -> None:
        """Wait until the API server has answered this number of further admissions."""
        begin = self.load.ask("answered")
        until(lambda: self.load.ask("answered") >= begin + admissions)


@contextlib.contextmanager
def under_load(
    load: Program, table: list[Watched], fault: str, *, from_the_start: bool = False, rate: int = RATE, burst: int = 1
) -> Iterator[Watched]:
    """Load the API server while the block runs, and before and after it; record the results in the table.

    `from_the_start`: the block begins while admission does not work yet.
    """
    watched = Watched(fault, load)
    table.append(watched)
    load.ask("start", rate, burst)
    try:
        if not from_the_start:
            watched.until_sent()
        yield watched
        watched.until_sent()
    finally:
        watched.laps.append(msgspec.convert(load.ask("stop"), Tally))
