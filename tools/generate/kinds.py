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
    lines += [tuple(make(kind) for make in makers) for kind in KINDS.values() if kind is not POD]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def name(kind: KindSpec) -> str:
    """Return a kind with its group."""
    return f"{kind.kind}<br>{kind.group}"


def limits(kind: KindSpec) -> str:
    """Return the fields that the retry limit applies to."""
    jobs = [f"`{spelt(spec)}.{field}`" for spec in kind.job_specs for field in ("backoffLimit", "backoffLimitPerIndex")]
    fields = [
        f"`{spelt((*field.within, *field.name))}`" + (" (runs)" if field.single else "") for field in kind.retry_fields
    ]
    return cell([*jobs, *fields])


def default(kind: KindSpec) -> str:
    """Return the fields that the default replaces."""
    jobs = [f"`{spelt(spec)}.backoffLimit`" for spec in kind.job_specs]
    fields = [
        f"`{spelt((*field.within, *field.name))}`"
        for field in kind.retry_fields
        if field.absent is None or field.parent_absent is None
    ]
    return cell([*jobs, *fields])


def failure_policy(kind: KindSpec) -> str:
    """Return what is injected."""
    if not kind.job_specs or not kind.failure_policy:
        return NOTHING
    jobs = [f"`{spelt(spec)}.podFailurePolicy`" for spec in kind.job_specs]
    return cell([*jobs, *(["`spec.failurePolicy.rules`"] if kind is JOB_SET else [])])


def timeouts(kind: KindSpec) -> str:
    """Return the fields that limit the time of one attempt."""
    deadlines = [f"{spelt(spec)}.template.spec.activeDeadlineSeconds" for spec in kind.job_specs if kind.failure_policy]
    jobs = [f"`{deadline}`{together('`OnFailure`')}" for deadline in deadlines]
    fields = [f"`{spelt((*one.within, *one.name))}`{together(one.together_with)}" for one in kind.timeout_fields]
    return cell([*jobs, *fields])


def together(what: str) -> str:
    """Return the field with which a time limit applies to several attempts together; empty if there is none."""
    return f" (with {what} together)" if what else ""


def attempts(kind: KindSpec) -> str:
    """Return the sources of the attempt of its pods."""
    if kind.counts:
        return cell([kind.kind])
    names = dict.fromkeys(source.name for source in SOURCES.get((kind.group, kind.kind.lower()), ()) if source.name)
    return cell(names) if names or not kind.owns_pods else "Annotation alone"


def placement(kind: KindSpec) -> str:
    """Return whether pods are placed, in words."""
    if kind.counted_under:
        return f"under a {kind.counted_under}"
    return "yes" if kind.owns_pods else "of what it makes"


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
