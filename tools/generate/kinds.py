"""The table of kinds in docs/reference/workloads.md, from the table of kinds in the code."""

from collections.abc import Iterable

from webhook.objects.patch import EVERY, Nested, Pattern
from webhook.systems.core import POD
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS
from webhook.systems.pods import SOURCES

NOTHING = "-"
COLUMNS = ("Kind", "Limit", "Default", "Failure policy", "Timeout", "Attempt", "Placement")


def table() -> str:
    """Return a table of what the policy does with each kind."""
    makers = (name, limits, default, failure_policy, timeouts, attempts, placement)
    lines: list[tuple[str, ...]] = [COLUMNS, ("---",) * len(COLUMNS)]
    lines += [tuple(make(row) for make in makers) for row in KINDS.values() if row is not POD]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def name(row: KindSpec) -> str:
    """Return a kind with its group."""
    return f"{row.kind}<br>{row.group}"


def limits(row: KindSpec) -> str:
    """Return the fields that the retry limit applies to."""
    jobs = [f"`{spelt(spec)}.{field}`" for spec in row.job_specs for field in ("backoffLimit", "backoffLimitPerIndex")]
    fields = [
        f"`{spelt((*field.within, *field.name))}`" + (" (runs)" if field.single else "") for field in row.retry_fields
    ]
    return cell([*jobs, *fields])


def default(row: KindSpec) -> str:
    """Return the fields that the default replaces."""
    jobs = [f"`{spelt(spec)}.backoffLimit`" for spec in row.job_specs]
    fields = [
        f"`{spelt((*field.within, *field.name))}`"
        for field in row.retry_fields
        if field.absent is None or field.parent_absent is None
    ]
    return cell([*jobs, *fields])


def failure_policy(row: KindSpec) -> str:
    """Return what is injected."""
    if not row.job_specs or not row.failure_policy:
        return NOTHING
    jobs = [f"`{spelt(spec)}.podFailurePolicy`" for spec in row.job_specs]
    return cell([*jobs, *(["`spec.failurePolicy.rules`"] if row is JOB_SET else [])])


def timeouts(row: KindSpec) -> str:
    """Return the fields that limit the time of one attempt."""
    deadlines = [f"{spelt(spec)}.template.spec.activeDeadlineSeconds" for spec in row.job_specs if row.failure_policy]
    jobs = [f"`{deadline}`{together('`OnFailure`')}" for deadline in deadlines]
    fields = [f"`{spelt((*one.within, *one.name))}`{together(one.together_with)}" for one in row.timeout_fields]
    return cell([*jobs, *fields])


def together(what: str) -> str:
    """Return the field with which a time limit applies to several attempts together; empty if there is none."""
    return f" (with {what} together)" if what else ""


def attempts(row: KindSpec) -> str:
    """Return the sources of the attempt of its pods."""
    if row.counts:
        return cell([row.kind])
    names = dict.fromkeys(source.name for source in SOURCES.get((row.group, row.kind.lower()), ()) if source.name)
    return cell(names) if names or not row.owns_pods else "Annotation alone"


def placement(row: KindSpec) -> str:
    """Return whether pods are placed, in words."""
    if row.counted_under:
        return f"under a {row.counted_under}"
    return "yes" if row.owns_pods else "of what it makes"


def spelt(pattern: Pattern) -> str:
    """Return a pattern, written as a field: [*] for each entry, [key] for a label or annotation."""
    text = ""
    for part in pattern:
        if isinstance(part, Nested):
            text += "…"
        else:
            text += "[*]" if part == EVERY else f"[{part}]" if "/" in str(part) else f".{part}"
    return text.removeprefix(".")


def cell(entries: Iterable[str]) -> str:
    """Return entries as the lines of one table cell."""
    return "<br>".join(entries) or NOTHING
