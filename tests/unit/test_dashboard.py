"""The Grafana dashboard reads existing metrics and labels, and its pictures in docs/ show its panels."""

import json
import re
from typing import Any, Final

import pytest

from tests.documents import document_of
from tests.unit.test_alerts import labels_by_series
from tools.generate import ROOT
from tools.generate.dashboard.grafana import DASHBOARD
from tools.generate.dashboard.panel import COLUMNS, JOB, Panel, Row, series
from tools.generate.dashboard.panels import ROWS
from tools.generate.metrics import collectors
from webhook import metrics

PANELS: Final[list[Panel]] = [panel for row in ROWS for panel in row.panels]
QUERIES: Final = [query for panel in PANELS for query in panel.queries]
COMMITTED: Final[dict[str, Any]] = json.loads((ROOT / DASHBOARD).read_text())
OVERLAY: Final = (ROOT / DASHBOARD).parent
LARGEST: Final = 150_000  # bytes of a picture
# These are about the leader of requested retries, about what only a developer looks at, and about fields of the policy
# that are off by default.
IN_NO_PANEL: Final = {
    *("leader_failures", "ledger_behind", "ledger_forbidden", "ledger_workloads", "policy_generation"),
    "api_busy",  # the API server has metrics of its own
    "objects_set_aside",  # the log names each object
    "steps_failed",  # the log has the error
    "events_dropped",  # Events are a convenience: the accounts have everything
    "ledger_evictions",  # Kueue has metrics of its own
    *("faulty_nodes", "rejecting_nodes", "ledger_hardware_faults", "ledger_attempt_seconds", "spot_zone_lost_ratio"),
    *("history_failures", "history_records", "history_records_waiting"),  # an alert tells
    "memory_growths",  # rare, and the annotation `memory` of each pod says it
}
# Shown by the state of the policy or of the certificate.
IN_ANOTHER_FORM: Final = {"policy_reloads", "policy_profiles", "certificate_renewals"}


def committed_panels() -> list[dict[str, Any]]:
    return [panel for panel in COMMITTED["panels"] if panel["type"] != "row"]


def committed_expressions() -> list[str]:
    return [target["expr"] for panel in committed_panels() for target in panel["targets"]]


def test_the_dashboard_has_every_panel_under_the_question_that_it_answers() -> None:
    titles = [panel["title"] for panel in COMMITTED["panels"]]
    assert titles == [title for row in ROWS for title in (row.question, *(panel.title for panel in row.panels))]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("expression", committed_expressions())
def test_a_query_of_the_committed_dashboard_reads_existing_metrics_and_labels(expression: str) -> None:
    known = labels_by_series()
    read = re.findall(r"(retry_policy_\w+)\{(.*?)\}", expression)
    assert len(read) == expression.count("retry_policy_") > 0
    for name, matchers in read:
        assert JOB in matchers
        assert set(re.findall(r'(\w+)=~?"', matchers)) <= known[name] | {"job"}
    grouped = {label for labels in re.findall(r"by \((.*?)\)", expression) for label in labels.split(", ")}
    assert grouped <= set.union(*(known[name] for name, _ in read)) | {"le", "pod"}


def test_a_legend_names_only_labels_that_its_query_keeps() -> None:
    for query in QUERIES:
        kept = {label for labels in re.findall(r"by \((.*?)\)", query.expression) for label in labels.split(", ")}
        assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= kept, query


def test_a_panel_cannot_name_a_label_that_its_metric_does_not_have() -> None:
    with pytest.raises(KeyError, match="colour"):
        series(metrics.REQUESTS, colour="red")


def test_every_metric_is_in_a_panel_or_deliberately_in_none() -> None:
    shown = set(re.findall(r"retry_policy_(\w+?)(?:_total|_bucket)?\{", "".join(committed_expressions())))
    every = {name.removeprefix("retry_policy_") for name in collectors()}
    assert every - shown == IN_NO_PANEL | IN_ANOTHER_FORM


def test_the_lines_of_panels_fill_the_width_of_the_dashboard() -> None:
    for row in ROWS:
        for line in row.lines:
            assert sum(panel.width for panel in line) == COLUMNS
    assert all(0 <= panel["gridPos"]["x"] <= COLUMNS - panel["gridPos"]["w"] for panel in committed_panels())


def test_the_ids_of_panels_differ() -> None:
    ids = [panel["id"] for panel in COMMITTED["panels"]]
    assert len(set(ids)) == len(ids)


def test_a_panel_says_what_it_tells_and_what_to_do() -> None:
    descriptions = {panel["title"]: panel["description"] for panel in committed_panels()}
    assert descriptions == {panel.title: f"{panel.tells} {panel.act}" for panel in PANELS}


def test_every_variable_of_a_query_is_defined() -> None:
    used = {name for expression in committed_expressions() for name in re.findall(r"\$(\w+)", expression)}
    defined = {variable["name"] for variable in COMMITTED["templating"]["list"]}
    assert used - {"__rate_interval", "__range"} == defined - {"datasource"}
    assert {panel["datasource"]["uid"] for panel in committed_panels()} == {"$datasource"}


def test_the_overlay_ships_the_dashboard_for_the_sidecar_of_grafana() -> None:
    (config_map,) = document_of((OVERLAY / "kustomization.yaml").read_text())["configMapGenerator"]
    assert config_map["files"] == ["dashboard.json"]
    assert config_map["options"] == {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_picture_of_a_row_shows_all_its_panels(row: Row) -> None:
    picture = (ROOT / "docs" / "how-to" / row.picture).read_text()
    assert len(picture) < LARGEST
    for title in (row.question, *(panel.title for panel in row.panels)):
        assert f">{title}<" in picture, "run: python -m tests.monitoring"
