"""The table of rules in docs/reference/workloads.md, from the registry of rules."""

from collections.abc import Iterable
from typing import Any

from tools.generate.kinds import cell, spelt
from webhook.objects.patch import Pattern
from webhook.rules import registry
from webhook.rules.rule import Rule
from webhook.systems import core
from webhook.systems.job.spec import CRON_JOB, JOB
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS

JOB_SPEC = CRON_JOB.job_specs[0]


def table() -> str:
    """Return a table of all rules, in their order: where each applies, and the fields that it writes."""
    lines = ["| Rule | Applies to | Writes |", "|---|---|---|"]
    lines += [line(rule, in_jobs(rule)) for rule in registry.JOB_RULES]
    lines += [line(rule, beside_jobs(rule)) for rule in registry.WORKLOAD_RULES]
    lines += [line(rule, spelt_all(rule.writes(core.POD))) for rule in registry.POD_RULES]
    lines += [denying(rule) for rule in (*registry.VALIDATING_RULES, registry.CONTROLLED)]
    return "\n".join(lines) + "\n"


def line(rule: Rule[Any], fields: Iterable[str]) -> str:
    """Return the line of one rule."""
    return f"| {rule.name} | {rule.applies_to} | {cell(fields)} |"


def denying(rule: Rule[Any]) -> str:
    """Return the line of one rule that edits nothing."""
    return f"| {rule.name} | {rule.applies_to} | nothing: it denies |"


def in_jobs(rule: Rule[Any]) -> list[str]:
    """Return the fields that a rule for JobSpecs writes, in a Job and in a template of Jobs."""
    in_template = [pattern for pattern in rule.writes(CRON_JOB) if pattern[: len(JOB_SPEC)] != JOB_SPEC]
    return [*spelt_all(rule.writes(JOB)), *(f"{field} of a CronJob" for field in spelt_all(in_template))]


def beside_jobs(rule: Rule[Any]) -> list[str]:
    """Return the fields that a rule writes outside JobSpecs; only the number of kinds if there are several."""
    written: dict[KindSpec, tuple[Pattern, ...]] = {
        kind: patterns for kind in KINDS.values() if kind is not core.POD and (patterns := rule.writes(kind))
    }
    if len(written) == 1:
        return spelt_all(next(iter(written.values())))
    return [f"fields of {len(written)} kinds"]


def spelt_all(patterns: Iterable[Pattern]) -> list[str]:
    """Return patterns, written as fields."""
    return [f"`{spelt(pattern)}`" for pattern in patterns]
