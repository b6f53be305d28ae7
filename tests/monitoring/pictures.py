"""Draws the rows of the dashboard as Grafana would, from what Prometheus answers to their queries.

The layout depends only on the panels. An equal input makes an equal file.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tools.generate.dashboard.panel import COLUMNS
from tools.generate.dashboard.panels import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from matplotlib.axes import Axes

    from tests.monitoring.results import Results, Series
    from tools.generate.dashboard.panel import Panel, Row

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "retry-policy",  # equal names of parts in each run
    "font.family": "sans-serif",
    "font.size": 8,
    "axes.edgecolor": "#c7cbd1",
    "axes.linewidth": 0.6,
    "text.color": "#24292e",
    "axes.labelcolor": "#24292e",
    "xtick.color": "#6b7079",
    "ytick.color": "#6b7079",
}
WIDTH = 13.0  # inches of a picture
TALL, LOW = 2.5, 1.7  # inches of a line of panels; a line of single numbers is lower
HEADING = 0.35
GAP = 0.10
COLOURS = ("#3274d9", "#e0752d", "#299c46", "#8f3bb8", "#e5ac0e", "#d44a3a", "#33a2b5", "#a35a2a", "#6b7079", "#c4388f")
LEVELS = {"green": "#299c46", "orange": "#e0752d", "red": "#d44a3a", "grey": "#b4b9c0"}
PLAIN = "#3274d9"
MOST_NAMED = 6  # series in a legend
LARGE_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw all rows, each into a file of its own; return the files."""
    files = []
    for row in ROWS:
        with mpl.rc_context():
            for name, value in STYLE.items():
                mpl.rcParams[name] = value
            figure = picture(row, results)
            files.append(folder / row.picture)
            figure.savefig(files[-1], format="svg", metadata={"Date": None, "Creator": None})
    return files


def picture(row: Row, results: Results) -> Figure:
    """Return the picture of a row."""
    lines = list(row.lines)
    heights = [TALL if any(panel.kind != "stat" for panel in line) else LOW for line in lines]
    height = HEADING + sum(heights)
    figure = Figure(figsize=(WIDTH, height), facecolor="#f4f5f5")
    figure.text(GAP / WIDTH, 1 - HEADING / height / 2, row.question, fontsize=12, fontweight="bold", va="center")
    top = height - HEADING
    for line, tall in zip(lines, heights, strict=True):
        left = 0
        for panel in line:
            place(figure, panel, results, (left / COLUMNS * WIDTH, top - tall, panel.width / COLUMNS * WIDTH, tall))
            left += panel.width
        top -= tall
    return figure


def place(figure: Figure, panel: Panel, results: Results, box: tuple[float, float, float, float]) -> None:
    """Draw a panel into a box: left, bottom, width and height in inches."""
    left, bottom, width, height = box
    total = figure.get_figheight()
    card = figure.add_axes(
        ((left + GAP / 2) / WIDTH, (bottom + GAP / 2) / total, (width - GAP) / WIDTH, (height - GAP) / total)
    )
    card.set(xticks=[], yticks=[], facecolor="white")
    card.text(0.10 / width, 1 - 0.20 / height, panel.title, fontweight="bold", va="center", transform=card.transAxes)
    series = results.panels[panel.title]
    if panel.kind == "stat":
        draw_numbers(card, panel, series)
        return
    inner = (0.55, 0.55, width - 0.75, height - 1.0) if panel.kind != "bars" else (0.1, 0.1, width - 0.2, height - 0.55)
    axes = figure.add_axes(
        ((left + inner[0]) / WIDTH, (bottom + inner[1]) / total, inner[2] / WIDTH, inner[3] / total), facecolor="none"
    )
    DRAWN[panel.kind](axes, panel, series, results.seconds)


def draw_numbers(card: Axes, panel: Panel, series: list[Series]) -> None:
    """Show the value of each series, one beside the other."""
    for number, one in enumerate(series):
        at = (number + 0.5) / len(series)
        colour = level_of(panel, one.last)
        size = 20 if len(series) == 1 else 14
        shown = said(panel, round(one.last) if panel.unit == "short" else one.last)
        card.text(at, 0.50, shown, fontsize=size, color=colour, ha="center", va="center", transform=card.transAxes)
        card.text(at, 0.30, one.name, fontsize=7, color="#6b7079", ha="center", va="center", transform=card.transAxes)


def draw_bars(axes: Axes, _panel: Panel, series: list[Series], _: float) -> None:
    """Show the value of each series as a bar, the longest first."""
    ordered = sorted(series, key=lambda one: (-one.last, one.name))
    most = max((one.last for one in ordered), default=1) or 1
    for number, one in enumerate(ordered):
        axes.barh(number + 0.34, 1, height=0.26, color="#eceef0")
        axes.barh(number + 0.34, one.last / most, height=0.26, color=PLAIN)
        axes.text(0, number, one.name, va="center", fontsize=7.5)
        axes.text(1, number, f"{one.last:,.0f}", va="center", ha="right", fontsize=7.5, fontweight="bold")
    axes.set(xlim=(0, 1), ylim=(max(len(ordered), 5) - 0.4, -0.35))
    axes.set_axis_off()


