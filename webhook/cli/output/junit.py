"""JUnit XML, which every CI system reads: a suite for each file, a case for each object or each test."""

from collections.abc import Iterable
from typing import NamedTuple
from xml.etree import ElementTree as ET

from webhook.cli.output.finding import Finding
from webhook.cli.output.report import Collected, Summary


class Case(NamedTuple):
    """One case: why it failed, why it could not be judged, and what else is said about it; all may be empty."""

    suite: str
    name: str
    failures: list[str]
    errors: list[str]
    notes: list[str]


def document(name: str, cases: Iterable[Case]) -> str:
    """Return the cases as JUnit XML, each suite where its first case is."""
    suites: dict[str, list[Case]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    whole = [case for suite in suites.values() for case in suite]
    root = ET.Element("testsuites", {"name": name, **numbers(whole)})
    for suite, own in suites.items():
        element = ET.SubElement(root, "testsuite", {"name": suite, **numbers(own)})
        for case in own:
            add(element, case)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def numbers(cases: list[Case]) -> dict[str, str]:
    """Return the attributes that count cases."""
    failed = sum(1 for case in cases if case.failures and not case.errors)
    return {"tests": str(len(cases)), "failures": str(failed), "errors": str(sum(1 for case in cases if case.errors))}


def add(suite: ET.Element, case: Case) -> None:
    """Add a case; many readers show only one failure of a case, so that one has all."""
    element = ET.SubElement(suite, "testcase", {"name": case.name, "classname": case.suite})
    for tag, texts in (("error", case.errors), ("failure", case.failures)):
        if texts:
            first = texts[0] if len(texts) == 1 else f"{texts[0]} (and {len(texts) - 1} more)"
            ET.SubElement(element, tag, {"message": first}).text = "\n".join(texts)
            break
    if case.notes:
        ET.SubElement(element, "system-out").text = "\n".join(case.notes)


def of_check(collected: Collected, findings: Iterable[Finding], summary: Summary, *, warnings_fail: bool) -> str:
    """Return what `check` found: a case for each object, and for each file or document that has another finding."""
    by_object: dict[tuple[str, int | None, str], Case] = {}
    for file, number, name in collected.objects:
        by_object.setdefault((file, number, name), Case(file, named(name, number), [], [], []))
    for finding in findings:
        key = (finding.file, finding.document, finding.object)
        new = Case(finding.file, named(finding.object, finding.document), [], [], [])
        case = by_object.setdefault(key, new)
        {"problem": case.failures, "unreadable": case.errors}.get(
            finding.level, case.failures if warnings_fail else case.notes
        ).append(finding.text)
    if summary.unlisted:
        said = f"{summary.unlisted} more findings are not listed; check fewer files at once"
        by_object["", None, ""] = Case("retry-policy check", "findings", [], [said], [])
    return document("retry-policy check", by_object.values())


def named(name: str, number: int | None) -> str:
    """Return the name of a case."""
    document_name = "file" if number is None else f"document {number}"
    return f"{name} ({document_name})" if name else document_name
