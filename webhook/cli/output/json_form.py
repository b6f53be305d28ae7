"""The JSON form of what `check` found. Its fields are versioned: within an apiVersion none is removed or changed."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from webhook.cli.output.finding import Finding
from webhook.cli.output.report import Summary


class CheckReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `check` found."""

    api_version: Literal["retry-policy.dev/v1alpha1"] = "retry-policy.dev/v1alpha1"
    kind: Literal["CheckReport"] = "CheckReport"
    summary: Summary
    findings: list[Finding]


def encoded(report: msgspec.Struct) -> str:
    """Return a report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def of_check(findings: Iterable[Finding], summary: Summary) -> str:
    """Return what `check` found."""
    return encoded(CheckReport(summary=summary, findings=list(findings)))
