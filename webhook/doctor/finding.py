"""What a check has found: a line with the object, what is right or wrong with it, and the command that corrects it."""

from typing import Final, Literal, NamedTuple

from webhook.objects.problem import cut

Status = Literal["ok", "warning", "problem"]

MOST: Final = 20  # findings of one section that are shown
LONGEST: Final = 600  # characters of what is wrong: it may quote an answer of the API server


class Diagnosis(NamedTuple):
    """What a check has found about an object; `fix`: a command that corrects it, or that shows more."""

    status: Status
    where: str
    what: str
    fix: str = ""


class Section(NamedTuple):
    """The findings of one check."""

    title: str
    findings: list[Diagnosis]


def ok(where: str, what: str) -> Diagnosis:
    """Return a finding that something is right."""
    return Diagnosis("ok", where, cut(what, LONGEST))


def warning(where: str, what: str, fix: str) -> Diagnosis:
    """Return a finding that needs a look, but does not stop the webhook."""
    return Diagnosis("warning", where, cut(what, LONGEST), fix)


def problem(where: str, what: str, fix: str) -> Diagnosis:
    """Return a finding that stops the webhook, or a part of it."""
    return Diagnosis("problem", where, cut(what, LONGEST), fix)


def bounded(findings: list[Diagnosis]) -> list[Diagnosis]:
    """Return the findings that are shown, the worst first; the others are only counted."""
    order: list[Status] = ["problem", "warning", "ok"]
    findings = sorted(findings, key=lambda one: order.index(one.status))
    if len(findings) <= MOST:
        return findings
    others = findings[MOST:]
    return [*findings[:MOST], Diagnosis(others[0].status, f"and {len(others)} more", "only the first ones are shown")]
