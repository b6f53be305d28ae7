"""Prints findings: sections of lines for people, or one JSON object for programs. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from webhook.accounts.words import counted
from webhook.doctor.finding import Section, Status

WIDTH: Final = len("problem")


def lines(sections: list[Section]) -> Iterator[str]:
    """Yield the lines for people."""
    for section in sections:
        yield section.title
        for one in section.findings:
            yield f"  {one.status:{WIDTH}}  {one.where}: {one.what}" if one.what else f"  {one.status}  {one.where}"
            if one.fix:
                yield f"  {'':{WIDTH}}    fix: {one.fix}"
    yield ""
    yield _summary(sections)


def _summary(sections: list[Section]) -> str:
    found = numbers(sections)
    if not found["problem"] and not found["warning"]:
        return f"{found['ok']} checks, nothing is wrong"
    text = f"{counted(found['problem'], 'problem')}, {counted(found['warning'], 'warning')}"
    return f"{text}; begin with the first problem, it may explain others" if found["problem"] > 1 else text


def numbers(sections: list[Section]) -> Counter[Status]:
    """Return the number of findings by status."""
    return Counter(one.status for section in sections for one in section.findings)


def as_json(sections: list[Section]) -> str:
    """Return all findings as JSON."""
    found = numbers(sections)
    listed = [
        {"section": section.title, "status": one.status, "object": one.where, "what": one.what, "fix": one.fix}
        for section in sections
        for one in section.findings
    ]
    whole = {"problems": found["problem"], "warnings": found["warning"], "findings": listed}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()
