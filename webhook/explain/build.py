"""Explains what each attempt of a Job or JobSet cost and why, by its account and its pods. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from msgspec import structs

from webhook.explain import pending
from webhook.explain.job_budgets import MANY, job_budgets
from webhook.explain.next_failure import MOST_SCOPES, NextFailure, counts_of_pod, next_failures
from webhook.explain.pending import Delayed, Verdict
from webhook.kinds import batch
from webhook.kinds.job_set import JOB_INDEX, JOB_SET, REPLICATED_JOB, SET_NAME, costly_restarts, job_restarts
from webhook.kube import names, terminal
from webhook.ledger.forecast import Standing
from webhook.ledger.model import counting, limits, on_failure, outcomes, pods, words
from webhook.ledger.model.account import Account, Attempt
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.scopes import ranges
from webhook.ledger.model.stored import reading as stored
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.applied import profile_of
from webhook.policy.model import Disruptions, FailurePolicy, Profile
from webhook.policy.settings import NamedProfile, Settings
from webhook.policy.settings import count as count_of
from webhook.retry import record
from webhook.rules import annotations, undo

# The profile of a Job without a record of one: it injects nothing and has no limits.
NOBODYS: Final = NamedProfile(
    "",
    Profile(failure_policy=FailurePolicy(inject="Never"), disruptions=Disruptions(limit=batch.UNLIMITED)),
)
UNKNOWN: Final = NOBODYS.settings({})
EVENT: Final = "Event"
MOST_PODS: Final = 40  # without a failure, which are shown
PLACEMENTS: Final = {"Spot": "spot", "OnDemand": "on-demand"}
UNPLACED: Final = "nothing is placed: no provider is recognised, or the profile or the pod leaves its nodes open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attempt.

    - `attempt`: as the pod's annotation says. `unit`: its scope: index, Job of the set, or task.
    - `placement`: spot or on-demand, by the labels of its node, or else as the policy decided; empty if neither says.
    - `start` and `end`: RFC 3339; empty if unknown.
    - `ended`: how it ended, or the state of the pod if it has not ended.
    - `rule`: the rule of the failure policy that matched, such as `rule 1 (FailJob)`; empty if none did.
    - `cost`: retry, disruption, free, fatal, none; empty while it runs.
    - `retries_left` and `disruptions_left`: what its scope had left after it; None if that is unknown.
    - `on_failure`: the rule of onFailure that decided after it; None if none did. `after`: what the attempts before a
      pod that has not ended ask of it, by the rules of onFailure; empty if there is nothing.
    - `last_words`: the end of its termination message; empty if it left none, or if they are not kept.
    """

    attempt: int
    unit: str
    pod: str
    node: str
    placement: str
    start: str
    end: str
    ended: str
    rule: str
    cost: str
    retries_left: int | None
    disruptions_left: int | None
    on_failure: int | None = None
    after: str = ""
    last_words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A workload: its state, its budgets, its attempts, oldest first, and what its next failure does."""

    kind: str
    namespace: str
    name: str
    state: str
    summary: str
    budgets: list[str]
    earlier: int  # attempts that are counted but not in `rows`
    others: dict[str, int] = field(default_factory=dict)  # pods that have not failed and are not in `rows`, by state
    requested: tuple[record.Requested, ...] = ()  # requested retries
    rows: list[Row] = field(default_factory=list)
    waits_until: str = ""  # the end of the Job controller's back-off, RFC 3339; empty if it does not wait
    delays: list[Delayed] = field(default_factory=list)  # pods that a rule of onFailure holds back
    verdicts: list[Verdict] = field(default_factory=list)  # pending ones
    placement: str = ""  # why the webhook chooses no nodes; empty if it does
    next: list[str] = field(default_factory=list)  # the texts of `forecasts`
    forecasts: list[NextFailure] = field(default_factory=list)


def explain(root: Json, jobs: list[Json], parts: Iterable[Json], left_out: LeftOut = RAISING) -> Explanation:
    """Explain a Job or a JobSet, as the API has it; raise UnfitError if its account is malformed.

    `jobs`: the Job itself, or those of the set. `parts`: their pods, Events about their pods, and its Account.
    """
    in_set = root.get("kind") == JOB_SET.kind
    metadata = root["metadata"]
    parts = list(parts)
    account = stored.account_of(JOB_SET if in_set else batch.JOB, root, parts)
    all_pods, found = pods_in(parts, left_out)
    counted = {detail.pod for detail in account.last if not detail.restart}
    by_uid = {job["metadata"]["uid"]: job for job in jobs}
    job_set = root if in_set else None
    for pod in sorted((pod for pod in found if pod.has_failed), key=lambda pod: pod.ended):
        with left_out.around("Pod", pod):
            if pod.name not in counted and not account.has(pod) and pod.job_uid in by_uid:
                job = by_uid[pod.job_uid]
                settings = settings_of(job, account)
                budgets = limits.budgets_of(job, job_set, settings)
                # The profile that `explain` knows does not say whether messages are kept.
                keeps = any(detail.message for detail in account.last)
                counting.count(account, pod, job, job_set, budgets, settings.on_failure, keeps_messages=keeps)
    if account.suspended and not at(root, ("spec", "suspend")):
        account.reset_limits()
    goes_on = not (terminal.condition_of(root) or terminal.is_decided(root.get("status") or {}))
    standings = [standing_of(job, job_set, account, found) for job in jobs] if goes_on else []
    refused = refusal_of(standings, found, [part for part in parts if part.get("kind") == EVENT])
    placed = is_placed(account, found)
    foretold = [*next_of(standings, found, placed=placed)]
    alive = [pod for pod in found if not pod.has_failed]
    shown = newest(alive)
    rows = [*map(ended_row, account.last), *running_rows(shown, account, root, in_set=in_set)]
    return Explanation(
        kind=JOB_SET.kind if in_set else batch.JOB.kind,
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        state=refused or state_of(root),
        summary=words.summary(account),
        budgets=[
            *(set_budgets(root, jobs) if in_set else job_budgets(root, account, settings_of(root, account), found)),
            *([] if account.evictions is None else [words.evictions(account.evictions)]),
        ],
        earlier=account.ended + sum(account.in_place.values()) - len(account.last),
        others=others_of(root, alive, shown),
        requested=record.read(root),
        rows=rows,
        waits_until="" if refused else waiting(root, standings, found, all_pods),
        delays=pending.delays(found),
        verdicts=[verdict for standing in standings for verdict in pending.verdicts(standing, found)],
        placement="" if placed or not foretold else UNPLACED,
        next=[one.text for one in foretold],
        forecasts=foretold,
    )


def pods_in(parts: Iterable[Json], left_out: LeftOut) -> tuple[list[Json], list[Pod]]:
    """Return the pods among the parts of a workload, as the API has them and as the ledger reads them."""
    roots, found = [], []
    for part in parts:
        with left_out.around("Pod", part):
            if part.get("kind") != EVENT and not stored.is_account(part):
                found.append(pods.read(part))
                roots.append(part)
    return roots, found


def budgets_of(root: Json, jobs: list[Json], account: Account, found: list[Pod]) -> Iterator[str]:
    """Return lines that say how much of each budget of a Job or a JobSet is spent."""
    if root.get("kind") == JOB_SET.kind:
        return set_budgets(root, jobs)
    return job_budgets(root, account, settings_of(root, account), found)


def set_budgets(root: Json, jobs: list[Json]) -> Iterator[str]:
    """Yield lines that say how much of a JobSet's budget is spent, and of those of its Jobs since the last restart."""
    restarts, limit = at(root, ("status", "restarts")) or 0, at(root, ("spec", "failurePolicy", "maxRestarts")) or 0
    yield f"restarts: {restarts} in all, {costly_restarts(root)} of {limit} spent"
    for job in jobs:
        failed, alone = batch.failed_in_status(job), restarts_alone(root, job)
        started = f", started again alone {words.counted(alone, 'time')}" if alone else ""
        yield f"Job {job['metadata']['name']}: {failed} of {batch.retry_budget(job['spec'])} retries spent{started}"


