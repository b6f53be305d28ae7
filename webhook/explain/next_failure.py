"""Explains what the next failure does, for each way in which a pod may fail: a forecast, and its text. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from msgspec.structs import replace

from webhook.kinds import batch
from webhook.ledger import forecast, settling
from webhook.ledger.forecast import Forecast, Standing
from webhook.ledger.model import counting, limits, matching, on_failure, outcomes, words
from webhook.ledger.model.pods import DISRUPTED, Condition, Exit, Pod
from webhook.ledger.model.scopes import ranges
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy import costs, criteria
from webhook.policy.model import Match
from webhook.rules.job_sets.job_set import FAILING, FREE, RESTART_JOB
from webhook.rules.jobs import failure_policy

ELSE: Final = "anything else"
ANY: Final = "any failure"  # in the text, if there is no other way
HIGHEST_CODE: Final = 256  # exit codes that a container can end with are lower
MOST_SCOPES: Final = 20  # groups of indexes that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFailure:
    """What happens when a pod fails in one way.

    `ending`: the way, in words. `indexes`: those for which this holds, such as `0-2,5`; empty for all pods. `job`: the
    Jobs of a JobSet for which this holds, such as `workers` or `workers-0,2`; empty for all Jobs.
    """

    ending: str
    indexes: str
    job: str = ""
    forecast: Forecast
    text: str


def next_failures(standing: Standing, pods: list[Pod], *, placed: bool) -> Iterator[NextFailure]:
    """Yield what each way to fail does to the pods that may fail next; once for all indexes with the same results.

    `pods`: those of the Job that run, or will be created. `placed`: whether the webhook chooses their nodes.
    """
    groups: dict[tuple[tuple[str, Forecast], ...], list[Pod]] = {}
    for same in alike(standing, pods):
        told = tuple((ending, forecast.foretell(standing, failed)) for ending, failed in endings(standing, same[0]))
        groups.setdefault(told, []).extend(same)
    for told, found in groups.items():
        indexes = "" if len(groups) == 1 else ranges(pod.index for pod in found if pod.index)
        for ending, what in told:
            where = f" of index {indexes}" if indexes else ""
            by = deciders(what)
            text = f"{ending if len(told) > 1 else ANY}{where}: {said(what, standing, placed=placed)}{by}"
            yield NextFailure(ending=ending, indexes=indexes, forecast=what, text=text)


def deciders(what: Forecast) -> str:
    """Return which rules decide about a failure, such as ` (rule 1; rule 0 of onFailure)`; empty if none does."""
    found = [] if what.rule is None else [f"rule {what.rule}"]
    found += [] if what.on_failure is None else [f"rule {what.on_failure} of onFailure"]
    return f" ({'; '.join(found)})" if found else ""


def alike(standing: Standing, pods: Iterable[Pod]) -> Iterable[list[Pod]]:
    """Return groups of pods; the same failure has the same result for all pods of a group."""
    found: dict[object, list[Pod]] = {}
    for pod in pods:
        found.setdefault(counts_of_pod(standing, pod), []).append(pod)
    return islice(found.values(), MOST_SCOPES)


def counts_of_pod(standing: Standing, pod: Pod) -> tuple[int, ...]:
    """Return the counts of a pod's index on which the result of its failure depends."""
    account, scope = standing.account, limits.scope_of(pod)
    disruptions = limits.disruptions_at(scope, account, pod, standing.job["spec"], standing.job_set)
    counts = disruptions, account.scopes.at_least(scope), account.free.of(scope)
    return (*counts, *(-1 if one is None else one for one in (pod.index_failures, pod.index_ignored)))


