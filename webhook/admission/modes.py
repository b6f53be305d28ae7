"""Reports the edits and problems in a namespace whose mode is Warn or Audit: nothing is changed or denied."""

from collections.abc import Sequence
from typing import Final

from webhook.admission.review import Response
from webhook.objects import bounds
from webhook.objects.patch import Edit
from webhook.objects.problem import Problem, field

# The values of the mode label with which the policy is enforced; None: without the label.
ENFORCED: Final = (None, "Enforce")
WARN: Final = "Warn"

# The first part of the paths of edits that only record decisions; users need not be warned of them.
BOOKKEEPING: Final = "metadata"
LONGEST_NOTE: Final = 1024  # characters of an audit annotation, which is in each line of the API server's audit log


def would_change(mode: str | None, edits: list[Edit], warnings: list[Problem]) -> Response:
    """Return a response that reports edits: in Warn by warnings, in Audit by an audit annotation."""
    would = [
        (edit.rule, Problem(edit.path, what(edit), f"not done in mode {mode}"))
        for edit in edits
        if edit.path[0] != BOOKKEEPING
    ]
    told = [problem for _, problem in would]
    response = Response(edited=rules_of(edits), would_change=would)
    if mode == WARN:
        response.warnings = [*told, *warnings]
    else:
        response.audit = note("would-change", told)
    return response


def would_deny(mode: str | None, found: list[tuple[str, Problem]], others: Sequence[Problem] = ()) -> Response:
    """Return a response that reports problems: in Warn by warnings, after them `others`; in Audit by an annotation."""
    problems = [problem for _, problem in found]
    if mode == WARN:
        warnings = [Problem(problem.path, f"would deny: {problem.what}", problem.remedy) for problem in problems]
        return Response(would_deny=found, warnings=[*warnings, *others])
    return Response(would_deny=found, audit=note("would-deny", problems))


def rules_of(edits: list[Edit]) -> list[str]:
    """Return the name of the rule of each edit."""
    return [edit.rule for edit in edits]


def what(edit: Edit) -> str:
    """Return what an edit would do, such as `would become 3`; objects and lists are not shown."""
    if edit.value is None:
        return "would be removed"
    value = edit.value.decode()
    if value[0] in "[{":
        return "would be added" if edit.op == "add" else "would be replaced"
    return f"would become {value}"


def note(key: str, problems: list[Problem]) -> dict[str, str]:
    """Return the audit annotation that lists problems, by its key; {} if there are none."""
    listed = problems[: bounds.LISTED_PROBLEMS]
    text = "; ".join(f"{field(problem.path)}: {problem.what}" for problem in listed)
    return {key: text[:LONGEST_NOTE]} if text else {}
