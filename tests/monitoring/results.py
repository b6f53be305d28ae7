"""What Prometheus answers to the queries of the dashboard, named as Grafana names it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import msgspec

from tools.generate.dashboard.panel import INSTANT, RANGE, WINDOW
from tools.generate.dashboard.panels import ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.monitoring.prometheus import Prometheus
    from tools.generate.dashboard.panel import Panel

POINTS = 60  # of a series over time
AVERAGED = 15  # seconds, for Grafana's window: the dashboard of a cluster shows hours, and this one minutes
VARIABLES = {"$job": ".+", "$namespace": ".*", "$profile": ".*"}


class Series(msgspec.Struct, frozen=True):
    """A series with its name, and its points: seconds from the begin of what is shown, and values."""

    name: str
    points: list[tuple[float, float]]

    @property
    def last(self) -> float:
        return self.points[-1][1]


class Results(msgspec.Struct, frozen=True):
    """The series of each panel by its title, over some seconds."""

    seconds: float
    panels: dict[str, list[Series]]


def ask(prometheus: Prometheus, begin: float, end: float) -> Results:
    """Return what the dashboard shows from `begin` to `end`, in Unix time."""
    panels = {panel.title: series_of(prometheus, panel, begin, end) for row in ROWS for panel in row.panels}
    return Results(end - begin, panels)


def series_of(prometheus: Prometheus, panel: Panel, begin: float, end: float) -> list[Series]:
    """Return the series of a panel, in the order of its queries and of their names."""
    found = []
    for query in panel.queries:
        expression = substituted(query.expression, end - begin)
        if panel.kind in INSTANT:
            answer = [(one["metric"], [one["value"]]) for one in prometheus.query(expression, at=end)]
        else:
            step = (end - begin) / POINTS
            answer = [(one["metric"], one["values"]) for one in prometheus.over_time(expression, begin, end, step)]
        named = [Series(name_of(query.legend, metric), points(values, begin)) for metric, values in answer]
        found += sorted((one for one in named if one.points), key=lambda one: one.name)
    return found


def points(values: list[list[Any]], begin: float) -> list[tuple[float, float]]:
    """Return the points of a series, without those that are no number, as Grafana draws it."""
    read = [(round(time - begin, 1), float(value)) for time, value in values]
    return [(time, value) for time, value in read if math.isfinite(value)]


def substituted(expression: str, seconds: float) -> str:
    """Return an expression with the dashboard's variables replaced, as Grafana does it."""
    for variable, value in {**VARIABLES, WINDOW: f"{AVERAGED}s", RANGE: f"{math.ceil(seconds)}s"}.items():
        expression = expression.replace(variable, value)
    return expression


def name_of(legend: str, labels: Mapping[str, str]) -> str:
    """Return the name of a series."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)
