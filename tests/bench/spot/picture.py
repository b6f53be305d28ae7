"""Draws docs/how-to/deadlines.svg: what a Job of twelve hours with checkpoints costs, over the time that it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import matplotlib as mpl
from matplotlib import pyplot as plt

mpl.use("svg")
PICTURE: Final = Path(__file__).parents[3] / "docs" / "how-to" / "deadlines.svg"
NEVER: Final = 60.0  # times the shortest time, where a Job that is never done stands


class Dot(NamedTuple):
    """A policy: its cost over that of on-demand nodes, and when the last Job was done, over the shortest time."""

    name: str
    cost: float
    worst: float


def draw(without: list[Dot], deadlines: list[Dot], bounds: list[list[Dot]], output: Path = PICTURE) -> None:
    """Draw policies without a deadline, those with one, and what they would cost whoever knew the market.

    `bounds`: if that moves running pods, and if it moves none.
    """
    plt.rcParams.update({"svg.hashsalt": "deadlines", "font.size": 9})
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    known = ("market known, pods moved for nothing", "market known, no running pod moved")
    for bound, line, label in zip(bounds, (":", "--"), known, strict=True):
        axes.plot([dot.worst for dot in bound], [dot.cost for dot in bound], line, color="#888", label=label)
    axes.plot(
        [dot.worst for dot in deadlines], [dot.cost for dot in deadlines], "o-", label="with a deadline, none late"
    )
    axes.plot([min(dot.worst, NEVER) for dot in without], [dot.cost for dot in without], "s", label="without")
    for dot in (*without, *deadlines):
        place = (min(dot.worst, NEVER), dot.cost)
        axes.annotate(dot.name, place, textcoords="offset points", xytext=(5, 5))
    axes.set(
        xscale="log",
        xlabel="the last Job is done after so many times the shortest time",
        ylabel="cost, over on-demand nodes",
        xlim=(0.95, NEVER * 2.2),
        ylim=(0, 1.1),
    )
    ticks = [1, 1.5, 2, 5, 10, 20, 50]
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(output, metadata={"Date": None})
    plt.close(figure)
