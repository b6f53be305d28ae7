"""Compares what `simulate` predicts of a policy with what happened: `python -m tests.bench.week.compare FOLDER…`.

Each FOLDER is what `tests.bench.week --records` kept of a seed. From the records under one policy, each other policy is
predicted, and its run in the same week is the truth. `--write` keeps the figures for the page.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tests.bench.week.figures import DOCS
from tests.bench.week.keep import policy_in, records_in, truth_in
from tests.bench.week.policies import DEFAULT, OURS
from webhook.insight import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.bench.week.figures import Cell

WITHIN = 0.1  # of the truth
FIGURES = ("attempts", "node_seconds", "money")
REPLICATIONS = 100
PREDICTED = DOCS / "week-predicted.json"


class Compared(msgspec.Struct, frozen=True):
    """One figure of one policy, predicted from the records of another: the mean, its range, and the truth."""

    seed: int
    source: str
    policy: str
    figure: str
    predicted: float
    low: float
    high: float
    truth: float

    @property
    def error(self) -> float:
        """By what share of the truth the prediction is too high."""
        return self.predicted / self.truth - 1 if self.truth else 0.0


def compared(
    folder: Path, source: str, policy: str, predict: Callable[..., Any], *, of_server: bool = False
) -> Iterator[Compared]:
    """Yield the figures of a policy as predicted from the records of another one, beside the truth."""
    cell = truth_in(folder)[policy]
    prediction = predict(
        records_in(folder, source, of_server=of_server),
        policy_in(folder, source),
        policy_in(folder, policy),
        seed=cell.seed,
    )
    for figure, truth in truth_of(cell).items():
        one = getattr(prediction, figure)
        yield Compared(cell.seed, source, policy, figure, one.mean, one.low, one.high, truth)


def truth_of(cell: Cell) -> dict[str, float]:
    """Return what happened, under the names of a prediction."""
    return {
        "attempts": cell.attempts,
        "node_seconds": cell.seconds,
        "money": cell.money,
        "complete": cell.completed,
        "failed": sum(cell.failed.values()),
        "mean_time_to_finish": cell.mean_time_to_finish,
    }


def table(found: list[Compared]) -> str:
    """Return a row for each figure; one by which a prediction is judged is marked if it misses by more than a tenth."""
    rows = [("seed", "records of", "policy", "figure", "predicted", "range", "truth", "error", "")]
    for one in found:
        missed = one.figure in FIGURES and abs(one.error) > WITHIN
        rows.append(
            (
                *(str(one.seed), one.source, one.policy, one.figure, f"{one.predicted:,.0f}"),
                *(f"{one.low:,.0f} to {one.high:,.0f}", f"{one.truth:,.0f}", f"{one.error:+.1%}"),
                "MISS" if missed else "",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def summary(found: list[Compared] | None = None) -> str:
    """Return the table of docs/explanation/policies-compared.md: by how much each prediction misses, for each seed."""
    known = msgspec.json.decode(PREDICTED.read_bytes(), type=list[Compared]) if found is None else found
    figures = list(dict.fromkeys(one.figure for one in known))
    rows = [("Records of", "Predicted", *(figure.replace("_", " ") for figure in figures))]
    rows.append(("---",) * len(rows[0]))
    for source, policy in dict.fromkeys((one.source, one.policy) for one in known):
        own = sorted((one for one in known if (one.source, one.policy) == (source, policy)), key=lambda one: one.seed)
        errors = (", ".join(f"{one.error:+.1%}" for one in own if one.figure == figure) for figure in figures)
        rows.append((source, policy, *errors))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.week.compare", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--all", action="store_true", help="predict from the records of each policy, not of one alone")
    parser.add_argument("--write", action="store_true", help=f"write {PREDICTED.name}")
    parser.add_argument("--server", action="store_true", help="from the records that the server wrote")
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    options = parser.parse_args()
    predict = partial(simulate.predict, replications=options.replications)
    pairs = [(source, policy) for source, policy in permutations(OURS, 2) if options.all or source == DEFAULT]
    found = [
        one
        for folder in options.folders
        for source, policy in pairs
        for one in compared(folder, source, policy, predict, of_server=options.server)
    ]
    print(table(found))
    if options.write:
        PREDICTED.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=0) + b"\n")
    judged = [one for one in found if one.figure in FIGURES]
    print(f"{sum(abs(one.error) <= WITHIN for one in judged)} of {len(judged)} within {WITHIN:.0%}")


if __name__ == "__main__":
    main()
