"""Explains what the next failure does to a workload of another kind than Job and JobSet, for each way to fail. Pure.

It asks the functions with which the leader counts. What the author's own fields add to the limit is not read.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import replace

from webhook.explain.next_failure import ANY, NextFailure, ended_as, what_is_matched
from webhook.kinds import KindSpec, apache_spark, argo, flyte, kubeflow, ray, spark, tekton, volcano
from webhook.kinds.accounts.airflow import DAG_RUN
from webhook.ledger import settling
from webhook.ledger.forecast import Forecast
from webhook.ledger.model import counting, limits, on_failure, outcomes, words
from webhook.ledger.model.account import Account, Left
from webhook.ledger.model.pods import DISRUPTED, Condition, Exit, Pod
from webhook.ledger.model.scopes import ranges
from webhook.ledger.model.systems import System
from webhook.objects.problem import Json
from webhook.policy.settings import LARGEST_COUNT, NamedProfile, Settings
from webhook.rules import annotations

MOST_NAMED: Final = 10  # scopes for which the same holds, which are named
MOST_SORTS: Final = 20  # sorts of scopes, such as head and workers, up to which they are told apart
HIGHEST_CODE: Final = 256  # exit codes that a container can end with are lower
LATER: Final = "9999-12-31T23:59:59Z"  # when the next failure happens
RETRIED: Final = "an exit code that the policy retries"
EVICTED: Final = "EvictionByEvictionAPI"
# What a scope is called.
UNITS: Final[dict[KindSpec, str]] = {
    argo.WORKFLOW: "step",
    tekton.PIPELINE_RUN: "task",
    **dict.fromkeys(kubeflow.ROWS, "replica"),
    ray.RAY_JOB: "group",
    spark.SPARK_APPLICATION: "role",
    apache_spark.SPARK_APPLICATION: "role",
    volcano.JOB: "task",
    flyte.FLYTE_WORKFLOW: "node",
    DAG_RUN: "task",
}
ENDS_ALONE: Final = frozenset({argo.WORKFLOW, tekton.PIPELINE_RUN})  # where a scope may fail and others go on


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a workload before one of its pods fails.

    `account` counts every pod that has failed before. `live`: the pods that have not ended. `profile`: as recorded on
    the workload or in its account; `knows_codes`: whether its exit codes are recorded too.
    """

    system: System
    root: Json
    account: Account
    live: list[Pod]
    profile: NamedProfile
    knows_codes: bool

    @property
    def settings(self) -> Settings:
        """The settings of the workload."""
        return self.profile.settings(annotations.of(self.root))


class Way(NamedTuple):
    """A way in which a pod may fail: in words, and the pod after it."""

    ending: str
    pod: Pod


class Told(NamedTuple):
    """What a way to fail does, and that in words."""

    ending: str
    forecast: Forecast
    text: str


def next_failures(standing: Standing) -> Iterator[NextFailure]:
    """Yield what each way to fail does to the scopes that have a pod; once for all scopes with the same results."""
    tell_apart = len({sort_of(pod.scope) for pod in standing.live}) <= MOST_SORTS
    by_counts: dict[object, list[Pod]] = {}
    for pod in standing.live:
        sort = sort_of(pod.scope) if tell_apart else ""
        by_counts.setdefault((sort, *counts_of(standing.account, pod)), []).append(pod)
    groups: dict[tuple[tuple[str, str], ...], tuple[list[Told], list[str]]] = {}
    for alike in by_counts.values():
        told = without_twins([tell(standing, way) for way in ways(standing, alike[0])])
        _, scopes = groups.setdefault(tuple((one.ending, one.text) for one in told), (told, []))
        scopes += [pod.scope for pod in alike]
    unit = UNITS.get(standing.system.row, "scope")
    for told, scopes in groups.values():
        named = "" if len(groups) == 1 else some(scopes)
        where = f" of {unit} {named}" if named else ""
        for one in told:
            text = f"{one.ending if len(told) > 1 else ANY}{where}: {one.text}"
            yield NextFailure(ending=one.ending, indexes=named, forecast=one.forecast, text=text)


def counts_of(account: Account, pod: Pod) -> tuple[int, ...]:
    """Return the counts on which the result of a pod's failure depends."""
    scope, budget = pod.scope, pod.max_retries
    counts = account.retries_of(scope), account.scopes.of(scope), account.free.of(scope)
    return (*counts, -1 if budget is None else budget)


def sort_of(scope: str) -> str:
    """Return a scope without its number, such as `worker` for `worker/3`."""
    return scope.rpartition("/")[0] or scope


def some(scopes: list[str]) -> str:
    """Name scopes in order, and how many others there are."""
    named = ranges(scopes).split(",")
    others = len(named) - MOST_NAMED
    return f"{', '.join(named[:MOST_NAMED])} and {words.counted(others, 'other')}" if others > 0 else ", ".join(named)


