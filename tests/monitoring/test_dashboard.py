"""After a scenario on a real control plane, each query of the dashboard has data in a real Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.monitoring import pictures, results
from tests.monitoring.alarms import REAL, provoke
from tests.monitoring.scenario import running
from tools.generate.dashboard.panels import ROWS
from tools.generate.rule_groups import recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.monitoring.results import Results

PANELS = [panel.title for row in ROWS for panel in row.panels]
FIRED = 'count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))'
# These show the state at the end of the scenario, when all is well; requests are answered faster than they are scraped.
MAY_BE_ZERO = {"Requests not answered", "At the last attempt", "Requests that wait", "Bytes of requests"}
LARGEST = 150_000  # bytes of a picture


class Seen(NamedTuple):
    """What the dashboard shows after the scenario, the recorded series, and the alerts that have fired at the end."""

    shown: Results
    recorded: dict[str, int]
    fired: set[str]


@pytest.fixture(scope="module")
def seen() -> Seen:
    with running() as scenario:
        shown = results.ask(scenario.prometheus, *scenario.run())
        series = {name: len(scenario.prometheus.query(name)) for name in recorded()}
        provoke(scenario)
        fired = {one["metric"]["alertname"] for one in scenario.prometheus.query(FIRED)}
    return Seen(shown, series, fired)


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_has_data_after_the_scenario(seen: Seen, panel: str) -> None:
    series = seen.shown.panels[panel]
    assert series
    values = [value for one in series for _, value in one.points]
    assert any(values) or panel in MAY_BE_ZERO


@pytest.mark.parametrize("alert", REAL)
def test_an_alert_fires_at_its_fault_in_a_real_prometheus(seen: Seen, alert: str) -> None:
    assert alert in seen.fired


@pytest.mark.parametrize("series", recorded())
def test_a_recording_rule_records_series(seen: Seen, series: str) -> None:
    assert seen.recorded[series]


def test_the_dashboard_can_be_drawn_and_equal_results_make_equal_pictures(seen: Seen, tmp_path: Path) -> None:
    files = pictures.draw(seen.shown, tmp_path)
    before = [file.read_bytes() for file in files]
    assert [file.read_bytes() for file in pictures.draw(seen.shown, tmp_path)] == before
    assert [file.name for file in files if file.stat().st_size > LARGEST] == []
