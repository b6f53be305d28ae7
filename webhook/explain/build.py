"""Tells what every attempt of a Job or JobSet cost and why, from what the API shows: its account, and its pods."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from msgspec import structs

from webhook.explain import pending
from webhook.explain.next_failure import NextFailure, next_failures
from webhook.explain.pending import Verdict
from webhook.kinds import batch
from webhook.kinds.job_set import JOB_INDEX, JOB_SET, REPLICATED_JOB, SET_NAME, costly_restarts, job_restarts
from webhook.kube import names, terminal
from webhook.ledger.forecast import Standing
from webhook.ledger.model import counting, limits, outcomes, pods, words
from webhook.ledger.model.account import Account, Attempt, decode
from webhook.ledger.model.pods import Pod
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.applied import profile_of
from webhook.policy.model import Disruptions, FailurePolicy, Profile
from webhook.policy.settings import NamedProfile
from webhook.policy.settings import count as count_of
from webhook.retry import record
from webhook.rules import annotations, undo

# Of a Job that does not say its profile: none is in force.
NOBODYS: Final = NamedProfile(
    "",
    Profile(failure_policy=FailurePolicy(inject="Never"), disruptions=Disruptions(limit=batch.UNLIMITED)),
)
MANY: Final = batch.UNLIMITED // 2
UNKNOWN: Final = NOBODYS.settings({})
EVENT: Final = "Event"
PLACEMENTS: Final = {"Spot": "spot", "OnDemand": "on-demand"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attempt.

    `attempt`: as the pod's annotation says. `start` and `end` are RFC 3339, empty where unknown. `ended`: how, in
    words, or what the pod does now. `rule`: the failure policy's that matched, `rule 1 (FailJob)`; empty where none
    did.
    `cost`: retry, disruption, free, fatal, none, empty while it runs. `retries_left` and `disruptions_left` are what
    was left to its scope after it, None where that is unknown.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A workload's attempts, oldest first, and what else there is to say."""

    kind: str
    namespace: str
    name: str
    state: str
    summary: str
    budgets: list[str]
    earlier: int  # attempts that are counted and no longer kept in detail
    requested: tuple[record.Requested, ...] = ()  # retries that a person asked for
    rows: list[Row] = field(default_factory=list)
    waits_until: str = ""  # the end of the Job controller's back-off
    verdicts: list[Verdict] = field(default_factory=list)  # that the ledger has yet to give
    next: list[str] = field(default_factory=list)
    forecasts: list[NextFailure] = field(default_factory=list)  # of which `next` has the texts


def explain(root: Json, jobs: list[Json], parts: Iterable[Json]) -> Explanation:
    """Explain a Job or a JobSet, as the API has it.

    `jobs` are the Job itself, or those of the set; `parts` the pods of them, and Events about them. Raises ValueError
    where its account cannot be read.
    """
    in_set = root.get("kind") == JOB_SET.kind
    metadata = root["metadata"]
    account = decode((metadata.get("annotations") or {}).get(names.LEDGER))
    parts = list(parts)
    all_pods = [part for part in parts if part.get("kind") != EVENT]
    found = [pods.read(pod) for pod in all_pods]
    counted = {detail.pod for detail in account.last}
    by_uid = {job["metadata"]["uid"]: job for job in jobs}
    job_set = root if in_set else None
    for pod in sorted((pod for pod in found if pod.has_failed), key=lambda pod: pod.ended):
        if pod.name not in counted and not account.has(pod) and pod.job_uid in by_uid:
            job = by_uid[pod.job_uid]
            settings = (policy_of(job, account) or NOBODYS).settings(annotations.of(job))
            counting.count(account, pod, job, job_set, limits.budgets_of(job, job_set, settings))
    retries = retries_of(root)
    goes_on = not (terminal.condition_of(root) or terminal.is_decided(root.get("status") or {}))
    standings = [standing_of(job, job_set, account, found) for job in jobs] if goes_on else []
    refused = refusal_of(standings, found, [part for part in parts if part.get("kind") == EVENT])
    foretold = [*next_of(standings, found)]
    rows = [*map(ended_row, account.last), *running_rows(found, account, root, in_set=in_set)]
    return Explanation(
        kind=JOB_SET.kind if in_set else batch.JOB.kind,
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        state=refused or state_of(root),
        summary=words.summary(account),
        budgets=[*set_budgets(root, jobs)] if in_set else [*job_budgets(root, account, retries)],
        earlier=account.ended - len(account.last),
        requested=record.read(root),
        rows=rows,
        waits_until="" if refused else waiting(root, standings, found, all_pods),
        verdicts=[verdict for standing in standings for verdict in pending.verdicts(standing, found)],
        next=[one.text for one in foretold],
        forecasts=foretold,
    )


