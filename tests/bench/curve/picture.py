"""Draws docs/reference/scale.svg: memory, start, look-ups and the controller's CPU over the number of Jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib import pyplot as plt

from tests.bench.curve.figures import CONTROLLER, DOCS, WEBHOOK, Run, curve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

mpl.use("svg")
PICTURE = DOCS / "scale.svg"


def draw(found: Sequence[Run], output: Path = PICTURE) -> None:
    of = curve(found)
    plt.rcParams.update({"svg.hashsalt": "scale", "font.size": 9})
    figure, (memory, start, looking, leading) = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
    sizes: dict[str, Callable[[Run], float]] = {
        "webhook": lambda run: run.started(WEBHOOK).memory,
        "its highest": lambda run: run.started(WEBHOOK).peak,
        "controller": lambda run: run.started(CONTROLLER).memory,
        "its highest ": lambda run: run.started(CONTROLLER).peak,
    }
    lines(memory, of, "memory, MiB", sizes)
    times: dict[str, Callable[[Run], float]] = {
        "ready": lambda run: run.started(WEBHOOK).ready,
        "all pods listed": lambda run: run.started(WEBHOOK).listed,
    }
    lines(start, of, "start of a webhook, seconds", times)
    lines(looking, of, "/mutate of a pod, ms", {"median": lambda run: run.p50, "p99": lambda run: run.p99})
    costs: dict[str, Callable[[Run], float]] = {
        "controller": lambda run: run.disruption.controller / 1000 if run.disruption else 0,
        "webhook": lambda run: run.disruption.webhook / 1000 if run.disruption else 0,
    }
    lines(leading, of, "CPU for a disruption, ms", costs)
    for axes in (memory, start):
        axes.set(yscale="log")  # where a line that is no steeper than the diagonal is linear
    for axes in (looking, leading):
        axes.set(ylim=(0, None))
    figure.savefig(output, metadata={"Date": None})
    plt.close(figure)


def lines(axes: Axes, found: Sequence[Run], title: str, values: dict[str, Callable[[Run], float]]) -> None:
    for label, value in values.items():
        axes.plot([run.jobs for run in found], [*map(value, found)], marker="o", label=label)
    axes.set(xscale="log", xlabel="Jobs, with 1.5 pods each", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
