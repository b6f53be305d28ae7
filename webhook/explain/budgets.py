"""Says how much of each budget of a workload is spent. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from webhook.accounts import limits, words
from webhook.accounts.account import RENEWING, WHOLE, Account
from webhook.accounts.counted import PodsOfJob
from webhook.accounts.forecast import Standing
from webhook.accounts.scopes import NO_NUMBER, Scopes
from webhook.explain import pipeline_run
from webhook.explain.rows import MANY
from webhook.explain.standings import of_job, settings_of
from webhook.kube import names, terminal
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.times import between, written
from webhook.pods import outcomes
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import FAILURES
from webhook.policy.model import Retries
from webhook.policy.settings import Settings
from webhook.policy.settings import count as count_of
from webhook.rules import annotations, undo
from webhook.rules.pods import on_time
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_INDEX, JOB_SET, REPLICATED_JOB, costly_restarts, job_restarts
from webhook.systems.kind_spec import KindSpec
from webhook.systems.system import System
from webhook.systems.tekton import spec as tekton

LONGEST_SOURCE: Final = 320  # characters, of what any user may write
MOST_SCOPES: Final = 20  # of which the budgets are shown
MOST_OF_RANGE: Final = 1000  # scopes of a range in the account, which any user may write


class _Spent(NamedTuple):
    """What a scope has spent, and what it may spend; None if that is not known."""

    retries: int
    disruptions: int
    budget: int | None


def budgets_of(kind: KindSpec, root: Json, jobs: list[Json], account: Account, found: list[Pod]) -> Iterator[str]:
    """Yield lines that say how much of each budget is spent; `found`: the pods.

    `jobs`: those of a JobSet, or the TaskRuns of a PipelineRun.
    """
    system = SYSTEMS[kind]
    if kind is tekton.PIPELINE_RUN:
        yield from pipeline_run.budgets(jobs, account)
    elif not system.has_jobs:
        yield from _budgets_of_scopes(system, account, found)
    elif kind is JOB_SET:
        yield from _budgets_of_set(root, jobs)
    else:
        yield from job_budgets(root, account, settings_of(root, account), found)
    if account.evictions is not None:
        yield words.evictions(account.evictions)
    if system.has_jobs:
        yield from _changed_since(root, account)


def _changed_since(root: Json, account: Account) -> Iterator[str]:
    """Yield the fields of the profile that have changed since a Job was stored, and act only when one is created."""
    record, now = undo.read(root), account.applied
    if record is None or record.applied is None or now is None:
        return
    before = record.applied
    pairs = {
        "disruptions.action": (before.disruptions.action, now.disruptions.action),
        "failurePolicy.inject": (before.inject, now.inject),
        "failurePolicy.manyPods": (before.job_wide is None, now.job_wide is None),
        "failurePolicy.unknownExit": (before.unknown_exit, now.unknown_exit),
    }
    changed = [name for name, (then, later) in pairs.items() if then != later]
    if changed:
        yield f"{', '.join(changed)}: changed since, but the rules of a stored Job cannot be; create it again"


def _budgets_of_set(root: Json, jobs: list[Json]) -> Iterator[str]:
    """Yield lines that say how much of a JobSet's budget is spent, and of those of its Jobs since the last restart."""
    restarts, limit = at(root, ("status", "restarts")) or 0, at(root, ("spec", "failurePolicy", "maxRestarts")) or 0
    yield f"restarts: {restarts} in all, {costly_restarts(root)} of {limit} spent"
    for job in jobs:
        failed, alone = batch.failed_in_status(job), _restarts_alone(root, job)
        started = f", started again alone {words.counted(alone, 'time')}" if alone else ""
        yield f"Job {job['metadata']['name']}: {failed} of {batch.retry_budget(job['spec'])} retries spent{started}"


def _restarts_alone(root: Json, job: Json) -> int:
    """Return how often a Job of a JobSet was restarted without the others."""
    labels = job["metadata"].get("labels") or {}
    return job_restarts(root, labels.get(REPLICATED_JOB) or "", count_of(labels.get(JOB_INDEX)) or 0).in_all