def job_budgets(root: Json, account: Account, retries: int) -> Iterator[str]:
    """Say what of a Job's budgets is spent."""
    if is_per_index(root):
        failed = at(root, ("status", "failedIndexes"))
        yield f"retries: {retries} for each index" + (f"; failed indexes: {failed}" if failed else "")
    else:
        yield f"retries: {account.spent_now('retry')} of {retries} spent"
    if account.left is not None and account.left.disruptions <= MANY:
        yield f"disruptions: {account.spent('disruption')} so far, {account.left.disruptions} left"
    if account.grants:
        yield f"resumed {words.counted(account.grants, 'time')} after reaching the disruption limit"


def set_budgets(root: Json, jobs: list[Json]) -> Iterator[str]:
    """Say what of a JobSet's budget is spent, and of those of its Jobs since the last restart."""
    restarts = at(root, ("status", "restarts")) or 0
    yield f"restarts: {restarts} in all, {costly_restarts(root)} of {retries_of(root)} spent"
    for job in jobs:
        failed, alone = batch.failed_in_status(job), restarts_alone(root, job)
        started = f", started again alone {words.counted(alone, 'time')}" if alone else ""
        yield f"Job {job['metadata']['name']}: {failed} of {batch.retry_budget(job['spec'])} retries spent{started}"


def restarts_alone(root: Json, job: Json) -> int:
    """Return how often a Job of a JobSet was started again without the others."""
    labels = job["metadata"].get("labels") or {}
    return job_restarts(root, labels.get(REPLICATED_JOB) or "", count_of(labels.get(JOB_INDEX)) or 0).in_all


def retries_of(root: Json) -> int:
    """Return the retries that a Job or a JobSet allows."""
    if root.get("kind") == JOB_SET.kind:
        return at(root, ("spec", "failurePolicy", "maxRestarts")) or 0
    return batch.retry_budget(root["spec"])


def is_per_index(root: Json) -> bool:
    """Return True if each completion index has its own retries."""
    return batch.has_index_budgets(root.get("spec") or {})


def ended_row(detail: Attempt) -> Row:
    """Return the row of an attempt that has ended."""
    left = detail.left
    rule = {"retry": "no rule", "fatal": "no retry left"}.get(detail.cost, "")
    if detail.rule is not None:
        rule = f"rule {detail.rule} ({detail.action})"
    return Row(
        attempt=detail.attempt,
        unit=detail.scope,
        pod=detail.pod,
        node=detail.node,
        placement=PLACEMENTS.get(detail.placement, ""),
        start=detail.start,
        end=detail.end,
        ended=words.how(detail),
        rule="the ledger: no disruption beside it" if detail.settled else rule,
        cost=detail.cost,
        retries_left=None if left is None else left.retries,
        disruptions_left=None if left is None or left.disruptions > MANY else left.disruptions,
    )


def running_rows(found: list[Pod], account: Account, root: Json, *, in_set: bool) -> Iterator[Row]:
    """Yield a row for each pod that runs, or has succeeded."""
    budgets = limits.budgets_of(root, root if in_set else None, UNKNOWN)
    for pod in sorted((pod for pod in found if not pod.has_failed), key=lambda pod: pod.started):
        yield Row(
            attempt=limits.attempt_of(account, budgets, pod),
            unit=limits.scope_of(pod),
            pod=pod.name,
            node=pod.node,
            placement=PLACEMENTS.get(pod.placement, ""),
            start=pod.started,
            end=pod.ended,
            ended="succeeded" if pod.has_ended else "being deleted" if pod.deleting else pod.phase.lower(),
            rule="",
            cost="none" if pod.has_ended else "",
            retries_left=None,
            disruptions_left=None,
        )


