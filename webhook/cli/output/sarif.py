"""SARIF 2.1.0, which code scanning of GitHub, GitLab and Azure reads."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from webhook import __version__
from webhook.cli.offline.documents import STDIN
from webhook.cli.output.finding import Finding
from webhook.cli.output.report import Summary
from webhook.cli.output.rules import RULES, SITE, help_of

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
Sarif = dict[str, Any]


def of_check(findings: Iterable[Finding], summary: Summary, exit_code: int) -> str:
    """Return what `check` found."""
    listed = list(findings)
    names = list(dict.fromkeys(one.rule for one in listed))
    driver = {
        "name": "retry-policy",
        "version": __version__,
        "informationUri": SITE,
        "rules": [rule(name) for name in names],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation(summary, exit_code)],
        "columnKind": "unicodeCodePoints",
        "results": [result(one, names.index(one.rule)) for one in listed],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def rule(name: str) -> Sarif:
    """Return the description of a rule."""
    return {"id": name, "shortDescription": {"text": RULES[name]}, "helpUri": help_of(name)}


def result(finding: Finding, index: int) -> Sarif:
    """Return one finding; `index`: of its rule."""
    physical: Sarif = {"artifactLocation": {"uri": uri_of(finding.file)}}
    if finding.line is not None:
        physical["region"] = {"startLine": finding.line}
    location: Sarif = {"physicalLocation": physical}
    if finding.object:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.object, "kind": "object"}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": "warning" if finding.level == "warning" else "error",
        "message": {"text": finding.text},
        "locations": [location],
    }


def uri_of(file: str) -> str:
    """Return a file as a URI: relative to the folder in which the command runs, unless the user named it as a whole."""
    if file == STDIN:
        return "stdin"
    return Path(file).as_uri() if Path(file).is_absolute() else quote(os.path.normpath(file))


def invocation(summary: Summary, exit_code: int) -> Sarif:
    """Return how the run ended."""
    found: Sarif = {"executionSuccessful": not summary.unreadable, "exitCode": exit_code}
    if summary.unlisted:
        said = f"{summary.unlisted} more findings are not listed; check fewer files at once"
        found["toolExecutionNotifications"] = [{"level": "warning", "message": {"text": said}}]
    return found
