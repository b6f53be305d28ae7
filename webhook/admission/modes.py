"""What becomes of edits and problems in a namespace whose mode is not Enforce: they are told, and nothing is done."""

from collections.abc import Sequence
from typing import Final

from webhook.admission.review import Response
from webhook.objects import bounds
from webhook.objects.patch import Edit
from webhook.objects.problem import Problem, field

# The values of the mode label under which the policy holds; absent is Enforce.
ENFORCED: Final = (None, "Enforce")
WARN: Final = "Warn"

# Edits that only note what was decided: nobody has to act on them.
BOOKKEEPING: Final = "metadata"
LONGEST_NOTE: Final = 1024  # characters of an audit annotation: it stands in every line of the API server's audit log


def would_change(mode: str | None, edits: list[Edit], warnings: list[Problem]) -> Response:
    """Tell which edits would be made: as warnings, or in Audit as an audit annotation."""
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
    """Tell which problems would deny the request; in Warn also the warnings that hold in every mode."""
    problems = [problem for _, problem in found]
    if mode == WARN:
        warnings = [Problem(problem.path, f"would deny: {problem.what}", problem.remedy) for problem in problems]
        return Response(would_deny=found, warnings=[*warnings, *others])
    return Response(would_deny=found, audit=note("would-deny", problems))


def rules_of(edits: list[Edit]) -> list[str]:
    """Name the rule of each edit."""
    return [edit.rule for edit in edits]


def what(edit: Edit) -> str:
    """Say in a few words what an edit would do; a value in full where it is a short one."""
    if edit.value is None:
        return "would be removed"
    value = edit.value.decode()
    if value[0] in "[{":
        return "would be added" if edit.op == "add" else "would be replaced"
    return f"would become {value}"


def note(key: str, problems: list[Problem]) -> dict[str, str]:
    """Make an audit annotation; none where there is nothing to say."""
    listed = problems[: bounds.LISTED_PROBLEMS]
    text = "; ".join(f"{field(problem.path)}: {problem.what}" for problem in listed)
    return {key: text[:LONGEST_NOTE]} if text else {}
