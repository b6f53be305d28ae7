"""What a week came to under each policy: the table of docs/explanation/policies-compared.md."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import msgspec

from tests.bench.week.policies import DEFAULT, ON_DEMAND, RULES, STOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DOCS = Path(__file__).parents[3] / "docs" / "explanation"
MEASURED = DOCS / "week.json"


class Cell(msgspec.Struct, kw_only=True):
    """One policy in one week. Hours, seconds and US dollars are those of the simulated market.

    `jobs`, `complete`, `failed`: by what is wrong with them. `finished`: when each Job was complete, in hours.
    `times`: the hours from the creation of each good Job to its end; `bug_times`: those of each Job with a bug.
    `mean_time_to_finish`: seconds, of all Jobs that are complete. `attempts`: pods that ended; `started`: those of them
    that ran. `lost`: seconds of attempts that did not succeed, by why. `load`: of the machine that measured this.
    """

    policy: str
    seed: int
    days: int
    jobs: dict[str, int]
    complete: dict[str, int]
    failed: dict[str, int]
    finished: list[float]
    times: list[float]
    bug_times: list[float]
    mean_time_to_finish: float
    attempts: int
    started: int
    disruptions: int
    spot_seconds: float
    on_demand_seconds: float
    spot_money: float
    on_demand_money: float
    lost: dict[str, float]
    load: float

    @property
    def total(self) -> int:
        return sum(self.jobs.values())

    @property
    def completed(self) -> int:
        return sum(self.complete.values())

    @property
    def seconds(self) -> float:
        return self.spot_seconds + self.on_demand_seconds

    @property
    def money(self) -> float:
        return self.spot_money + self.on_demand_money

    @property
    def goodput(self) -> float:
        """The share of the seconds that pods had in which they did what their Job needed."""
        return 1 - sum(self.lost.values()) / self.seconds


HEAD = (
    *("Policy", "Jobs complete", "failed", "attempts", "disrupted", "node-hours", "on spot", "lost to disruptions"),
    *("lost to bugs", "lost otherwise", "USD", "USD for each complete Job"),
    *("hours of a good Job", "95 %", "hours of a bug"),
)
BUGS = ("bug", "memory")


def headline(week: str, cells: Sequence[Cell] | None = None) -> str:
    """Return what rules change in a week, in three lines; `week`: the words for it."""
    measured = read() if cells is None else cells

    def of(policy: str, figure: Callable[[Cell], float]) -> str:
        return f"{mean(figure(cell) for cell in measured if cell.policy == policy):,.0f}"

    def complete(cell: Cell) -> float:
        return cell.completed

    def money(cell: Cell) -> float:
        return cell.money

    def lost(cell: Cell) -> float:
        return sum(cell.lost.values()) / 3600

    def bug(policy: str) -> float:
        return mean(mean(cell.bug_times) for cell in measured if cell.policy == policy)

    return (
        f"In {week} of {measured[0].total} Jobs on a spot market, {of(RULES, complete)} are complete with "
        f"`disruptions.limit: 3` and three rules of `onFailure`,\n{of(STOCK, complete)} without a webhook, "
        f"{of(DEFAULT, complete)} under the default policy, which takes exit code 75 for a bug.\n"
        f"With the rules they cost {of(RULES, money)} USD instead of {of(STOCK, money)} on spot "
        f"and {of(ON_DEMAND, money)} on-demand. "
        f"Attempts that lead to nothing\ntake {of(RULES, lost)} node-hours instead of {of(STOCK, lost)}. "
        f"A bug has failed its Job after {bug(RULES):.1f} hours instead of {bug(STOCK):.1f}.\n"
    )


def table(cells: Sequence[Cell] | None = None) -> str:
    """Return the table of docs/explanation/policies-compared.md: the means over all seeds."""
    measured = read() if cells is None else cells
    order = {cell.policy: number for number, cell in reversed([*enumerate(measured)])}
    grouped = groupby(sorted(measured, key=lambda cell: order[cell.policy]), key=lambda cell: cell.policy)
    rows = [HEAD, ("---",) * len(HEAD), *(row([*group]) for _, group in grouped)]
    return "".join(f"| {' | '.join(columns)} |\n" for columns in rows)


def row(cells: list[Cell]) -> tuple[str, ...]:
    """Return the row of one policy."""

    def hours(of: tuple[str, ...]) -> str:
        return f"{mean(sum(cell.lost.get(name, 0) for name in of) for cell in cells) / 3600:,.0f}"

    others = tuple(sorted({name for cell in cells for name in cell.lost} - {"disruption", *BUGS}))
    times = sorted(time for cell in cells for time in cell.times)
    return (
        *(cells[0].policy, f"{mean(cell.completed for cell in cells):.0f} of {cells[0].total}"),
        f"{mean(sum(cell.failed.values()) for cell in cells):.0f}",
        *(f"{mean(cell.attempts for cell in cells):,.0f}", f"{mean(cell.disruptions for cell in cells):.0f}"),
        f"{mean(cell.seconds for cell in cells) / 3600:,.0f}",
        f"{sum(cell.spot_seconds for cell in cells) / max(1, sum(cell.seconds for cell in cells)):.0%}",
        *(hours(("disruption",)), hours(BUGS), hours(others)),
        f"{mean(cell.money for cell in cells):,.0f}",
        f"{sum(cell.money for cell in cells) / max(1, sum(cell.completed for cell in cells)):.2f}",
        *(f"{mean(mean(cell.times) for cell in cells):.1f}", f"{times[int(0.95 * len(times))]:.1f}"),
        f"{mean(mean(cell.bug_times or [0]) for cell in cells):.1f}",
    )


def read(file: Path = MEASURED) -> list[Cell]:
    return msgspec.json.decode(file.read_bytes(), type=list[Cell])


def write(cells: Sequence[Cell], output: Path = MEASURED) -> None:
    output.write_bytes(msgspec.json.format(msgspec.json.encode(cells), indent=0) + b"\n")