def ways(standing: Standing, pod: Pod) -> Iterator[Way]:
    """Yield each way in which a pod may fail."""
    settings = standing.settings
    failed = replace(pod, phase="Failed", deleting=False, deleted="", conditions=(), exits=(), ended=LATER, reason="")
    condition = Condition(DISRUPTED, "True", EVICTED, LATER)
    yield Way("a disruption", replace(failed, deleting=True, deleted=LATER, conditions=(condition,)))
    for number, rule in enumerate(settings.on_failure):
        ended = ended_as(rule.match, failed, "main")
        outcome = None if ended is None else outcomes.outcome_elsewhere(ended, has_ended=False)
        if ended is not None and outcome and on_failure.decided(ended, outcome, settings.on_failure) == number:
            yield Way(what_is_matched(rule.match), ended)
    policy = settings.profile.failure_policy
    codes = policy.retriable_exit_codes
    if codes and policy.inject != "Never":
        which = f"exit code {', '.join(map(str, codes))}" if standing.knows_codes else RETRIED
        yield Way(which, exited(failed, codes[0]))
    bug = next(code for code in range(1, HIGHEST_CODE) if code not in codes)
    yield Way("any other exit code" if codes and policy.inject != "Never" else "any exit code", exited(failed, bug))


def exited(failed: Pod, code: int) -> Pod:
    """Return a failed pod whose container ended with an exit code."""
    return replace(failed, exits=(Exit("main", code, "Error", LATER),))


def without_twins(told: list[Told]) -> list[Told]:
    """Return one entry for all exit codes if each of them does the same."""
    *others, last = told
    if len(others) > 1 and others[-1].text == last.text:
        return [*others[:-1], Told("any exit code", last.forecast, last.text)]
    return told


def tell(standing: Standing, way: Way) -> Told:
    """Return what a way to fail does."""
    system, settings, pod = standing.system, standing.settings, way.pod
    account = deepcopy(standing.account)
    budgets = counting.budgets_elsewhere(pod, settings)
    detail = counting.count_elsewhere(account, pod, standing.root, system, settings)
    ends_by_leader = settling.bug_elsewhere(pod, system, settings) is not None
    by_leader = ends_by_leader and system.can_end
    exceeds = is_exceeded(system, account, budgets, settings, pod) and detail.cost == "disruption"
    fails = exceeds and settings.profile.disruptions.on_exceed == "Fail" and system.can_end
    suspends = exceeds and settings.profile.disruptions.on_exceed == "Suspend"
    suspends = suspends and system.suspend(standing.root) is not None
    ends = detail.cost == "fatal" or by_leader or fails
    left = Left(retries=0, disruptions=0) if detail.left is None else detail.left
    forecast = Forecast(
        cause=detail.cause,
        cost=detail.cost,
        rule=None,
        action="",
        left=left,
        ends=("scope" if system.row in ENDS_ALONE and not fails else "workload") if ends else "",
        reason=counting.LIMIT_EXCEEDED if fails else "",
        suspends=suspends,
        on_failure=detail.on_failure,
    )
    retried = counting.outcome_of(standing.account, unlimited(pod), standing.root, system, settings).cost == "retry"
    is_over = retried and not by_leader and not fails
    text = said(forecast, system.row, budgets, is_over=is_over)
    return Told(
        way.ending,
        forecast,
        f"{text} (rule {detail.on_failure} of onFailure)" if detail.on_failure is not None else text,
    )


def unlimited(pod: Pod) -> Pod:
    """Return a pod whose scope has retries left, to see what its end costs then."""
    return replace(pod, max_retries=LARGEST_COUNT)


def is_exceeded(system: System, account: Account, budgets: limits.Budgets, settings: Settings, pod: Pod) -> bool:
    """Return True if a pod's scope had more disruptions than allowed, and the limit applies to it."""
    applies = settings.disruption_action == "Ignore" and system.is_single(pod.scope)
    return applies and limits.is_exceeded(account, budgets, pod.scope)


def said(what: Forecast, row: KindSpec, budgets: limits.Budgets, *, is_over: bool) -> str:
    """Return what a failure does, in words; `is_over`: whether it ends something because no retry is left."""
    exceeded = f"disruptions exceed the limit of {budgets.disruptions}"
    if what.ends:
        over = f"ends the {UNITS[row] if what.ends == 'scope' else row.kind}"
        return f"{over}: {exceeded}" if what.reason else f"{over}; no retry is left" if is_over else f"{over} at once"
    if what.suspends:
        return f"suspends the {row.kind}: {exceeded}"
    if what.cost == "retry":
        return f"costs a retry; then {words.counted(what.left.retries, 'retry')} left"
    if what.cost == "disruption":
        return f"costs no retry; then {words.counted(what.left.disruptions, 'disruption')} left"
    return "costs no retry" if what.cost == "free" else "costs nothing"
