"""Explains what the next failure does, for each way in which a pod may fail: a forecast, and its text. Pure.

What a failure does is asked of `webhook/accounts/forecast.py`. Of kinds other than Job and JobSet, what the author's
own fields add to the limit is not read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple, assert_never

from msgspec import structs

from webhook.accounts import counting, forecast, limits, settling, words
from webhook.accounts.account import WHOLE
from webhook.accounts.counted import PodsOfJob
from webhook.accounts.forecast import Forecast, Standing, as_ended
from webhook.accounts.scopes import ranges
from webhook.explain import pending
from webhook.explain.standings import NOBODYS, of_job
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods import matching, on_failure, outcomes, pods
from webhook.pods.pods import Exit, Pod
from webhook.policy import criteria
from webhook.policy.attempt_costs import FAILURES
from webhook.policy.model import Match
from webhook.policy.settings import LARGEST_COUNT
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy
from webhook.systems.job_set.spec import FAIL_SET, FREE, REPLICATED_JOB, RESTART_JOB, SET_NAME, job_restarts

ELSE: Final = "anything else"
ANY: Final = "any failure"  # in the text, if there is no other way
RETRIED: Final = "an exit code that the policy retries"
HIGHEST_CODE: Final = 256  # exit codes that a container can end with are lower
MOST_SCOPES: Final = 20  # groups of scopes, and of Jobs, that are shown
MOST_NAMED: Final = 10  # scopes of a group that are named
MOST_SORTS: Final = 20  # sorts of scopes, such as head and workers, up to which they are told apart
LATER: Final = "9999-12-31T23:59:59Z"  # when the next failure happens
EVICTED: Final = "EvictionByEvictionAPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFailure:
    """What happens when a pod fails in one way.

    `ending`: the way, in words. `indexes`: the indexes or other scopes for which this holds, such as `0-2,5`; empty for
    all pods. `job`: the Jobs of a JobSet for which this holds, such as `workers` or `workers-0,2`; empty for all Jobs.
    """

    ending: str
    indexes: str
    job: str = ""
    forecast: Forecast
    text: str


class _Told(NamedTuple):
    ending: str
    what: Forecast
    text: str


def next_of(standings: list[Standing], found: list[Pod], *, placed: bool) -> Iterator[NextFailure]:
    """Yield what the next failure does; in a JobSet for each of its Jobs, or once if it is the same for several.

    `found`: the pods of the workload. `placed`: whether the webhook chooses the nodes of their pods.
    """
    by_told: dict[tuple[NextFailure, ...], list[Standing]] = {}
    for alike in islice(_alike_jobs(standings, found), MOST_SCOPES):
        first, pods_of_job = alike[0]
        told = (*next_failures(first, pods_of_job, placed=placed and first.profile is not NOBODYS),)
        by_told.setdefault(told, []).extend(standing for standing, _ in alike)
    for told, jobs in by_told.items():
        name = "" if len(by_told) == 1 else _names_of(jobs, standings)
        yield from (replace(one, job=name, text=f"{name}: {one.text}") if name else one for one in told)


def _alike_jobs(standings: list[Standing], found: list[Pod]) -> Iterable[list[tuple[Standing, list[Pod]]]]:
    """Return groups of Jobs for which a failure has the same result, each Job with its pods that may fail next."""
    groups: dict[object, list[tuple[Standing, list[Pod]]]] = {}
    for standing in standings:
        pods_of_job = _next_pods(standing, found)
        if len(standings) == 1:
            return [[(standing, pods_of_job)]]
        groups.setdefault(_counts_of_job(standing, pods_of_job), []).append((standing, pods_of_job))
    return groups.values()


def _counts_of_job(standing: Standing, found: list[Pod]) -> object:
    """Return the counts on which the result of a failure in a Job depends."""
    job, job_set, alone = standing.job, standing.job_set, 0
    if job_set is not None:
        alone = job_restarts(job_set, standing.replicated_job, standing.job_index).in_all
    ended = at(job, ("status", "failedIndexes")), at(job, ("status", "succeeded"))
    of_job = standing.replicated_job, alone, batch.failed_in_status(job), *ended
    return of_job, tuple(sorted((pod.index, *_counts_of_pod(standing, pod)) for pod in found))


def _names_of(jobs: list[Standing], of: list[Standing]) -> str:
    """Name Jobs of a JobSet: `workers` for all Jobs of a replicated Job, else `workers-0,2-3`."""
    parts = []
    for name in dict.fromkeys(one.replicated_job for one in jobs):
        indexes = {one.job_index for one in jobs if one.replicated_job == name}
        others = {one.job_index for one in of if one.replicated_job == name} - indexes
        parts.append(f"{name}-{ranges(map(str, indexes))}" if others else name)
    return " and ".join(parts)


def _next_pods(standing: Standing, found: list[Pod]) -> list[Pod]:
    """Return the pods that may fail next: those that run, or else those of a Job that will be created."""
    job = standing.job
    if not standing.system.has_jobs:
        return [*standing.live]
    found = of_job(job, found)
    running = [pod for pod in found if not pod.has_ended and not pod.deleting]
    if running:
        return running
    metadata = job["metadata"]
    labels = metadata.get("labels") or {}
    new = Pod(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid="",
        job=metadata["name"],
        job_uid=metadata["uid"],
        job_set=labels.get(SET_NAME) or "",
        replicated_job=labels.get(REPLICATED_JOB) or "",
        index="0" if batch.is_indexed(job.get("spec") or {}) else "",
        restart=pods.restart_of(labels),
    )
    return [_replaced(pod, job) for pod in pending.missing_indexes(found, job) if pod.index] or [new]


def _replaced(pod: Pod, job: Json) -> Pod:
    """Return the pod that will replace a failed one of an index, with the counts that it will have."""
    outcome = outcomes.outcome_of(pod, job)
    ignored = outcome.rule is not None and outcome.rule.action == "Ignore"
    return structs.replace(
        pod,
        uid="",
        index_failures=None if pod.index_failures is None else pod.index_failures + (not ignored),
        index_ignored=(pod.index_ignored or 0) + ignored,
    )


def next_failures(standing: Standing, found: list[Pod], *, placed: bool) -> Iterator[NextFailure]:
    """Yield what each way to fail does to the pods that may fail next; once for all scopes with the same results.

    `found`: those of the Job, or of the workload, that run or will be created. `placed`: whether the webhook chooses
    their nodes.
    """
    groups: dict[object, tuple[list[_Told], list[Pod]]] = {}
    for same in _alike(standing, found):
        told = [_told(standing, ending, failed, placed=placed) for ending, failed in _endings(standing, same[0])]
        told = _without_twins(told, standing)
        # A Job has few indexes in different states; thousands of scopes of another kind are told apart by words alone.
        alike = (*told,) if standing.system.has_jobs else tuple((one.ending, one.text) for one in told)
        groups.setdefault(alike, (told, []))[1].extend(same)
    for of_group, pods_alike in groups.values():
        named = "" if len(groups) == 1 else _some(standing, pods_alike)
        where = f" of {standing.system.unit} {named}" if named else ""
        for ending, what, said in of_group:
            text = f"{ending if len(of_group) > 1 else ANY}{where}: {said}"
            yield NextFailure(ending=ending, indexes=named, forecast=what, text=text)


def _told(standing: Standing, ending: str, failed: Pod, *, placed: bool) -> _Told:
    what = forecast.foretell(standing, failed)
    return _Told(ending, what, f"{_said(what, standing, failed, placed=placed)}{_deciders(what)}")


def _without_twins(told: list[_Told], standing: Standing) -> list[_Told]:
    """Return one entry for all exit codes if each of them does the same."""
    *others, last = told
    if standing.system.has_jobs or len(others) <= 1 or others[-1].text != last.text:
        return told
    return [*others[:-1], last._replace(ending="any exit code")]


def _deciders(what: Forecast) -> str:
    """Return which rules decide about a failure, such as ` (rule 1; rule 0 of onFailure)`; empty if none does."""
    found = [] if what.rule is None else [f"rule {what.rule}"]
    found += [] if what.on_failure is None else [f"rule {what.on_failure} of onFailure"]
    return f" ({'; '.join(found)})" if found else ""


def _alike(standing: Standing, found: Iterable[Pod]) -> Iterable[list[Pod]]:
    """Return groups of pods; the same failure has the same result for all pods of a group."""
    found = list(found)
    sorts = {_sort_of(pod.scope) for pod in found}
    groups: dict[object, list[Pod]] = {}
    for pod in found:
        sort = _sort_of(pod.scope) if len(sorts) <= MOST_SORTS else ""
        groups.setdefault((sort, *_counts_of_pod(standing, pod)), []).append(pod)
    return islice(groups.values(), MOST_SCOPES)


def _sort_of(scope: str) -> str:
    """Return a scope without its number, such as `worker` for `worker/3`."""
    return scope.rpartition("/")[0] or scope


def _some(standing: Standing, alike: list[Pod]) -> str:
    """Name the indexes of pods of a Job; or the first scopes in order, and how many others there are."""
    if standing.system.has_jobs:
        return ranges(pod.index for pod in alike if pod.index)
    named = ranges(pod.scope for pod in alike).split(",")
    others = len(named) - MOST_NAMED
    return f"{', '.join(named[:MOST_NAMED])} and {words.counted(others, 'other')}" if others > 0 else ", ".join(named)


def _counts_of_pod(standing: Standing, pod: Pod) -> tuple[int, ...]:
    """Return the counts of a pod's scope on which the result of its failure depends."""
    account, scope = standing.account, limits.scope_of(pod)
    spec = standing.job.get("spec") or {}
    disruptions = limits.disruptions_at(scope, account, pod, spec, standing.job_set)
    counts = disruptions, account.scopes.at_least(scope), account.free.of(scope), account.retries_of(scope)
    of_pod = pod.index_failures, pod.index_ignored, pod.max_retries
    return (*counts, *(-1 if one is None else one for one in of_pod))