def restarts_alone(root: Json, job: Json) -> int:
    """Return how often a Job of a JobSet was restarted without the others."""
    labels = job["metadata"].get("labels") or {}
    return job_restarts(root, labels.get(REPLICATED_JOB) or "", count_of(labels.get(JOB_INDEX)) or 0).in_all


def ended_row(detail: Attempt) -> Row:
    """Return the row of an attempt that has ended."""
    left = detail.left
    rule = {"retry": "no rule", "fatal": "no retry left"}.get(detail.cost, "")
    if detail.cost == "fatal" and detail.cause == outcomes.NEVER_STARTED:
        rule = "startTimeout"
    elif detail.rule is not None:
        rule = f"rule {detail.rule} ({detail.action})"
    elif detail.restart:
        rule = f"restart {detail.restart} in place"
    return Row(
        attempt=detail.attempt,
        unit=detail.scope,
        pod=detail.pod,
        node=detail.node,
        placement=PLACEMENTS.get(detail.placement, ""),
        start=detail.start,
        end=detail.end,
        ended=words.how(detail),
        rule=by_ledger(detail) if detail.settled else rule,
        cost=detail.cost,
        retries_left=None if left is None else left.retries,
        disruptions_left=None if left is None or left.disruptions > MANY else left.disruptions,
        on_failure=detail.on_failure,
        last_words=detail.message,
    )


