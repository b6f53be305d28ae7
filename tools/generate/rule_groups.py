"""The alerts and recording rules of the PrometheusRule: their tables in docs/, and a file without the operator."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

from tests.documents import document_of

PROMETHEUS_RULE: Final = Path(__file__).parents[2] / "manifests" / "overlays" / "prometheus" / "prometheusrule.yaml"
RULES: Final = "manifests/overlays/prometheus/rules.yml"
HEAD: Final = """\
# For a Prometheus without the operator: name this file under rule_files. It has the groups of prometheusrule.yaml.
# Generated: make generated.
"""


def groups() -> list[dict[str, Any]]:
    """Return the groups of rules."""
    found: list[dict[str, Any]] = document_of(PROMETHEUS_RULE.read_text())["spec"]["groups"]
    return found


def alerts() -> dict[str, Any]:
    """Return the alerts by name."""
    return {rule["alert"]: rule for group in groups() for rule in group["rules"] if "alert" in rule}


def recorded() -> dict[str, str]:
    """Return the expressions of the recording rules by name."""
    return {rule["record"]: rule["expr"] for group in groups() for rule in group["rules"] if "record" in rule}


def rules() -> str:
    """Return the file for a Prometheus without the operator."""
    return HEAD + yaml.safe_dump({"groups": groups()}, sort_keys=False, width=120)


def alerts_table() -> str:
    """Show each alert."""
    lines = ["| Alert | Severity | Fires when | What to do |", "|---|---|---|---|"]
    for name, rule in alerts().items():
        condition = re.sub(r"\s+", " ", rule["expr"]) + (f" for {rule['for']}" if "for" in rule else "")
        severity, remedy = rule["labels"]["severity"], rule["annotations"]["description"]
        lines.append(f"| [{name}](../how-to/alerts.md#{name.lower()}) | {severity} | `{condition}` | {remedy} |")
    return "\n".join(lines) + "\n"


def recorded_table() -> str:
    """Show each recording rule."""
    lines = ["| Series | What is recorded every five minutes |", "|---|---|"]
    lines += [f"| `{name}` | `{expression}` |" for name, expression in recorded().items()]
    return "\n".join(lines) + "\n"