def _endings(standing: Standing, pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield each way in which a pod may fail: in words, and the pod after such a failure."""
    failed = as_ended(pod, "Other", time=LATER)
    return _endings_of_job(standing, failed) if standing.system.has_jobs else _endings_elsewhere(standing, failed)


def _endings_of_job(standing: Standing, failed: Pod) -> Iterator[tuple[str, Pod]]:
    rules = at(standing.job, ("spec", "podFailurePolicy", "rules")) or []
    for index, rule in enumerate(rules):
        for candidate in _candidates(standing, rule, failed):
            match = matching.match(rules, candidate)
            if match is not None and match.index == index:
                yield _what_matches(rule), candidate
                break
    for match_of_rule, ended in _endings_by_rules(standing, failed):
        # With exit codes of which a rule of the failure policy is, that rule is shown.
        if not match_of_rule.exit_codes or matching.match(rules, ended) is None:
            yield _what_is_matched(match_of_rule), ended
    for rule in _bug_rules(standing):
        found = _candidates(standing, rule, failed)
        bug = next((one for one in found if forecast.settled_within(standing, one) is not None), None)
        if bug is not None:
            following = next(found, None)
            alone = following is not None and forecast.settled_within(standing, following) is None
            yield f"exit code {bug.exits[0].code} of {bug.exits[0].container}" if alone else _what_matches(rule), bug
    yield from _stuck(standing, failed)
    yield ELSE, failed


def _stuck(standing: Standing, failed: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield the end of the last attempt in the scope of a pod, if that ends the Job should the pod get no further."""
    ends = (one for one in reversed(standing.account.last_now) if one.scope == limits.scope_of(failed))
    last = next(ends, None)
    if last is None or last.progress is None or (crash := pending.crash_of(last, standing.job)) is None:
        return
    again = structs.replace(_exited(failed, crash.exits[0]), progress=last.progress / WHOLE)
    if forecast.foretell(standing, again).reason == counting.NO_PROGRESS:
        yield f"{words.how(last)} again, with {last.progress / WHOLE:.1%} of its work saved", again


def _endings_elsewhere(standing: Standing, failed: Pod) -> Iterator[tuple[str, Pod]]:
    disrupted = as_ended(failed, "Disruption", reason=EVICTED, time=LATER)
    yield "a disruption", structs.replace(disrupted, deleting=True, deleted=LATER)
    for match_of_rule, ended in _endings_by_rules(standing, failed):
        yield _what_is_matched(match_of_rule), ended
    policy = standing.settings.profile.failure_policy
    codes = policy.retriable_exit_codes
    tells_codes = codes and policy.inject != "Never"
    bug = next(code for code in range(1, HIGHEST_CODE) if code not in codes)
    if tells_codes:
        which = f"exit code {', '.join(map(str, codes))}" if standing.knows_codes else RETRIED
        yield which, _exited(failed, Exit("main", codes[0], "Error", LATER))
    yield "any other exit code" if tells_codes else "any exit code", _exited(failed, Exit("main", bug, "Error", LATER))


def _exited(failed: Pod, one: Exit) -> Pod:
    return as_ended(failed, "ExitCode", exits=(one,), time=failed.ended)


def _endings_by_rules(standing: Standing, failed: Pod) -> Iterator[tuple[Match, Pod]]:
    """Yield the match of each rule of onFailure that decides about a pod which it is about, and that pod."""
    rules = standing.settings.on_failure
    for number, rule in enumerate(rules):
        seen: dict[Forecast | None, tuple[Match, Pod]] = {}
        for match in _by_code(rule.match, standing):
            ended = _ended_as(match, failed, _first_container(standing))
            if ended is None:
                continue
            outcome = outcomes.outcome_of(ended, standing.job, standing.job_set)
            if on_failure.decided(ended, outcome, rules) == number:
                what = None if match is rule.match else forecast.foretell(standing, ended)
                same, first = seen.get(what, (match, ended))
                codes = dict.fromkeys((*same.exit_codes, *match.exit_codes))
                seen[what] = structs.replace(same, exit_codes=(*codes,)), first
        yield from seen.values()


def _by_code(match: Match, standing: Standing) -> list[Match]:
    """Return a match for each exit code of one: the rules of a JobSet may be about the codes, which messages name."""
    if standing.job_set is None or len(match.exit_codes) <= 1:
        return [match]
    return [structs.replace(match, exit_codes=(code,)) for code in match.exit_codes]


def _first_container(standing: Standing) -> str:
    containers = at(standing.job, ("spec", "template", "spec", "containers")) or []
    return next((one["name"] for one in containers), "main")


def _ended_as(match: Match, failed: Pod, container: str) -> Pod | None:
    """Return a failed pod that a match of onFailure is about; None if there is none with a container that ended.

    `container`: the one that ended, if the match names none.
    """
    reason = next(iter(match.reasons), "")
    match match.cause:
        case "NeverStarted" | "Other":
            return None
        case "Disruption" | "DeadlineExceeded" | "Stalled" as cause:
            return as_ended(failed, cause, reason=reason, time=failed.ended)
        case "OOMKilled" | "ExitCode" | None:
            pass
        case unknown:
            assert_never(unknown)
    killed = match.cause == "OOMKilled"
    code = criteria.KILLED if killed else next(iter(match.exit_codes), 1)
    why, said = outcomes.OOM if killed else reason or "Error", (match.message or "").replace("*", "")
    ended = _exited(failed, Exit(next(iter(match.containers), container), code, why, failed.ended, said))
    if not (match.same_node or match.failures):
        return ended
    times = (match.same_node or 1) - 1, (match.failures or 1) - 1
    again = on_failure.FailureState(nodes=(failed.node,) * times[0], decided=(on_failure.BY_NONE,) * times[1])
    return structs.replace(ended, after=on_failure.written(again))


def _what_is_matched(match: Match) -> str:
    """Return what a match of onFailure is about, such as `OOMKilled of main`."""
    what = {None: "a failure", "Disruption": "a disruption", "ExitCode": "any exit code"}.get(match.cause, match.cause)
    if match.exit_codes:
        what = f"exit code {', '.join(map(str, match.exit_codes))}"
    return f"{what}{criteria.words_of(match)}"


def _bug_rules(standing: Standing) -> list[Json]:
    """Return the rules by which the ledger recognises a bug, if it decides about crashes of this Job."""
    settings, counted = standing.settings, standing.counted
    if not isinstance(counted, PodsOfJob):
        return []
    if not (settling.may_settle(counted.job, settings) or settling.may_judge(counted.job, settings)):
        return []
    return failure_policy.bug_rules(counted.embedded, settings, counted.author_rules)[0]


def _candidates(standing: Standing, rule: Json, failed: Pod) -> Iterator[Pod]:
    """Yield failed pods that a rule of a failure policy matches; an earlier rule may match them too."""
    codes = matching.exit_codes_of(rule)
    if codes is None:
        conditions = tuple(pods.Condition(kind, status, "", "") for kind, status in matching.conditions_of(rule))
        yield structs.replace(failed, conditions=conditions[:1])
        return
    name = codes.container or _first_container(standing)
    for code in range(1, HIGHEST_CODE) if codes.excluding else sorted(codes.values):
        if codes.match(code):
            yield _exited(failed, Exit(name, code, "Error", failed.ended))


def _what_matches(rule: Json) -> str:
    """Return what a rule of a failure policy matches, such as `exit code 1 of main`."""
    on_exit_codes = rule.get("onExitCodes")
    if on_exit_codes is None:
        kinds = [one.get("type") or "" for one in rule.get("onPodConditions") or ()]
        return "a disruption" if batch.is_of_disruptions(rule) else f"condition {' or '.join(kinds)}"
    container = on_exit_codes.get("containerName")
    codes = ", ".join(str(code) for code in on_exit_codes.get("values") or ())
    which = f"exit code {codes}" if on_exit_codes.get("operator") == "In" else f"any exit code but {codes}"
    return f"{which} of {container}" if container else which


def _said(what: Forecast, standing: Standing, failed: Pod, *, placed: bool) -> str:
    """Return what a failure does, in words; `failed`: the pod after it."""
    budgets, kind, in_set = standing.counted.budgets_of(failed), standing.key.kind_name, standing.job_set is not None
    if what.reason:
        return f"ends the {_name_of(what.ends, standing)}: {limit_exceeded(what, budgets)}"
    if what.ends and not in_set:
        over = f"ends the {_name_of(what.ends, standing)}"
        return f"{over} at once" if _ends_at_once(what, standing, failed) else f"{over}; no retry is left"
    if what.suspends:
        return f"suspends the {_name_of('workload', standing)}: {limit_exceeded(what, budgets)}"
    parts = [_cost_in_set(what, standing, failed, budgets) if in_set else _cost_of(what, standing, failed, budgets)]
    if placed and what.off_spot is not None:
        parts.append(f"the next pod goes to {'on-demand' if what.off_spot else 'spot'} nodes")
    told = "; ".join(parts)
    return told if what.settled_within is None else f"{verdict(what, standing, kind)}; else {told}"


def _name_of(ends: str, standing: Standing) -> str:
    return {"JobSet": "set", "scope": standing.system.unit, "workload": standing.key.kind.kind}.get(ends, ends)


def _ends_at_once(what: Forecast, standing: Standing, failed: Pod) -> bool:
    """Return True if a failure ends something even with a retry left."""
    if standing.system.has_jobs:
        return what.rule is not None
    if forecast.is_bug(standing, failed):
        return True
    rich = structs.replace(failed, max_retries=LARGEST_COUNT)
    return standing.counted.outcome_of(standing.account, rich).cost != "retry"


def limit_exceeded(what: Forecast, budgets: limits.Budgets) -> str:
    """Return which limit the failure exceeds, such as `disruptions exceed the limit of 1`."""
    if what.reason == counting.JOB_WIDE:
        return "so many indexes have failed, and none has finished"
    if what.reason == counting.NO_PROGRESS:
        return "it ended so before, and got no further"
    if what.reason == counting.FREE_TOO_OFTEN:
        return f"free restarts exceed the limit of {budgets.free_restarts}"
    return f"disruptions exceed the limit of {budgets.disruptions}"


def _cost_of(what: Forecast, standing: Standing, failed: Pod, budgets: limits.Budgets) -> str:
    if what.cost in FAILURES:
        costs = "costs the index a retry" if budgets.per_index else "costs a retry"
        return f"{costs}; then {words.counted(what.left.retries, 'retry')} left"
    if what.cost == "disruption" and budgets.limit == batch.UNLIMITED:
        return "costs no retry"
    if what.cost == "disruption":
        return f"costs no retry; then {words.counted(what.left.disruptions, 'disruption')} left"
    if what.cost == "free":
        limit = words.counted(budgets.free_restarts, "such failure")
        ends = forecast.may_end(standing, failed)
        return "costs no retry" + (f"; the ledger ends the {standing.kind.kind} after {limit}" if ends else "")
    return "costs nothing"


def verdict(what: Forecast, standing: Standing, kind: str) -> str:
    """Return when the ledger ends a workload because of a failure about which it decides."""
    if what.on_failure is not None:
        return words.fatal_by(what.on_failure, kind)
    if not settling.may_settle(standing.job, standing.settings):
        return words.unlisted(kind)
    return words.verdict(what.settled_within or 0, kind, settling.fault_within(standing.settings))


def _cost_in_set(what: Forecast, standing: Standing, failed: Pod, budgets: limits.Budgets) -> str:
    if what.set_action:
        does = _what_set_does(what, budgets)
        return does if what.action == "FailJob" else f"no retry of the Job is left, which {does}"
    if what.ends == "index":
        return "ends the index"
    if what.cost in {"disruption", "free"}:
        return _cost_of(what, standing, failed, budgets)
    return f"costs its Job a retry, of {batch.retry_budget(standing.job['spec'])}"


def _what_set_does(what: Forecast, budgets: limits.Budgets) -> str:
    if what.set_action == FAIL_SET:
        return "ends the set at once"
    costly = what.set_action.removesuffix(FREE)
    does = "restarts this Job alone" if costly == RESTART_JOB else "restarts the set"
    if costly == what.set_action:
        return f"{does}; then {words.counted(what.left.retries, 'restart')} left"
    if what.cost != "disruption" or budgets.limit == batch.UNLIMITED:
        return f"{does} at no cost"
    return f"{does} at no cost; then {words.counted(what.left.disruptions, 'disruption')} left"