def by_ledger(detail: Attempt) -> str:
    """Return why the ledger found the end of an attempt fatal."""
    if detail.on_failure is not None:
        return f"the ledger: rule {detail.on_failure} of onFailure"
    return "the ledger: no disruption beside it"


def running_rows(found: list[Pod], account: Account, root: Json, *, in_set: bool) -> Iterator[Row]:
    """Yield a row for each of these pods, which have not failed."""
    budgets = limits.budgets_of(root, root if in_set else None, UNKNOWN)
    for pod in sorted(found, key=lambda pod: pod.started):
        yield running_row(pod, limits.attempt_of(account, budgets, pod), limits.scope_of(pod))


def newest(alive: list[Pod]) -> list[Pod]:
    """Return the pods that are shown, the oldest first: those that have not ended before those that succeeded."""
    by_age = sorted(alive, key=lambda pod: (not pod.has_ended, pod.created, pod.name))
    return sorted(by_age[-MOST_PODS:], key=lambda pod: (pod.started or pod.created, pod.name))


def others_of(root: Json, alive: list[Pod], shown: list[Pod]) -> dict[str, int]:
    """Return how many pods have not failed and are not shown, by state; also those that were not read."""
    states = Counter(map(state_of_pod, shown))
    found = Counter(map(state_of_pod, alive)) - states
    if pending.omits_succeeded(root):
        found["succeeded"] = root["status"]["succeeded"] - states["succeeded"]
    return dict(found)


def running_row(pod: Pod, attempt: int, unit: str) -> Row:
    """Return the row of a pod that has not failed; `unit`: its scope."""
    return Row(
        attempt=attempt,
        unit=unit,
        pod=pod.name,
        node=pod.node,
        placement=PLACEMENTS.get(pod.placement, ""),
        start=pod.started,
        end=pod.ended,
        ended=state_of_pod(pod),
        rule="",
        cost="none" if pod.has_ended else "",
        retries_left=None,
        disruptions_left=None,
        after=words.state(on_failure.read(pod.after)) if pod.after else "",
    )


def state_of_pod(pod: Pod) -> str:
    """Return the state of a pod that has not failed."""
    if pod.has_ended:
        return "succeeded"
    if pod.deleting:
        return "being deleted"
    return "delayed" if pod.waiting is not None and pod.waiting.gate is not None else pod.phase.lower()


def state_of(root: Json) -> str:
    """Return the state of a workload: the condition that ended it, or that will, else Suspended, else `running`."""
    found = [one for one in at(root, ("status", "conditions")) or () if one.get("status") == "True"]
    decisions = (one for one in found if terminal.decides(one))
    suspended = (one for one in found if one["type"] == "Suspended")
    told = terminal.condition_of(root) or next(decisions, None) or next(suspended, None)
    if told is None:
        return "running"
    return ": ".join(part for part in (told["type"], told.get("reason"), told.get("message")) if part)


def standing_of(job: Json, job_set: Json | None, account: Account, found: list[Pod]) -> Standing:
    """Return the state of a Job for a forecast."""
    profile = policy_of(job, account) or NOBODYS
    return Standing(job=job, job_set=job_set, account=account, live=live(found), profile=profile)


def of_job(job: Json, found: Iterable[Pod]) -> list[Pod]:
    """Return the pods of a Job."""
    return [pod for pod in found if pod.job_uid == job["metadata"]["uid"]]


def refusal_of(standings: list[Standing], found: list[Pod], events: list[Json]) -> str:
    """Return why no pod of a Job can be created, for the first Job that lacks pods for such a reason; empty if none."""
    for standing in standings:
        its_own = of_job(standing.job, found)
        if pending.is_short_of_pods(standing.job, its_own) and not standing.job["spec"].get("suspend"):
            refused = pending.refusal(standing.job, its_own, events)
            if refused:
                return refused
    return ""


def waiting(root: Json, standings: list[Standing], found: list[Pod], all_pods: list[Json]) -> str:
    """Return the end of the Job controller's back-off, RFC 3339, for a Job without a pod; empty if it does not wait."""
    runs = any(not pod.has_ended for pod in found) or (root.get("spec") or {}).get("suspend")
    if runs or root.get("kind") == JOB_SET.kind or not standings:
        return ""
    return pending.waits_until(standings[0], found, all_pods)


def is_placed(account: Account, found: list[Pod]) -> bool:
    """Return True if the webhook chose the nodes of the newest pod of which it is known, or if it is of none."""
    of_pods = (pod.placement for pod in sorted(found, key=lambda pod: pod.created, reverse=True))
    said = (*of_pods, *(detail.placement for detail in reversed(account.last)))
    return next((one for one in said if one), "Spot") in PLACEMENTS