def endings(standing: Standing, pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield each way in which a pod may fail: in words, and the pod after such a failure."""
    rules = at(standing.job, ("spec", "podFailurePolicy", "rules")) or []
    failed = replace(pod, phase="Failed", tracked=True, deleting=False, deleted="", conditions=(), exits=())
    for index, rule in enumerate(rules):
        for candidate in candidates(standing, rule, failed):
            match = matching.match(rules, candidate)
            if match is not None and match.index == index:
                yield what_matches(rule), candidate
                break
    for number, failure_rule in enumerate(standing.settings_of(standing.job).on_failure):
        ended = ended_as(failure_rule.match, failed, first_container(standing))
        if ended is None or foretold_by(standing, ended) != number:
            continue
        by_api = matching.match(rules, ended)
        if not failure_rule.match.exit_codes or by_api is None:  # else that rule of the failure policy is shown
            yield what_is_matched(failure_rule.match), ended
    for rule in bug_rules(standing):
        found = candidates(standing, rule, failed)
        bug = next((one for one in found if forecast.settled_within(standing, one) is not None), None)
        if bug is not None:
            following = next(found, None)
            alone = following is not None and forecast.settled_within(standing, following) is None
            yield f"exit code {bug.exits[0].code} of {bug.exits[0].container}" if alone else what_matches(rule), bug
    yield ELSE, failed


def foretold_by(standing: Standing, pod: Pod) -> int | None:
    """Return the index of the rule of onFailure that decides about a failed pod; None if none does."""
    outcome = outcomes.outcome_of(pod, standing.job, standing.job_set)
    return on_failure.decided(pod, outcome, standing.settings_of(standing.job).on_failure)


def first_container(standing: Standing) -> str:
    """Return the name of the first container of a Job's pods."""
    containers = at(standing.job, ("spec", "template", "spec", "containers")) or []
    return next((one["name"] for one in containers), "main")


def ended_as(match: Match, failed: Pod, container: str) -> Pod | None:
    """Return a failed pod that a match of onFailure is about; None if there is none with a container that ended.

    `container`: the one that ended, if the match names none.
    """
    if match.cause in {"NeverStarted", "Other"}:
        return None
    name = next(iter(match.containers), container)
    reason = next(iter(match.reasons), "")
    if match.cause == "Disruption":
        return replace(failed, conditions=(Condition(DISRUPTED, "True", reason, ""),))
    if match.cause == "DeadlineExceeded":
        return replace(failed, reason="DeadlineExceeded")
    said = (match.message or "").replace("*", "")
    exited = Exit(name, next(iter(match.exit_codes), 1), reason or "Error", "", said)
    if match.cause == "OOMKilled":
        exited = Exit(name, costs.KILLED, outcomes.OOM, "", said)
    again = on_failure.State(nodes=(failed.node,) * ((match.same_node or 1) - 1))
    return replace(failed, exits=(exited,), after=on_failure.written(again) if match.same_node else failed.after)


def what_is_matched(match: Match) -> str:
    """Return what a match of onFailure is about, such as `OOMKilled of main`."""
    what = {None: "a failure", "Disruption": "a disruption", "ExitCode": "any exit code"}.get(match.cause, match.cause)
    if match.exit_codes:
        what = f"exit code {', '.join(map(str, match.exit_codes))}"
    return f"{what}{criteria.words_of(match)}"


def bug_rules(standing: Standing) -> list[Json]:
    """Return the rules by which the ledger recognises a bug, if it decides about crashes of this Job."""
    settings = standing.settings_of(standing.job)
    if not (settling.may_settle(standing.job, settings) or settling.may_judge(standing.job, settings)):
        return []
    (embedded,) = batch.JOB.jobs(standing.job)
    own = settling.author_rules(standing.job, embedded, settings)
    return failure_policy.bug_rules(embedded, settings, own)[0]


def candidates(standing: Standing, rule: Json, failed: Pod) -> Iterator[Pod]:
    """Yield failed pods that a rule of a failure policy matches; an earlier rule may match them too."""
    codes = matching.exit_codes_of(rule)
    if codes is None:
        conditions = tuple(Condition(kind, status, "", "") for kind, status in matching.conditions_of(rule))
        yield replace(failed, conditions=conditions[:1])
        return
    name = codes.container or first_container(standing)
    for code in range(1, HIGHEST_CODE) if codes.excluding else sorted(codes.values):
        if codes.match(code):
            yield replace(failed, exits=(Exit(name, code, "Error", ""),))


def what_matches(rule: Json) -> str:
    """Return what a rule of a failure policy matches, such as `exit code 1 of main`."""
    on_exit_codes = rule.get("onExitCodes")
    if on_exit_codes is None:
        kinds = [one.get("type") or "" for one in rule.get("onPodConditions") or ()]
        return "a disruption" if matching.is_of_disruptions(rule) else f"condition {' or '.join(kinds)}"
    container = on_exit_codes.get("containerName")
    codes = ", ".join(str(code) for code in on_exit_codes.get("values") or ())
    which = f"exit code {codes}" if on_exit_codes.get("operator") == "In" else f"any exit code but {codes}"
    return f"{which} of {container}" if container else which


def said(what: Forecast, standing: Standing, *, placed: bool) -> str:
    """Return what a failure does, in words."""
    if standing.job_set is not None:
        return said_of_set(what, standing, standing.job_set, placed=placed)
    budgets = limits.budgets_of(standing.job, None, standing.settings_of(standing.job))
    if what.reason:
        return f"ends the Job: {beyond(what, budgets)}"
    if what.ends:
        over = "ends the index" if what.ends == "index" else "ends the Job"
        return f"{over}; no retry is left" if what.rule is None else f"{over} at once"
    if what.suspends:
        return f"suspends the Job: {beyond(what, budgets)}"
    parts = [cost_of(what, budgets)]
    if placed and what.off_spot is not None:
        parts.append(f"the next pod goes to {'on-demand' if what.off_spot else 'spot'} nodes")
    told = "; ".join(parts)
    return told if what.settled_within is None else f"{verdict(what, standing, 'Job')}; else {told}"


def beyond(what: Forecast, budgets: limits.Budgets) -> str:
    """Return which limit the failure exceeds, such as `disruptions exceed the limit of 1`."""
    if what.reason == counting.FREE_TOO_OFTEN:
        return f"free restarts exceed the limit of {budgets.free_restarts}"
    return f"disruptions exceed the limit of {budgets.disruptions}"


def cost_of(what: Forecast, budgets: limits.Budgets) -> str:
    """Return what a failure costs and what is left after it, in words."""
    if what.cost == "retry":
        costs = "costs the index a retry" if budgets.per_index else "costs a retry"
        return f"{costs}; then {words.counted(what.left.retries, 'retry')} left"
    if what.cost == "disruption" and budgets.limit == batch.UNLIMITED:
        return "costs no retry"
    if what.cost == "disruption":
        return f"costs no retry; then {words.counted(what.left.disruptions, 'disruption')} left"
    if what.cost == "free":
        limit = words.counted(budgets.free_restarts, "such failure")
        return f"costs no retry; the ledger ends the Job after {limit}"
    return "costs nothing"


def said_of_set(what: Forecast, standing: Standing, job_set: Json, *, placed: bool) -> str:
    """Return what a failure does to a JobSet, in words."""
    budgets = limits.budgets_of(standing.job, job_set, standing.settings_of(standing.job))
    if what.reason:
        return f"ends the set: {beyond(what, budgets)}"
    parts = [cost_in_set(what, standing, budgets)]
    if placed and what.off_spot is not None:
        parts.append(f"the next pod goes to {'on-demand' if what.off_spot else 'spot'} nodes")
    told = "; ".join(parts)
    return told if what.settled_within is None else f"{verdict(what, standing, 'JobSet')}; else {told}"


def verdict(what: Forecast, standing: Standing, kind: str) -> str:
    """Return when the ledger ends a workload because of a failure about which it decides."""
    if what.on_failure is not None:
        return words.fatal_by(what.on_failure, kind)
    if not settling.may_settle(standing.job, standing.settings_of(standing.job)):
        return words.unlisted(kind)
    return words.verdict(what.settled_within or 0, kind)


def cost_in_set(what: Forecast, standing: Standing, budgets: limits.Budgets) -> str:
    """Return what a failure costs a JobSet or its Job, and what is left, in words."""
    if what.set_action:
        does = what_set_does(what, budgets)
        return does if what.action == "FailJob" else f"no retry of the Job is left, which {does}"
    if what.ends == "index":
        return "ends the index"
    if what.cost in {"disruption", "free"}:
        return cost_of(what, budgets)
    return f"costs its Job a retry, of {batch.retry_budget(standing.job['spec'])}"


def what_set_does(what: Forecast, budgets: limits.Budgets) -> str:
    """Return what a JobSet does when one of its Jobs has failed, in words."""
    if what.set_action == FAILING:
        return "ends the set at once"
    costly = what.set_action.removesuffix(FREE)
    does = "restarts this Job alone" if costly == RESTART_JOB else "restarts the set"
    if costly == what.set_action:
        return f"{does}; then {words.counted(what.left.retries, 'restart')} left"
    if what.cost != "disruption" or budgets.limit == batch.UNLIMITED:
        return f"{does} at no cost"
    return f"{does} at no cost; then {words.counted(what.left.disruptions, 'disruption')} left"
