"""What a report looks like: in a terminal, as JSON, as CSV."""

import csv
import io
import json
from typing import Any

import msgspec
import pytest

from tests.unit.insight.report.facts import a_dollar_an_hour, attempt, reported, workload
from tests.unit.insight.report.test_build import many_at
from webhook.cli.terminal import widths_of
from webhook.insight.report import render
from webhook.insight.report.model import Report
from webhook.insight.report.sums import unpriced
from webhook.objects import columns

SPOT: dict[str, Any] = {"capacity": "Spot", "node": "spot-1", "zone": "z1"}


def made(*, priced: bool = True) -> Report:
    nightly = [
        workload(
            attempt(
                "ExitCode", reason="main 1", cost="fatal", retries_left=3, number=number, workload=f"n{number}", hours=4
            ),
            name=f"n{number}",
            owner="CronJob/nightly",
            state="Failed",
        )
        for number in range(3)
    ]
    train = workload(
        attempt("Disruption", reason="PreemptionByScheduler", number=7, retries_left=3, disruptions_left=0, **SPOT),
        attempt(number=8, end=12, **SPOT),
        state="Running",
    )
    return reported(train, *nightly, price_of=a_dollar_an_hour if priced else unpriced)


def text(report: Report) -> str:
    return "\n".join(columns.lines(render.parts(report)))


def test_the_text_says_what_was_used_lost_and_saved_and_why() -> None:
    assert text(made()).splitlines() == [
        "All namespaces: until 2026-11-17T00:00:00Z, from history",
        "4 workloads, of which 0 complete and 3 failed",
        "",
        "                   ATTEMPTS   HOURS   CORE HOURS   GIB HOURS   USD     SHARE",
        "used               5          14.0    56.0         112         12.50   100 %",
        "  on spot          2          2.0     8.0          16.0        0.50    4 %",
        "  on-demand        0          0.0     0.0          0.0         0.00    0 %",
        "  elsewhere        3          12.0    48.0         96.0        12.00   96 %",
        "lost               4          13.0    52.0         104         12.25   98 %",
        "  to bugs          3          12.0    48.0         96.0        12.00   96 %",
        "  to disruptions   1          1.0     4.0          8.0         0.25    2 %",
        "",
        "Goodput: 2 % of what was used",
        "",
        "Saved: 36.00 USD by 9 retries that bugs did not have; 1.50 USD on spot nodes, compared with on-demand",
        "",
        "The 2 workloads that lost most:",
        "WORKLOAD                      ATTEMPTS   LOST   HOURS LOST   USD LOST   WHY",
        "ml/CronJob/nightly (3 Jobs)   3          3      12.0         12.00      ExitCode 3 (main 1)",
        "ml/Job/train                  2          1      1.0          0.25       Disruption 1 (PreemptionByScheduler)",
        "",
        "Running, with no retry or no disruption left:",
        "WORKLOAD       RETRIES LEFT   DISRUPTIONS LEFT",
        "ml/Job/train   3              0",
    ]


def test_without_prices_the_text_has_hours_alone() -> None:
    found = text(made(priced=False))
    assert "USD" not in found
    assert "Saved: 144 core-hours by 9 retries that bugs did not have" in found


def test_nodes_whose_hardware_has_ended_attempts_are_listed() -> None:
    broken = text(reported(*many_at("broken", "Hardware")))
    assert "Nodes whose hardware has ended attempts:" in broken
    assert ["broken", "z2", "10"] in [line.split() for line in broken.splitlines()]
    assert "explains, although they succeed elsewhere" not in broken


def test_lemons_are_listed_and_nothing_is_said_without_any() -> None:
    lemon = text(reported(*many_at("lemon", "ExitCode")))
    assert "Where more workloads fail than chance explains, although they succeed elsewhere:" in lemon
    (row,) = [line.split() for line in lemon.splitlines() if line.startswith("node ")]
    assert row[:6] == ["node", "lemon", "z2", "spot", "10", "10"]
    assert "chance" not in text(made())


