"""Writes what the rules of `onFailure` cost as rules of a podFailurePolicy, as far as such a policy can see them.

Reads, in the JobSpec:
    backoffLimitPerIndex, maxFailedIndexes, backoffLimit
    template.spec.{containers,initContainers}[*].name
Writes:
    nothing; webhook/systems/job/rules/failure_policy.py injects the rules that this file returns

A rule that names exit codes becomes one rule for each container that it names: Ignore for cost Free, FailJob (or
FailIndex) for Fatal, Count for Retry. They stand in the order of `onFailure`, after the author's rules, and before the
rules by which a bug fails the Job: the first match wins there too. Where an earlier rule of `onFailure` may decide
about the same code, but a podFailurePolicy cannot see whether it does, the rule becomes Count, and the ledger decides
(webhook/accounts/settling.py). The same holds for rules that a podFailurePolicy cannot see at all: the codes that they
may be about are taken out of the rules for bugs.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from webhook.objects import bounds
from webhook.objects.problem import Json, Problem
from webhook.policy import costs
from webhook.policy.model import FailureRule
from webhook.policy.settings import Settings
from webhook.systems.job.rules import lint, schema
from webhook.systems.kind_spec import EmbeddedJob


def index_warnings(job: EmbeddedJob, settings: Settings) -> list[Problem]:
    """Warn about fatal rules that only the ledger sees, in a Job whose indexes have budgets of their own.

    The ledger can fail a Job, but not one index. Neither can it take back what the Job controller has counted.
    """
    if settings.rules_off:
        return []
    found = [str(index) for index, rule in enumerate(settings.profile.on_failure) if _is_fatal_by_ledger(rule)]
    if not found:
        return []
    rules = ", ".join(found)
    what = f"onFailure {rules} cannot fail one index, and costs a retry"
    return [Problem((*job.path, "backoffLimitPerIndex"), what, "use FailIndex on exit codes")]


def _is_fatal_by_ledger(rule: FailureRule) -> bool:
    """Return True if a rule ends a Job, but a podFailurePolicy cannot see for some failures whether it matches."""
    is_partial = rule.match.cause == "Disruption" and rule.match != costs.OF_DISRUPTIONS
    return rule.next.cost == "Fatal" and (is_partial or costs.is_unsure(rule.match))


class Part(NamedTuple):
    """Exit codes of a container, None for any, after which a podFailurePolicy takes an action."""

    action: str
    container: str | None
    codes: frozenset[int]


def rules(
    job: EmbeddedJob, settings: Settings, *, failing: str, counted: bool, spared: Collection[int] = ()
) -> list[Json]:
    """Return the rules on exit codes for a Job, in the order of `onFailure`.

    `failing`: the action of a fatal rule, except for the codes in `spared`. `counted`: whether the ledger counts the
    Job's pods: else no failure is free, because nothing would limit them.
    """
    known = schema.container_names(job.spec)
    found: list[Part] = []
    for index, rule in enumerate(settings.on_failure):
        sure = costs.sure_codes(rule.match)
        if not sure:
            continue
        cost = costs.cost_of(rule)
        action = "Ignore" if cost == "Free" and counted else failing if cost == "Fatal" else "Count"
        shared = sure.intersection(spared) if cost == "Fatal" else frozenset[int]()
        for container in rule.match.containers or (None,):
            if container is None or container in known:
                left = shared | costs.left_to_ledger(settings.on_failure[:index], rule, container)
                found += [Part(action, container, sure - left), Part("Count", container, left)]
    return [_rule_of(part) for part in _joined(found)]


def failing(*, fails: bool, by_index: bool) -> str:
    """Return the action of a rule that fails a Job, or the index of a pod; Count if it may not."""
    return ("FailIndex" if by_index else "FailJob") if fails else "Count"


def _joined(parts: Iterable[Part]) -> list[Part]:
    """Return parts, those joined that follow each other and differ only in their codes; without empty ones."""
    found: list[Part] = []
    for part in parts:
        if not part.codes:
            continue
        before = found[-1] if found else None
        together = part.codes if before is None else part.codes | before.codes
        if before is not None and part[:2] == before[:2] and len(together) <= bounds.MAX_VALUES:
            found[-1] = part._replace(codes=together)
        else:
            found.append(part)
    return found


def _rule_of(part: Part) -> Json:
    named = {} if part.container is None else {"containerName": part.container}
    return {"action": part.action, "onExitCodes": {**named, "operator": "In", "values": sorted(part.codes)}}


def with_effect(added: list[Json], author_rules: list[Json], bug_rules: list[Json]) -> list[Json]:
    """Return the rules of `added` that an author's rules do not hide, without the last ones that change nothing.

    The API counts a failure that no rule matches, as Count does.
    """
    before = [lint.read_rule(rule, ()) for rule in author_rules]
    found: list[Json] = []
    for rule in added:
        read = lint.read_rule(rule, ())
        if not lint.is_shadowed(read, before):
            before.append(read)
            found.append(rule)
    while found and not bug_rules and found[-1]["action"] == "Count":
        found.pop()
    return found


def without_unsure(bug_rules: list[Json], settings: Settings, *, by_index: bool) -> list[Json]:
    """Return the rules by which a bug fails the Job, without the exit codes about which the ledger has to decide.

    For a rule about kills for memory these are all codes: if a child was killed, the kubelet says OOMKilled, and the
    program ends with a code of its own, such as 1. Where indexes have budgets of their own, 137 alone: nobody looks at
    the others afterwards.
    """
    codes_of = costs.unsure_codes if by_index else costs.unsure_codes_of_bugs
    found = []
    for rule in bug_rules:
        codes = rule["onExitCodes"]
        name = codes["containerName"]
        about = [one.match for one in settings.on_failure if not one.match.containers or name in one.match.containers]
        unsure = [one for match in about if (one := codes_of(match)) is not None]
        if len(unsure) < len(about):
            continue
        values = frozenset(codes["values"]).union(*unsure)
        if len(values) <= bounds.MAX_VALUES:
            listed = sorted(values - {0}) or [0]
            found.append({**rule, "onExitCodes": {**codes, "values": listed}})
    return found
