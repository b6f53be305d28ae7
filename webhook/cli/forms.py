"""The forms of output of check and test: text, JSON, SARIF, JUnit and GitHub's commands."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as ET

import click
import msgspec
from msgspec.structs import replace

from webhook import __version__
from webhook.cli import line_numbers
from webhook.cli.console import PROBLEMS, printable
from webhook.cli.documents import STDIN
from webhook.cli.findings import RULES, SITE, Finding, Judged, Summary, finding_of, help_of
from webhook.objects.problem import Problem

# As the runner decodes them (actions/toolkit, command.ts).
IN_TEXT: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def annotation(level: Literal["error", "warning"], text: str, *, file: str, line: int | None, title: str) -> str:
    """Return one annotation; `line`: None if it is unknown."""
    properties = {} if file == STDIN else {"file": file.removeprefix("./")}
    if line is not None and properties:
        properties["line"] = str(line)
    properties["title"] = title
    written = ",".join(f"{key}={value.translate(IN_PROPERTY)}" for key, value in properties.items())
    return f"::{level} {written}::{text.translate(IN_TEXT)}\n"


def _github(findings: Iterable[Finding], summary: Summary) -> str:
    lines = [
        annotation(
            "warning" if one.level == "warning" else "error",
            one.text,
            file=one.file,
            line=one.line,
            title=f"retry-policy {one.rule}",
        )
        for one in findings
    ]
    if said := summary.what_is_unlisted:
        lines.append(annotation("error", said, file=STDIN, line=None, title="retry-policy check"))
    return "".join(lines)


class CheckReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `check` found."""

    api_version: Literal["retry-policy.dev/v1alpha1"] = "retry-policy.dev/v1alpha1"
    kind: Literal["CheckReport"] = "CheckReport"
    summary: Summary
    findings: list[Finding]


def encoded(report: msgspec.Struct) -> str:
    """Return a report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


class JUnitCase(NamedTuple):
    """One case: why it failed, why it could not be judged, and what else is said about it; all may be empty."""

    suite: str
    name: str
    failures: list[str]
    errors: list[str]
    notes: list[str]


def junit_document(name: str, cases: Iterable[JUnitCase]) -> str:
    """Return the cases as JUnit XML, each suite where its first case is."""
    suites: dict[str, list[JUnitCase]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    whole = [case for suite in suites.values() for case in suite]
    root = ET.Element("testsuites", {"name": name, **_numbers(whole)})
    for suite, own in suites.items():
        element = ET.SubElement(root, "testsuite", {"name": suite, **_numbers(own)})
        for case in own:
            _add(element, case)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _numbers(cases: list[JUnitCase]) -> dict[str, str]:
    failed = sum(1 for case in cases if case.failures and not case.errors)
    return {"tests": str(len(cases)), "failures": str(failed), "errors": str(sum(1 for case in cases if case.errors))}


def _add(suite: ET.Element, case: JUnitCase) -> None:
    """Add a case; many readers show only one failure of a case, so that one has all."""
    element = ET.SubElement(suite, "testcase", {"name": case.name, "classname": case.suite})
    for tag, texts in (("error", case.errors), ("failure", case.failures)):
        if texts:
            first = texts[0] if len(texts) == 1 else f"{texts[0]} (and {len(texts) - 1} more)"
            ET.SubElement(element, tag, {"message": first}).text = "\n".join(texts)
            break
    if case.notes:
        ET.SubElement(element, "system-out").text = "\n".join(case.notes)


def _junit(objects: Iterable[Judged], findings: Iterable[Finding], summary: Summary, *, warnings_fail: bool) -> str:
    """Return what `check` found: a case for each object, and for each file or document that has another finding."""
    by_object: dict[tuple[str, int | None, str], JUnitCase] = {}
    for file, number, name in objects:
        by_object.setdefault((file, number, name), JUnitCase(file, _named(name, number), [], [], []))
    for finding in findings:
        key = (finding.file, finding.document, finding.object)
        new = JUnitCase(finding.file, _named(finding.object, finding.document), [], [], [])
        case = by_object.setdefault(key, new)
        {"problem": case.failures, "unreadable": case.errors}.get(
            finding.level, case.failures if warnings_fail else case.notes
        ).append(finding.text)
    if said := summary.what_is_unlisted:
        by_object["", None, ""] = JUnitCase("retry-policy check", "findings", [], [said], [])
    return junit_document("retry-policy check", by_object.values())


def _named(name: str, number: int | None) -> str:
    document_name = "file" if number is None else f"document {number}"
    return f"{name} ({document_name})" if name else document_name


SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
Sarif = dict[str, Any]


def _sarif(findings: Iterable[Finding], summary: Summary, exit_code: int) -> str:
    listed = list(findings)
    names = list(dict.fromkeys(one.rule for one in listed))
    driver = {
        "name": "retry-policy",
        "version": __version__,
        "informationUri": SITE,
        "rules": [{"id": name, "shortDescription": {"text": RULES[name]}, "helpUri": help_of(name)} for name in names],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(summary, exit_code)],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, names.index(one.rule)) for one in listed],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _result(finding: Finding, index: int) -> Sarif:
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


def _invocation(summary: Summary, exit_code: int) -> Sarif:
    found: Sarif = {"executionSuccessful": not summary.unreadable, "exitCode": exit_code}
    if said := summary.what_is_unlisted:
        found["toolExecutionNotifications"] = [{"level": "warning", "message": {"text": said}}]
    return found


TEXT: Final = "text"
NAMES: Final = (TEXT, "json", "sarif", "junit", "github")


def write(  # noqa: PLR0913 - one has a default
    form: str,
    objects: Iterable[Judged],
    summary: Summary,
    findings: Iterable[Finding],
    exit_code: int,
    *,
    warnings_fail: bool = False,
) -> None:
    """Write what was found to stdout, in a form other than TEXT; `warnings_fail`: whether a warning is a failure."""
    if form == "json":
        text = encoded(CheckReport(summary=summary, findings=list(findings)))
    elif form == "sarif":
        text = _sarif(findings, summary, exit_code)
    elif form == "junit":
        text = _junit(objects, findings, summary, warnings_fail=warnings_fail)
    else:
        text = _github(findings, summary)
    click.echo(text, nl=False)


def write_policy(form: str, file: str, text: str, problems: list[Problem]) -> None:
    """Write the problems of a policy, of which this is the text, to stdout."""
    lines = line_numbers.find_in_policy(text, [problem.path for problem in problems])
    findings = [
        replace(finding_of("problem", "policy", file, 1, problem), line=lines.get(problem.path)) for problem in problems
    ]
    summary = Summary(objects=1, problems=len(findings), warnings=0, unreadable=0, unlisted=0)
    write(form, [Judged(printable(file), 1, "")], summary, findings, PROBLEMS if problems else 0)