def test_only_ten_workloads_are_listed_and_notes_stand_at_the_end() -> None:
    many = [
        workload(attempt("ExitCode", number=number, workload=f"w{number}"), name=f"w{number}") for number in range(30)
    ]
    report = msgspec.structs.replace(reported(*many), notes=["nodes cannot be listed"])
    found = text(report)
    assert found.count("ml/Job/w") == 10
    assert found.endswith("\n\nnote: nodes cannot be listed")


def test_an_empty_report_is_two_lines() -> None:
    assert text(reported()).splitlines() == [
        "All namespaces: until 2026-11-17T00:00:00Z, from history",
        "0 workloads, of which 0 complete and 0 failed",
    ]


def test_the_json_is_the_report() -> None:
    report = made()
    assert msgspec.json.decode(render.as_json(report).encode(), type=Report) == report
    assert json.loads(render.as_json(report))["version"] == 1


def test_the_csv_has_a_line_for_each_workload_with_the_documented_columns() -> None:
    rows = list(csv.DictReader(io.StringIO(render.as_csv(made()))))
    assert [row["name"] for row in rows] == ["n0", "n1", "n2", "train"]
    train = rows[-1]
    assert tuple(train) == render.COLUMNS
    assert (train["attempts"], train["attempts_lost"], train["attempts_lost_to_disruptions"]) == ("2", "1", "1")
    assert (train["cpu_core_seconds"], train["memory_gib_seconds_lost"]) == ("28800.0", "28800.0")
    assert (train["price"], train["price_lost"], train["currency"]) == ("0.5", "0.25", "USD")
    assert (train["retries_left"], train["disruptions_left"], train["state"]) == ("3", "0", "Running")


def test_other_resources_share_a_cell_and_unknown_prices_are_empty() -> None:
    gpus = {"nvidia.com/gpu": 1.0, "example.com/fpga": 2.0}
    (row,) = csv.DictReader(io.StringIO(render.as_csv(reported(workload(attempt(resources=gpus))))))
    assert row["other_resource_seconds"] == "example.com/fpga=7200.000 nvidia.com/gpu=3600.000"
    assert (row["price"], row["other_resource_seconds_lost"]) == ("", "")


def test_no_cell_is_a_formula_of_a_spreadsheet() -> None:
    hostile = workload(attempt(), name="x", profile="=cmd()", owner="@x/y", reason="-1+1")
    (row,) = csv.DictReader(io.StringIO(render.as_csv(reported(hostile))))
    assert (row["profile"], row["owner"], row["reason"]) == ("'=cmd()", "'@x/y", "'-1+1")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("x;=cmd()", "x;'=cmd()"),
        ("x, =cmd()", "x, '=cmd()"),
        ("\t=cmd()", "\\t=cmd()"),
        ("\x1b[2Jx", "\\x1b[2Jx"),
        ("a\r\n=1", "a\\r\\n=1"),
        ("exit code -1", "exit code -1"),
    ],
)
def test_no_cell_has_a_formula_behind_another_separator_or_a_control_character(text: str, cell: str) -> None:
    (row,) = csv.DictReader(io.StringIO(render.as_csv(reported(workload(attempt(), name="x", reason=text)))))
    assert row["reason"] == cell


def test_the_tables_keep_their_columns_in_a_terminal_of_eighty_characters() -> None:
    gpus = {"cpu": 4.0, "memory": 8.0 * 2**30, "nvidia.com/gpu": 1.0}
    lost = [attempt("ExitCode", reason="main 1", number=number, hours=40, resources=gpus) for number in range(9)]
    tables = [
        part for part in render.parts(reported(workload(*lost), price_of=a_dollar_an_hour)) if not isinstance(part, str)
    ]
    assert len(tables) == 2
    assert all(widths_of([list(row) for row in rows], 80) for rows in tables)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0.00"), (0.01, "0.01"), (1234.5, "1,234.50"), (0.0099, "0.0099"), (0.000012345, "0.000012")],
)
def test_an_amount_of_money_is_never_0_that_is_not(amount: float, text: str) -> None:
    assert render.money(amount) == text
