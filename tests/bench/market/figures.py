"""What the rounds of the market came to, in units of the on-demand run beside each; and the table of all."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import msgspec

MEASURED = Path(__file__).parents[3] / "docs" / "explanation" / "market.json"
ON_DEMAND = "on-demand, no webhook"
SPOT_PRICE = 0.3  # of an on-demand machine's
TIME_WANTED = 2  # on-demand's
KINDS = ("one pod", "20 pods")


class Kind(msgspec.Struct):
    """The good Jobs of one pod, or of many, under one policy; times in minutes from each Job's creation."""

    jobs: int
    failed: int  # good Jobs that were given up
    finished: list[float]
    minutes: float  # of machines, a spot machine's at its price


class Cell(msgspec.Struct):
    """One policy in one market."""

    life: float  # of spot machines, in mean Jobs
    seed: int
    policy: str
    kinds: dict[str, Kind]
    bug_pods: int  # that the Jobs with a bug started
    bugs_over: int  # Jobs with a bug that had ended
    minutes: float  # of machines, of all Jobs
    disruptions: int
    load: float  # of the machine it was measured on


@dataclass(frozen=True)
class Line:
    """One policy at one mean life, over all seeds, beside on-demand."""

    life: float
    policy: str
    cells: list[Cell] = field(repr=False)
    beside: list[Cell] = field(repr=False)

    def slowest(self, kind: str) -> list[float | None]:
        """Return the slowest good Job's time over on-demand's slowest, by seed; None where one did not finish."""
        return [
            max(cell.kinds[kind].finished) / max(other.kinds[kind].finished) if self.whole(cell, kind) else None
            for cell, other in self.pairs
        ]

    def costs(self, kind: str) -> list[float]:
        """Return what the good Jobs cost over what they did on-demand, by seed."""
        return [cell.kinds[kind].minutes / other.kinds[kind].minutes for cell, other in self.pairs]

    @property
    def cost(self) -> float:
        """What all good Jobs cost over what they did on-demand."""
        return _of_good(self.cells) / _of_good(self.beside)

    @property
    def failed(self) -> int:
        return sum(kind.failed for cell in self.cells for kind in cell.kinds.values())

    @property
    def in_time(self) -> int:
        """How many good Jobs finished within the time that is wanted."""
        return sum(
            one <= TIME_WANTED * max(other.kinds[kind].finished)
            for cell, other in self.pairs
            for kind in KINDS
            for one in cell.kinds[kind].finished
        )

    @property
    def jobs(self) -> int:
        return sum(kind.jobs for cell in self.cells for kind in cell.kinds.values())

    @property
    def pairs(self) -> list[tuple[Cell, Cell]]:
        return list(zip(self.cells, self.beside, strict=True))

    @staticmethod
    def whole(cell: Cell, kind: str) -> bool:
        return len(cell.kinds[kind].finished) == cell.kinds[kind].jobs


def _of_good(cells: list[Cell]) -> float:
    return sum(kind.minutes for cell in cells for kind in cell.kinds.values())


def slowest_on_demand(cells: list[Cell]) -> float:
    """Return how long the slowest good Job took on-demand, in minutes; infinity where one did not finish."""
    (found,) = (cell for cell in cells if cell.policy == ON_DEMAND)
    whole = all(Line.whole(found, kind) for kind in KINDS)
    return max(max(found.kinds[kind].finished) for kind in KINDS) if whole else math.inf


def lines(cells: list[Cell]) -> list[Line]:
    """Return a line for each policy at each mean life, in the order of measuring."""
    order = {cell.policy: number for number, cell in reversed([*enumerate(cells)])}
    by_life = sorted(cells, key=lambda cell: (cell.life, order[cell.policy], cell.seed))
    grouped = {key: [*group] for key, group in groupby(by_life, key=lambda cell: (cell.life, cell.policy))}
    return [Line(life, policy, found, grouped[life, ON_DEMAND]) for (life, policy), found in grouped.items()]


def table(cells: list[Cell] | None = None) -> str:
    """Return the table of docs/explanation/policies-compared.md."""
    measured = msgspec.json.decode(MEASURED.read_bytes(), type=list[Cell]) if cells is None else cells
    head = (
        *("Spot life", "Policy", "Good Jobs in time", "given up"),
        *(f"slowest, {kind}" for kind in KINDS),
        "cost",
        *(f"cost, {kind}" for kind in KINDS),
        *("disruptions", "pods started by the bugs", "machine-minutes of all"),
    )
    rows = [head, ("---",) * len(head), *(row(line) for line in lines(measured))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def row(line: Line) -> tuple[str, ...]:
    cells = line.cells
    return (
        *(f"{line.life:g}", line.policy, f"{line.in_time} of {line.jobs}", f"{line.failed}"),
        *(by_seed(line.slowest(kind)) for kind in KINDS),
        f"{line.cost:.2f}",
        *(by_seed(line.costs(kind)) for kind in KINDS),
        *(f"{sum(cell.disruptions for cell in cells)}", f"{sum(cell.bug_pods for cell in cells)}"),
        f"{sum(cell.minutes for cell in cells):,.0f}",
    )


def by_seed(ratios: list[float] | list[float | None]) -> str:
    return ", ".join("never" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
