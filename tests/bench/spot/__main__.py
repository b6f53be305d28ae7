"""What a deadline costs on recorded spot markets: `python -m tests.bench.spot FOLDER`, FOLDER with spot_traces.json.gz.

Each Job is one pod, in a region with all of its zones that were recorded, or in one zone; `replay.py` says what is
assumed. Prints what its policies cost, over on-demand, when the last Job was done, over the shortest time, how many
Jobs were late where on-demand would not have been, and by how much the median trace cost more than two bounds for
whoever had known the market before: one who moves running pods between zones for nothing, and back to spot nodes from
on-demand ones, and one who moves no pod that runs.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import TYPE_CHECKING, Final

from tests.bench.spot import picture
from tests.bench.spot.picture import Dot
from tests.bench.spot.replay import (
    START,
    Case,
    Trace,
    at_best,
    at_best_unmoved,
    profiles,
    replay,
    settings_of,
    trace_of,
)
from webhook.policy.model import Profile

if TYPE_CHECKING:
    from collections.abc import Iterator


HOUR: Final = 3600
WORK: Final = (1, 4, 12, 48)  # hours
CHECKPOINT: Final = 1800
FACTORS: Final = (1.25, 1.5, 2.0)
BOUNDS: Final = (at_best, at_best_unmoved)
SHORTEST: Final = 96.0  # hours of a trace: two days of work, twice


def traces_in(folder: Path, shortest: float = SHORTEST) -> list[Trace]:
    """Return the traces that are long enough and have any spot node; `shortest`: in hours."""
    file = folder / "spot_traces.json.gz" if folder.is_dir() else folder
    with gzip.open(file, "rt", encoding="utf-8") as text:
        found = [trace_of(root) for root in json.load(text)["traces"]]
    return [trace for trace in found if trace.length >= shortest * HOUR and trace.spans]


def regions_of(traces: list[Trace]) -> list[list[Trace]]:
    """Return for each trace that and those of the other zones of its region."""
    return [[trace, *(one for one in traces if one.place == trace.place and one is not trace)] for trace in traces]


def begins_of(trace: Trace, starts: int) -> list[float]:
    chance = Random(trace.name)  # noqa: S311 - no secret
    return [chance.uniform(0, trace.length) for _ in range(starts)]


class Line:
    """What one policy made of one case on all traces."""

    def __init__(self, case: Case, profile: Profile, markets: list[list[Trace]], starts: int) -> None:
        self.ideal = case.work + START
        settings = settings_of(profile, case)
        due = None if settings.deadline is None else settings.deadline.due(0.0, 1)
        costs, finishes = [], []
        self.bounds: list[list[float]] = [[] for _ in BOUNDS]
        for zones in markets:
            begins = begins_of(zones[0], starts)
            results = [replay(case, settings, zones, begin) for begin in begins]
            costs.append(mean(result.cost for result in results))
            finishes += [result.finished for result in results]
            if due is not None:
                for bound, known in zip(BOUNDS, self.bounds, strict=True):
                    known.append(mean(bound(case, due, zones, begin) for begin in begins))
        self.cost = mean(costs) / self.ideal
        self.worst = max(finishes) / self.ideal
        self.late = None if due is None else sum(finished > due + 1 for finished in finishes)
        self.over = [[cost / least for cost, least in zip(costs, known, strict=False)] for known in self.bounds]

    def cell(self) -> str:
        if self.late is None:
            return f"{self.cost:.2f}, {'never' if self.worst == inf else f'{self.worst:.2g}x'}"
        over = [f"+{median(costs) - 1:.0%}" for costs in self.over]
        return f"{self.cost:.2f}, {self.late} late, {', '.join(over)}"


def rows(markets: list[list[Trace]], starts: int) -> Iterator[list[str]]:
    """Yield the rows of the table: the policies without a deadline, then each deadline."""
    kinds = (None, CHECKPOINT)
    cases = [Case(hours * HOUR, checkpoint) for hours in WORK for checkpoint in kinds]
    for name, under in profiles().items():
        yield [name, *(Line(case, under, markets, starts).cell() for case in cases)]
    packaged = Profile()
    for factor in FACTORS:
        late = [replace(case, factor=factor) for case in cases]
        yield [f"deadline {factor:g}x", *(Line(case, packaged, markets, starts).cell() for case in late)]
        telling = [replace(case, tells=case.checkpoint is not None) for case in late]
        cells = [Line(case, packaged, markets, starts).cell() if case.tells else "" for case in telling]
        yield [f"deadline {factor:g}x, with `progress`", *cells]


def draw(markets: list[list[Trace]], starts: int) -> None:
    """Draw the picture of Jobs of twelve hours with checkpoints."""
    case = Case(12 * HOUR, CHECKPOINT)
    without = {name: Line(case, under, markets, starts) for name, under in profiles().items()}
    timed = {factor: Line(replace(case, factor=factor), Profile(), markets, starts) for factor in FACTORS}
    picture.draw(
        [Dot(name.replace("`", ""), line.cost, line.worst) for name, line in without.items()],
        [Dot(f"{factor:g}x", line.cost, line.worst) for factor, line in timed.items()],
        [
            [Dot(f"{factor:g}x", mean(line.bounds[number]) / line.ideal, line.worst) for factor, line in timed.items()]
            for number in range(len(BOUNDS))
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spot", description=__doc__)
    parser.add_argument("folder", type=Path, help="with spot_traces.json.gz, or such a file")
    parser.add_argument("--shortest", type=float, default=SHORTEST, help="hours of a trace that is used")
    parser.add_argument("--starts", type=int, default=400, help="Jobs on each trace")
    parser.add_argument("--picture", action="store_true", help=f"draw {picture.PICTURE.name} instead")
    options = parser.parse_args()
    traces = traces_in(options.folder, options.shortest)
    if not traces:
        parser.error(f"no trace is {options.shortest:g} hours long; name less with --shortest")
    if options.picture:
        draw(regions_of(traces), options.starts)
        return
    print(f"{len(traces)} traces, {options.starts} Jobs on each")
    heads = [f"{hours} h{', checkpoints' if kind else ''}" for hours in WORK for kind in (None, CHECKPOINT)]
    for place, markets in (("a region", regions_of(traces)), ("one zone", [[trace] for trace in traces])):
        print(f"\n| In {place} | {' | '.join(heads)} |")
        print("| --- " * (len(heads) + 1) + "|")
        for row in rows(markets, options.starts):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
