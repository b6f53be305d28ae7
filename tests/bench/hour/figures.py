"""What an hour came to under each policy: the table of docs/explanation/policies-compared.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.bench.hour.draw import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCS = Path(__file__).parents[3] / "docs" / "explanation"
MEASURED = DOCS / "hour.json"


class Cell(msgspec.Struct):
    """One policy in one hour.

    `finished`: when each Job was complete, in minutes, by kind. `failed`: Jobs that were given up, by kind. `attempts`:
    pods that have started. `interruptions`: pods that were lost with their spot node; `again`: those of a Job that had
    lost one before. `useful` and `wasted`: seconds that pods ran on nodes, in attempts that succeeded or still
    ran at the end of the hour, and in all others. `spot`: the part of both on spot nodes. `load`: of the machine on
    which this was measured.
    """

    policy: str
    jobs: dict[str, int]
    finished: dict[str, list[float]]
    failed: dict[str, int]
    attempts: int
    interruptions: int
    again: int
    useful: float
    wasted: float
    spot: float
    load: float

    @property
    def total(self) -> int:
        return sum(self.jobs.values())

    @property
    def complete(self) -> int:
        """How many Jobs were complete within the hour."""
        return sum(map(len, self.finished.values()))


def table(cells: Sequence[Cell] | None = None) -> str:
    """Return the table of docs/explanation/policies-compared.md."""
    measured = read() if cells is None else cells
    head = (
        *("Policy", "Jobs complete"),
        *(f"{kind}" for kind in KINDS),
        *(
            "given up",
            "attempts",
            "interrupted",
            "again",
            "node-seconds",
            "of these wasted",
            "wasted for each complete Job",
        ),
    )
    rows = [head, ("---",) * len(head), *(row(cell) for cell in measured)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def headline(hour: str) -> str:
    """Return what rules change in an hour; `hour`: the words for it."""
    stock, without, ruled = read()
    return (
        f"In {hour} of programs that run out of memory, and of bad nodes,\n"
        f"{ruled.complete} of {ruled.total} Jobs complete with three rules, {without.complete} without rules, "
        f"{stock.complete} without a webhook.\n"
    )


def row(cell: Cell) -> tuple[str, ...]:
    return (
        *(cell.policy, f"{cell.complete} of {cell.total}"),
        *(f"{len(cell.finished[kind])} of {cell.jobs[kind]}" for kind in KINDS),
        *(f"{sum(cell.failed.values())}", f"{cell.attempts}", f"{cell.interruptions}", f"{cell.again}"),
        *(f"{cell.useful + cell.wasted:,.0f}", f"{cell.wasted:,.0f}", f"{cell.wasted / max(1, cell.complete):,.0f}"),
    )


def read() -> list[Cell]:
    return msgspec.json.decode(MEASURED.read_bytes(), type=list[Cell])


def write(cells: Sequence[Cell], output: Path = MEASURED) -> None:
    output.write_bytes(msgspec.json.format(msgspec.json.encode(cells), indent=1) + b"\n")
