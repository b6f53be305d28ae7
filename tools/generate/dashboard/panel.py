"""A panel of the dashboard, and the parts of its queries, which take their names from the metrics of the server."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from prometheus_client.metrics import MetricWrapperBase

from tools.generate.metrics import family_of, labels_of

COLUMNS: Final = 24  # of a dashboard in Grafana
# Grafana replaces these: a window that has at least four scrapes, and the time that the dashboard shows.
WINDOW: Final = "$__rate_interval"
RANGE: Final = "$__range"
JOB: Final = 'job=~"$job"'

# stat: one number for each series. bars: one bar for each series. lines, stack: over time. states: 1 or 0 over time.
Kind = Literal["stat", "bars", "lines", "stack", "states"]
INSTANT: Final = ("stat", "bars")


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, and how its series are named; `{{LABEL}}` in the name is the value of a label."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What a panel shows, what it tells, and what an operator does about it.

    `unit`: one of Grafana's. `levels`: from which value on a number is green, orange, red or grey. `words`: shown in
    place of the values 0 and 1. `width`: in columns.
    """

    title: str
    kind: Kind
    queries: tuple[Query, ...]
    tells: str
    act: str
    unit: str = "short"
    levels: tuple[tuple[float, str], ...] = ()
    words: tuple[str, str] | None = None
    width: int = 8

    @property
    def description(self) -> str:
        """What Grafana shows when the pointer is on the panel."""
        return f"{self.tells} {self.act}"


@dataclass(frozen=True, slots=True)
class Row:
    """Panels that answer one question."""

    name: str
    question: str
    panels: tuple[Panel, ...]

    @property
    def picture(self) -> str:
        """The name of the file in docs/how-to that shows it."""
        return f"dashboard-{self.name}.svg"

    @property
    def lines(self) -> Iterator[list[Panel]]:
        """As many panels as fit beside each other, each time."""
        ends, total = [], 0
        for panel in self.panels:
            ends.append(total // COLUMNS)
            total += panel.width
        for _, line in groupby(zip(ends, self.panels, strict=True), key=lambda one: one[0]):
            yield [panel for _, panel in line]


def series(metric: MetricWrapperBase, *conditions: str, **values: str) -> str:
    """Return the selector of a metric's series; `values` are regular expressions, by label.

    `conditions` are written as they are. Raise KeyError for a label that the metric does not have.
    """
    for label in values:
        if label not in labels_of(metric):
            raise KeyError(label)
    chosen = [JOB, *conditions, *(f'{label}=~"{value}"' for label, value in values.items())]
    return f"{name_of(metric)}{{{', '.join(chosen)}}}"


def name_of(metric: MetricWrapperBase) -> str:
    """Return the name of the series that Prometheus reads."""
    family = family_of(metric)
    return family.name + {"counter": "_total", "histogram": "_bucket"}.get(family.type, "")


def rate(selector: str, *labels: str, factor: str = "") -> str:
    """Return the sum of the rates of counters, for each combination of some labels."""
    return f"{factor}sum{by(*labels)} (rate({selector}[{WINDOW}]))"


def happened(selector: str, *labels: str) -> str:
    """Return by how much counters rose in the shown time, for each combination of some labels.

    `increase` does not see the first event of a series, because the series begins with 1. So a series that did not
    exist at the beginning of the shown time counts with its value.
    """
    new = f"last_over_time({selector}[{RANGE}]) unless {selector} offset {RANGE}"
    return f"sum{by(*labels)} (({new}) or increase({selector}[{RANGE}]))"


def by(*labels: str) -> str:
    """Return the clause that keeps some labels."""
    return f" by ({', '.join(labels)})" if labels else ""