def next_of(standings: list[Standing], found: list[Pod], *, placed: bool) -> Iterator[NextFailure]:
    """Yield what the next failure does; in a JobSet for each of its Jobs, or once if it is the same for several.

    `placed`: whether the webhook chooses the nodes of their pods.
    """
    by_told: dict[tuple[NextFailure, ...], list[Standing]] = {}
    for alike in islice(alike_jobs(standings, found), MOST_SCOPES):
        first, pods_of_job = alike[0]
        is_placed = placed and first.profile is not NOBODYS
        told = (*next_failures(first, pods_of_job, placed=is_placed),)
        by_told.setdefault(told, []).extend(standing for standing, _ in alike)
    for told, jobs in by_told.items():
        name = "" if len(by_told) == 1 else names_of(jobs, standings)
        yield from (replace(one, job=name, text=f"{name}: {one.text}") if name else one for one in told)


def alike_jobs(standings: list[Standing], found: list[Pod]) -> Iterable[list[tuple[Standing, list[Pod]]]]:
    """Return groups of Jobs for which a failure has the same result, each Job with its pods that may fail next."""
    groups: dict[object, list[tuple[Standing, list[Pod]]]] = {}
    for standing in standings:
        pods_of_job = next_pods(standing.job, of_job(standing.job, found))
        if len(standings) == 1:
            return [[(standing, pods_of_job)]]
        groups.setdefault(counts_of(standing, pods_of_job), []).append((standing, pods_of_job))
    return groups.values()


def counts_of(standing: Standing, found: list[Pod]) -> object:
    """Return the counts on which the result of a failure in a Job depends."""
    job = standing.job
    alone = 0 if standing.job_set is None else restarts_alone(standing.job_set, job)
    ended = at(job, ("status", "failedIndexes")), at(job, ("status", "succeeded"))
    of_job = standing.replicated_job, alone, batch.failed_in_status(job), *ended
    return of_job, tuple(sorted((pod.index, *counts_of_pod(standing, pod)) for pod in found))


def names_of(jobs: list[Standing], of: list[Standing]) -> str:
    """Name Jobs of a JobSet: `workers` for all Jobs of a replicated Job, else `workers-0,2-3`."""
    parts = []
    for name in dict.fromkeys(one.replicated_job for one in jobs):
        indexes = {one.job_index for one in jobs if one.replicated_job == name}
        others = {one.job_index for one in of if one.replicated_job == name} - indexes
        parts.append(f"{name}-{ranges(map(str, indexes))}" if others else name)
    return " and ".join(parts)


def live(found: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods that have not ended."""
    return tuple(pod for pod in found if not pod.has_ended)


def next_pods(job: Json, found: list[Pod]) -> list[Pod]:
    """Return the pods of a Job that may fail next: those that run, or else those that will be created."""
    running = [pod for pod in found if not pod.has_ended and not pod.deleting]
    if running:
        return running
    metadata = job["metadata"]
    labels = metadata.get("labels") or {}
    set_name = labels.get(SET_NAME) or ""
    new = Pod(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid="",
        job=metadata["name"],
        job_uid=metadata["uid"],
        job_set=set_name,
        replicated_job=labels.get(REPLICATED_JOB) or "",
        index="0" if batch.is_indexed(job.get("spec") or {}) else "",
        restart=pods.restart_of(labels),
    )
    return [replaced(pod, job) for pod in pending.missing_indexes(found, job) if pod.index] or [new]


def replaced(pod: Pod, job: Json) -> Pod:
    """Return the pod that will replace a failed one of an index, with the counts that it will have."""
    outcome = outcomes.outcome_of(pod, job)
    ignored = outcome.rule is not None and outcome.rule.action == "Ignore"
    return structs.replace(
        pod,
        uid="",
        index_failures=None if pod.index_failures is None else pod.index_failures + (not ignored),
        index_ignored=(pod.index_ignored or 0) + ignored,
    )


def policy_of(job: Json, account: Account) -> NamedProfile | None:
    """Return the profile of a Job, as recorded on it and in its account; None if it is skipped or has no record."""
    record = undo.read(job)
    if record is None or record.applied is None or annotations.of(job).get(names.SKIP) == "true":
        return None
    kept = account.applied or record.applied
    return NamedProfile(record.profile, profile_of(kept, record.retriable_exit_codes, record.on_failure))


def settings_of(job: Json, account: Account) -> Settings:
    """Return the settings of a Job, as recorded on it and in its account."""
    return (policy_of(job, account) or NOBODYS).settings(annotations.of(job))