def job_budgets(root: Json, account: Account, settings: Settings, found: Iterable[Pod]) -> Iterator[str]:
    """Yield lines that say how much of each budget of a Job is spent; `found`: its pods."""
    yield from _unseen(root, account)
    counted = PodsOfJob(root, None, settings)
    budgets = counted.budgets
    if budgets.per_index:
        failed = at(root, ("status", "failedIndexes"))
        yield f"retries: {budgets.retries} for each index" + (f"; failed indexes: {failed}" if failed else "")
    else:
        in_place, failed = _restarts_in_place(root, account, found), account.spent_now("retry")
        most = counted.retries_in(account)
        by_pods = f"{failed - account.renewed} of {max(0, most - account.given_back)} spent"
        if account.retry_window_start:
            by_pods += f" since {account.retry_window_start}"
        if account.given_back:
            by_pods += f" (backoffLimit is {most}: {', '.join(_uncounted(account))})"
        yield "retries: " + (by_pods if in_place is None else f"{in_place} spent in place, {by_pods} by failed pods")
        if counted.renews_retries and (renewals := [*_renewals(root, account, settings.profile.retries)]):
            yield f"retries count no more {' or '.join(renewals)}"
    if budgets.limit <= MANY and (account.spent("disruption") or _ignores_disruptions(root)):
        yield from _disruption_budget(root, account, budgets)
    if account.grants:
        yield f"resumed {words.counted(account.grants, 'time')} after reaching the disruption limit"


def _uncounted(account: Account) -> Iterator[str]:
    """Yield how many failures of a Job cost no retry, though its backoffLimit counts them, by why."""
    if account.returned:
        yield f"{account.returned} cost none, by faults of nodes"
    if account.renewed:
        yield f"{account.renewed} count no more"


def _renewals(root: Json, account: Account, retries: Retries) -> Iterator[str]:
    """Yield when the retries of a Job count no more that count now."""
    if retries.per is not None:
        due = account.renewal_at(retries.per)
        yield f"{words.lasting(retries.per)} after the first one" if due is None else f"from {written(due)} on"
    if retries.renew_on_progress:
        further = f"{(account.reached.of('') + RENEWING) / WHOLE:.1%}"
        if (root["spec"].get("completions") or 1) > 1:
            yield f"once {further} of the completions are done"
        elif batch.is_indexed(root["spec"]):
            yield f"once an attempt has told {RENEWING / WHOLE:.0%} more than all before it"
        elif batch.pods_continue(root["spec"]):
            yield f"once an attempt has told that {further} is done"


def _restarts_in_place(root: Json, account: Account, found: Iterable[Pod]) -> str | None:
    """Return how many restarts in place the Job controller has counted, apart from failed pods; None if there are none.

    It counts those of pods that have not ended. It deletes these pods as it fails the Job: then those of the account.
    """
    restarted = [pod for pod in found if pod.restarts is not None and not pod.has_ended]
    limit = min((outcomes.limit_of(pod, root, None) for pod in restarted), default=batch.UNLIMITED)
    counted = account.in_place.get("retry", 0) + account.in_place.get("fatal", 0)
    if limit < batch.UNLIMITED:
        spent = sum(pod.restarts.by_api for pod in restarted if pod.restarts is not None)
        return f"{spent} of {limit}"
    return str(counted) if counted else None


def _unseen(root: Json, account: Account) -> Iterator[str]:
    """Yield how many failures only the status of a Job that has ended shows.

    The ledger does not count them: which of them ended the Job, cost a retry or only followed from its end is unknown.
    While a Job runs, it counts them.
    """
    if not terminal.is_decided(root.get("status") or {}):
        return
    known = sum(account.spent_now(cost) for cost in (*FAILURES, "none"))
    known -= sum(detail.cause == "Succeeded" for detail in account.last_now)
    missing = batch.failed_in_status(root) - known
    if missing > 0:
        yield f"{words.counted(missing, 'more pod')} failed unseen, by status.failed"


def _ignores_disruptions(root: Json) -> bool:
    rules = at(root, ("spec", "podFailurePolicy", "rules")) or ()
    return any(rule.get("action") == "Ignore" and batch.is_of_disruptions(rule) for rule in rules)


def _disruption_budget(root: Json, account: Account, budgets: limits.Budgets) -> Iterator[str]:
    """Yield how many disruptions a Job had and has left, and whether their limit has suspended it."""
    so_far, now = account.spent("disruption"), account.scopes.of("")
    if batch.is_indexed(root["spec"]):
        since = f" since {account.window_start}" if account.window_start else ""
        yield f"disruptions: {so_far} so far; the limit for each index: {budgets.disruptions}{since}"
    else:
        since = "" if now == so_far else f", {now} since {account.window_start or 'the limit was reset'}"
        yield f"disruptions: {so_far} so far{since}, {max(0, budgets.disruptions - now)} left"
    if account.suspended:
        metadata = root["metadata"]
        yield words.suspended(budgets.disruptions, metadata.get("namespace") or "", metadata["name"])


