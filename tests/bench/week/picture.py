"""Draws docs/explanation/week.svg: the Jobs that are complete over the week, node-hours, money, and time, by policy."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib import pyplot as plt

from tests.bench.week.draw import DAY
from tests.bench.week.figures import DOCS
from tests.bench.week.policies import DEFAULT, ON_DEMAND, RULES, STOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from tests.bench.week.figures import Cell

mpl.use("svg")
PICTURE = DOCS / "week.svg"
COLOURS = {ON_DEMAND: "#c0c0c0", STOCK: "#7a7a7a", DEFAULT: "#2f6fb0", RULES: "#d98032"}
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def draw(cells: Sequence[Cell], output: Path = PICTURE) -> None:
    plt.rcParams.update({"svg.hashsalt": "week", "font.size": 9})
    figure, axes = plt.subplots(1, 5, figsize=(12, 3.4), layout="constrained", width_ratios=(5, 2, 2, 2, 2))
    draw_complete(axes[0], cells)
    draw_bars(axes[1], cells, "node-hours lost", lambda cell: sum(cell.lost.values()) / 3600)
    draw_bars(axes[2], cells, "USD", lambda cell: cell.money)
    draw_bars(axes[3], cells, "hours of a good Job", lambda cell: mean(cell.times))
    draw_bars(axes[4], cells, "hours of a bug", lambda cell: mean(cell.bug_times or [0]))
    figure.savefig(output, metadata={"Date": None})
    plt.close(figure)


def draw_complete(axes: Axes, cells: Sequence[Cell]) -> None:
    """Draw how many Jobs were complete at each hour, in the week of the first seed."""
    first = [cell for cell in cells if cell.seed == cells[0].seed]
    week = first[0].days * DAY
    for cell in shown(first):
        axes.step(
            [0, *cell.finished], range(cell.completed + 1), color=COLOURS[cell.policy], label=cell.policy, where="post"
        )
    axes.axhline(first[0].total, color="black", linewidth=0.8, linestyle=":")
    axes.set(title="Jobs complete", xlim=(0, week), ylim=(0, None))
    axes.set_xticks(range(0, week, DAY), DAYS[: first[0].days], ha="left")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")


def draw_bars(axes: Axes, cells: Sequence[Cell], title: str, of: Callable[[Cell], float]) -> None:
    """Draw a figure of each policy: the mean over the seeds."""
    heights = [mean(of(cell) for cell in cells if cell.policy == policy) for policy in COLOURS]
    bars = axes.bar(range(len(heights)), heights, color=[*COLOURS.values()])
    axes.bar_label(bars, fmt="{:,.0f}" if max(heights) > 20 else "{:.1f}", fontsize=8)
    axes.set(title=title)
    axes.set_xticks([])
    axes.grid(axis="y", alpha=0.3)


def shown(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells of the policies that have a colour."""
    return [cell for policy in COLOURS for cell in cells if cell.policy == policy]