def state_of(root: Json) -> str:
    """Say how a workload stands: by the condition that ended it, else that decided its end, else by Suspended."""
    found = [one for one in at(root, ("status", "conditions")) or () if one.get("status") == "True"]
    decisions = (one for one in found if terminal.decides(one))
    suspended = (one for one in found if one["type"] == "Suspended")
    told = terminal.condition_of(root) or next(decisions, None) or next(suspended, None)
    if told is None:
        return "running"
    return ": ".join(part for part in (told["type"], told.get("reason"), told.get("message")) if part)


def standing_of(job: Json, job_set: Json | None, account: Account, found: list[Pod]) -> Standing:
    """Return how a Job stands."""
    profile = policy_of(job, account) or NOBODYS
    return Standing(job=job, job_set=job_set, account=account, live=live(found), profile=profile)


def of_job(job: Json, found: Iterable[Pod]) -> list[Pod]:
    """Return the pods of a Job."""
    return [pod for pod in found if pod.job_uid == job["metadata"]["uid"]]


def refusal_of(standings: list[Standing], found: list[Pod], events: list[Json]) -> str:
    """Return why no pod can be created of a Job that is short of pods; empty if there is no such Job."""
    for standing in standings:
        its_own = of_job(standing.job, found)
        if pending.is_short_of_pods(standing.job, its_own) and not standing.job["spec"].get("suspend"):
            refused = pending.refusal(standing.job, its_own, events)
            if refused:
                return refused
    return ""


def waiting(root: Json, standings: list[Standing], found: list[Pod], all_pods: list[Json]) -> str:
    """Return until when a Job without a pod waits for the Job controller's back-off; empty if it does not."""
    runs = any(not pod.has_ended for pod in found) or (root.get("spec") or {}).get("suspend")
    if runs or root.get("kind") == JOB_SET.kind or not standings:
        return ""
    return pending.waits_until(standings[0], found, all_pods)


def next_of(standings: list[Standing], found: list[Pod]) -> Iterator[NextFailure]:
    """Yield what the next failure does: in a JobSet for each replicated Job, once where it is the same for all."""
    placed = any(pod.placement in PLACEMENTS for pod in found) or not any(pod.placement for pod in found)
    by_name: dict[str, list[NextFailure]] = {}
    for standing in standings:
        name = (standing.job["metadata"].get("labels") or {}).get(REPLICATED_JOB) or ""
        if name not in by_name:
            pods_of_job = next_pods(standing.job, of_job(standing.job, found))
            is_placed = placed and standing.profile is not NOBODYS
            by_name[name] = [*next_failures(standing, pods_of_job, placed=is_placed)]
    alike = len({tuple(one.text for one in told) for told in by_name.values()}) == 1
    for name, told in islice(by_name.items(), 1 if alike else None):
        yield from (one if alike else replace(one, text=f"{name}: {one.text}") for one in told)


def live(found: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods that have not ended."""
    return tuple(pod for pod in found if not pod.has_ended)


def next_pods(job: Json, found: list[Pod]) -> list[Pod]:
    """Return the pods of a Job that may fail next: those that run, else the one that will."""
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
        restart=0 if set_name else None,
    )
    return [replaced(pod, job) for pod in pending.missing_indexes(found) if pod.index] or [new]


def replaced(pod: Pod, job: Json) -> Pod:
    """Return the pod that replaces one of an index, which has failed, as far as its counts go."""
    outcome = outcomes.outcome_of(pod, job)
    ignored = outcome.rule is not None and outcome.rule.action == "Ignore"
    return structs.replace(
        pod,
        uid="",
        index_failures=None if pod.index_failures is None else pod.index_failures + (not ignored),
        index_ignored=(pod.index_ignored or 0) + ignored,
    )


def policy_of(job: Json, account: Account) -> NamedProfile | None:
    """Return the profile by which a Job is judged, as it is kept on the Job and in its account; None if by none."""
    record = undo.read(job)
    if record is None or record.applied is None or annotations.of(job).get(names.SKIP) == "true":
        return None
    return NamedProfile(record.profile, profile_of(account.applied or record.applied, record.retriable_exit_codes))