def deadlines(standings: Iterable[Standing]) -> Iterator[str]:
    """Yield how much time and work the Jobs with a deadline have left: the slowest part of each."""
    for standing in (one for one in standings if one.system.has_jobs):  # others have no deadlines
        said = annotations.of(standing.job)
        if annotations.lacks_work(said):
            yield f"deadline: {annotations.NO_WORK}; {annotations.SAY_WORK}"
        live = of_job(standing.job, standing.live)
        saved = on_time.SavedWork(_saved_in(standing, live), standing.account.ended)
        slack = on_time.slack_of(standing.job, standing.job_set, standing.settings, saved, standing.now)
        if slack is not None:
            yield f"deadline{', if a pod is lost now' if live else ''}: {words.deadline(slack, standing.now)}"
            if names.WORK_SOURCE in said:
                yield f"work: {said[names.WORK]}, as {said[names.WORK_SOURCE][:LONGEST_SOURCE]}"


def _saved_in(standing: Standing, live: list[Pod]) -> int:
    """Return the seconds of work that would be saved if the live pods of a Job were lost now, of the least of them.

    Without any: what the scope has saved of the pod that has ended last.
    """
    job, work, deadline = standing.job, standing.account.work, standing.settings.deadline
    if deadline is None:
        return 0
    if live:
        lost = [replace(pod, worked=between(pod.started, written(standing.now))) for pod in live]
        return min(on_time.saved_with(work.at_least(limits.scope_of(pod)), pod, job, deadline) for pod in lost)
    set_name = "" if standing.job_set is None else standing.job_set["metadata"]["name"]
    scopes = [one.scope for one in standing.account.last_now]
    own = [one for one in scopes if limits.job_of(set_name, one) in {"", job["metadata"]["name"]}]
    return work.at_least(own[-1]) if own else 0


def _budgets_of_scopes(system: System, account: Account, found: list[Pod]) -> Iterator[str]:
    """Yield lines that say what each scope has spent, those that spent most first; for MOST_SCOPES of them."""
    spent = _spent_by_scope(account, found)
    unit = system.unit
    for scope, one in list(spent.items())[:MOST_SCOPES]:
        of = "" if one.budget is None else f" of {one.budget}"
        parts = [f"{words.counted(one.retries, 'retry') if not of else f'{one.retries}{of} retries'} spent"]
        parts += [words.counted(one.disruptions, "disruption")] if one.disruptions else []
        yield f"{f'{unit} {scope}' if scope else 'retries'}: {', '.join(parts)}"
    if len(spent) > MOST_SCOPES:
        yield f"(and {words.counted(len(spent) - MOST_SCOPES, f'other {unit}')}, which spent less or as much)"
    lost = max(_retries_in(account).others, account.scopes.others)
    if lost:
        yield f"({unit}s that are not listed spent at most {lost})"
    if account.grants:
        times = words.counted(account.grants, "time")
        yield f"suspended {times} after reaching the disruption limit; a resume allows as many again"


def _spent_by_scope(account: Account, found: Iterable[Pod]) -> dict[str, _Spent]:
    """Return what the scopes have spent that spent anything, those that spent most first."""
    retries, disruptions = dict(_counts_in(_retries_in(account))), dict(_counts_in(account.scopes))
    budgets = _known_budgets(account, found)
    spent = {
        scope: _Spent(retries.get(scope, 0), disruptions.get(scope, 0), budgets.get(scope))
        for scope in sorted({*retries, *disruptions})
    }
    return dict(sorted(spent.items(), key=lambda one: (-one[1].retries, -one[1].disruptions)))


def _retries_in(account: Account) -> Scopes:
    return Scopes() if account.retries is None else account.retries


def _counts_in(scopes: Scopes) -> Iterator[tuple[str, int]]:
    """Yield each scope that is listed with its number, of a range at most MOST_OF_RANGE."""
    for run in scopes.runs:
        if run.disruptions:
            numbers = range(run.first, min(run.last, run.first + MOST_OF_RANGE - 1) + 1)
            for number in numbers:
                yield run.prefix if run.first == NO_NUMBER else f"{run.prefix}{number}", run.disruptions


def _known_budgets(account: Account, found: Iterable[Pod]) -> dict[str, int]:
    """Return the retries that scopes may spend: by their newest pods, or else by what was left after an attempt."""
    known: dict[str, int] = {}
    for detail in account.last:
        if detail.left is not None and detail.cost != "fatal":
            known[detail.scope] = detail.left.retries + account.retries_of(detail.scope)
    for pod in sorted(found, key=lambda pod: pod.created):
        if pod.max_retries is not None:
            known[pod.scope] = pod.max_retries
    return known