def draw_lines(axes: Axes, panel: Panel, series: list[Series], seconds: float) -> None:
    """Show each series as a line."""
    for one, colour in zip(series, colours(series), strict=True):
        times, values = zip(*one.points, strict=True)
        axes.plot(times, values, color=colour, linewidth=1.3, label=one.name)
    finish(axes, panel, series, seconds)


def draw_stack(axes: Axes, panel: Panel, series: list[Series], seconds: float) -> None:
    """Show the series one above the other, without those that are always 0."""
    risen = [one for one in series if any(value for _, value in one.points)]
    times = sorted({time for one in risen for time, _ in one.points})
    values = [[dict(one.points).get(time, 0.0) for time in times] for one in risen]
    if risen:
        chosen = colours(risen)
        areas = axes.stackplot(times, values, colors=chosen, labels=[one.name for one in risen], linewidth=0.8)
        for area, colour in zip(areas, chosen, strict=True):
            area.set(alpha=0.55, edgecolor=colour)
    finish(axes, panel, risen, seconds)


def draw_states(axes: Axes, panel: Panel, series: list[Series], seconds: float) -> None:
    """Show when each series was 0 and when it was 1."""
    assert panel.words is not None
    for number, one in enumerate(series):
        for begin, end, at in spans(one):
            axes.broken_barh([(begin, end - begin)], (number + 0.15, 0.7), facecolors=level_of(panel, at))
    axes.set(yticks=[number + 0.5 for number in range(len(series))], yticklabels=[one.name for one in series])
    axes.tick_params(axis="y", length=0, labelsize=7, pad=2)
    axes.set_ylim(max(len(series), 1), 0)
    frame(axes, seconds)
    for number, (state, word) in enumerate(zip((1, 0), reversed(panel.words), strict=True)):
        colour = level_of(panel, state)
        axes.text(number * 0.4, -0.28, f"■ {word}", color=colour, fontsize=7.5, transform=axes.transAxes)


def spans(one: Series) -> Iterator[tuple[float, float, bool]]:
    """Yield begin, end and state of each time in which a series had the same state; none where it has a gap."""
    step = min((later - sooner for (sooner, _), (later, _) in pairwise(one.points)), default=1.0)
    begin, state = one.points[0]
    for (time, _), (later, value) in pairwise(one.points):
        if later - time > 1.5 * step:
            yield begin, time + step, bool(state)
            begin, state = later, value
        elif value != state:
            yield begin, later, bool(state)
            begin, state = later, value
    yield begin, one.points[-1][0] + step, bool(state)


def finish(axes: Axes, panel: Panel, series: list[Series], seconds: float) -> None:
    """Draw axes and legend of a panel over time."""
    axes.set_ylim(bottom=0)
    if axes.get_ylim()[1] < 1 and not series:
        axes.set_ylim(0, 1)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: said(panel, value)))
    axes.grid(axis="y", color="#eceef0", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    frame(axes, seconds)
    if series:
        handles, labels = legend_of(axes)
        axes.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.13),
            ncols=max(2, round(axes.get_position().width * 12)),
            frameon=False,
            fontsize=7,
            handlelength=1.0,
            handletextpad=0.4,
            columnspacing=1.0,
            labelspacing=0.2,
            borderaxespad=0.3,
        )


def legend_of(axes: Axes) -> tuple[list[Any], list[str]]:
    """Return the first entries of a legend; the last one says how many more series there are."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > MOST_NAMED:
        labels = [*labels[: MOST_NAMED - 1], f"and {len(labels) - MOST_NAMED + 1} more"]
    return handles[: len(labels)], labels


def frame(axes: Axes, seconds: float) -> None:
    """Draw the axis of time."""
    axes.set_xlim(0, seconds)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 3, 6, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value // 60:.0f}:{value % 60:02.0f}"))
    axes.tick_params(labelsize=7, length=2)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def colours(series: list[Series]) -> list[str]:
    """Return a colour for each series."""
    return [COLOURS[number % len(COLOURS)] for number, _ in enumerate(series)]


def level_of(panel: Panel, value: float) -> str:
    """Return the colour of a number."""
    reached = [colour for bound, colour in panel.levels if value >= bound]
    return LEVELS[reached[-1]] if reached else PLAIN


def said(panel: Panel, value: float) -> str:
    """Return a value in the unit of its panel."""
    if panel.words is not None:
        return panel.words[bool(value)]
    match panel.unit:
        case "percentunit":
            return f"{value:.1%}"
        case "s" if 0 < value < 1:
            return f"{value * 1000:.3g} ms"
        case "s":
            return f"{value:.3g} s"
        case "reqps":
            return f"{value:.3g} /s"
        case "d":
            return f"{value:,.0f} days"
        case "bytes":
            for size, name in LARGE_UNITS:
                if value >= size:
                    return f"{value / size:.3g} {name}"
            return f"{value:.0f} B"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


DRAWN: dict[str, Callable[[Axes, Panel, list[Series], float], None]] = {
    "bars": draw_bars,
    "lines": draw_lines,
    "stack": draw_stack,
    "states": draw_states,
}
