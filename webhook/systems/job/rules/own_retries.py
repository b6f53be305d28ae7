"""Respects an author's decision that a Job runs once, and warns what the retries mean that an author asks for.

Reads, in a JobSpec:
    backoffLimit, backoffLimitPerIndex, podFailurePolicy.rules
"""

from typing import Final

from webhook.objects.problem import Path, Problem
from webhook.policy.settings import Settings
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy
from webhook.systems.job.rules.lint import FAILING
from webhook.systems.kind_spec import Budget, EmbeddedJob

MOST_CODES: Final = 3  # that a warning lists


def runs_once(job: EmbeddedJob, settings: Settings, *, set_restarts: bool) -> bool:
    """Return True if a Job's author wants no second run, for whatever reason the first ended: nothing is injected then.

    `set_restarts`: whether its JobSet restarts. With the annotation max-disruptions, the author allows disruptions.
    """
    retries = batch.retry_budget(job.spec) if settings.max_retries is None else settings.max_retries
    return not (retries or settings.max_disruptions or set_restarts)


def once_warning(path: Path, job: EmbeddedJob, settings: Settings) -> list[Problem]:
    """Warn about a Job that runs once that a disruption fails it too, if the profile makes disruptions free."""
    profile, own = settings.profile, job.spec.get("podFailurePolicy")
    injects = profile.failure_policy.inject == "Merge" or (profile.failure_policy.inject == "IfAbsent" and own is None)
    if not injects or settings.disruption_action != "Ignore":
        return []
    if any(map(failure_policy.matches_disruption, (own or {}).get("rules") or ())):
        return []
    return [Problem(path, "0: disruptions fail the Job too", "max-disruptions allows some")]


def meaning_warning(budget: Budget, job: EmbeddedJob, settings: Settings, *, ledger: bool) -> list[Problem]:
    """Warn for which exit codes an author's retries are, in a Job that had no failure policy before ours.

    `ledger`: whether a ledger finds bugs in Jobs whose pods depend on each other.
    """
    limits = settings.profile.retries
    if not budget.retries or settings.max_retries is not None:
        return []
    if budget.retries > limits.limit and limits.on_exceed == "Deny":
        return []  # /validate denies it for them
    rules = (job.spec.get("podFailurePolicy") or {}).get("rules") or []
    if ledger and failure_policy.is_settled(job, settings):
        rules = [*rules, *failure_policy.bug_rules(job, settings, [])[0]]
    by_codes = [(rule["action"], rule["onExitCodes"]) for rule in rules if "onExitCodes" in rule]
    codes = next((one["values"] for _, one in by_codes if one["operator"] == "NotIn"), None)
    if codes is None:
        return []
    added = {code for action, one in by_codes for code in one["values"] if action not in FAILING}
    often = " more than once" if settings.profile.failure_policy.unknown_exit == "Confirm" else ""
    what = f"{listed(sorted({*codes, *added} - {0}) or [0])} retried{often}"
    return [Problem(budget.path, what, "add a podFailurePolicy rule Count In [CODES]")]


def listed(codes: list[int]) -> str:
    """Return which exit codes are retried, as the beginning of a sentence; [0] means none."""
    if codes == [0]:
        return "no exit code is"
    if len(codes) == 1:
        return f"only exit code {codes[0]} is"
    return f"only {len(codes)} exit codes are" if len(codes) > MOST_CODES else f"only {', '.join(map(str, codes))} are"
