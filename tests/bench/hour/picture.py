"""Draws docs/explanation/hour.svg: the Jobs that are complete over the hour, and the node-seconds, by policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib import pyplot as plt

from tests.bench.hour.draw import HOUR
from tests.bench.hour.figures import DOCS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from tests.bench.hour.figures import Cell

mpl.use("svg")
PICTURE = DOCS / "hour.svg"
COLOURS = ("#8c8c8c", "#d98032", "#2f6fb0")


def draw(cells: Sequence[Cell], output: Path = PICTURE) -> None:
    plt.rcParams.update({"svg.hashsalt": "hour", "font.size": 9})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", width_ratios=(3, 2))
    draw_complete(left, cells)
    draw_seconds(right, cells)
    figure.savefig(output, metadata={"Date": None})
    plt.close(figure)


def draw_complete(axes: Axes, cells: Sequence[Cell]) -> None:
    """Draw how many Jobs were complete at each minute."""
    for cell, colour in zip(cells, COLOURS, strict=True):
        times = [0.0, *sorted(time for times in cell.finished.values() for time in times)]
        numbers = range(len(times) + 1)
        axes.step([*times, HOUR], [*numbers[:-1], numbers[-2]], color=colour, label=cell.policy, where="post")
    axes.axhline(cells[0].total, color="black", linewidth=0.8, linestyle=":")
    axes.set(xlabel="minute", title="Jobs complete", xlim=(0, HOUR), ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")


def draw_seconds(axes: Axes, cells: Sequence[Cell]) -> None:
    """Draw the node-seconds, those that were wasted on top."""
    places, useful = range(len(cells)), [cell.useful for cell in cells]
    wasted = [cell.wasted for cell in cells]
    axes.bar(places, useful, color=COLOURS)
    axes.bar(places, wasted, bottom=useful, color="white", edgecolor=COLOURS, hatch="///")
    axes.set(title="node-seconds (hatched: wasted)")
    axes.set_xticks(places, [cell.policy.replace(" ", "\n", 1) for cell in cells])
    axes.grid(axis="y", alpha=0.3)
