"""The alerts and the recording rules, as promtool checks and evaluates them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.monitoring.alert_cases import promtool_tests
from tests.monitoring.program import find
from tools.generate import ROOT
from tools.generate.rule_groups import RULES, alerts

if TYPE_CHECKING:
    from pathlib import Path

FILE = ROOT / RULES


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run((find("promtool"), *arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def evaluate(tests: list[dict[str, Any]], folder: Path, *, every: str = "1m") -> str:
    """Evaluate the shipped rules in promtool tests; `every`: promtool does not read the interval of a group."""
    file = folder / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": every, "tests": tests}))
    return promtool("test", "rules", file)


def test_promtool_accepts_the_rules() -> None:
    groups = yaml.safe_load(FILE.read_text())["groups"]
    assert f"{sum(len(group['rules']) for group in groups)} rules found" in promtool("check", "rules", FILE)


@pytest.mark.parametrize("alert", alerts())
def test_an_alert_fires_at_its_fault_and_at_nothing_less(alert: str, tmp_path: Path) -> None:
    assert "SUCCESS" in evaluate(promtool_tests(alert, alerts()[alert]), tmp_path)


def test_the_recorded_attempts_of_an_hour_add_up_although_the_leader_changes(tmp_path: Path) -> None:
    name = 'retry_policy_ledger_attempts_total{cause="Disruption", cost="disruption", pod="%s"}'
    recorded = "cause_cost:retry_policy_ledger_attempts:increase5m"
    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": name % "a", "values": "0+1x30 _x40"},
                {"series": name % "b", "values": "0x29 0+1x40"},
            ],
            "promql_expr_test": [
                {
                    "expr": f"round(sum by (cause, cost) (sum_over_time({recorded}[1h])))",
                    "eval_time": "60m",
                    "exp_samples": [{"labels": '{cause="Disruption", cost="disruption"}', "value": 60}],
                }
            ],
        }
    ]
    assert "SUCCESS" in evaluate(tests, tmp_path, every="5m")
