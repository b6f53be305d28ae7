"""Tells what every attempt of a Job or JobSet cost and why, from what the API shows: its account, and its pods."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from webhook.kinds import batch
from webhook.kinds.job_set import JOB_INDEX, JOB_SET, REPLICATED_JOB, costly_restarts, job_restarts
from webhook.kube import names, terminal
from webhook.ledger.model import counting, limits, matching, pods, words
from webhook.ledger.model.account import Account, Attempt, decode
from webhook.ledger.model.pods import Pod
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import Settings
from webhook.policy.settings import count as count_of
from webhook.retry import record
from webhook.rules.job_sets.job_set import FAILING, FREE, RESTART_JOB

UNKNOWN: Final = Settings(profile_name="", profile=Profile())  # the policy is not asked: only retries are of interest
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
    next: list[str] = field(default_factory=list)


def explain(root: Json, jobs: list[Json], all_pods: Iterable[Json]) -> Explanation:
    """Explain a Job or a JobSet, as the API has it.

    `jobs` are the Job itself, or those of the set; `all_pods` those of them. Raises ValueError where its account cannot
    be read.
    """
    in_set = root.get("kind") == JOB_SET.kind
    metadata = root["metadata"]
    account = decode((metadata.get("annotations") or {}).get(names.LEDGER))
    found = [pods.read(pod) for pod in all_pods]
    counted = {detail.pod for detail in account.last}
    by_uid = {job["metadata"]["uid"]: job for job in jobs}
    job_set = root if in_set else None
    for pod in sorted((pod for pod in found if pod.has_failed), key=lambda pod: pod.ended):
        if pod.name not in counted and not account.has(pod) and pod.job_uid in by_uid:
            job = by_uid[pod.job_uid]
            counting.count(account, pod, job, job_set, limits.budgets_of(job, job_set, UNKNOWN))
    retries = retries_of(root)
    rows = [*map(ended_row, account.last), *running_rows(found, account, root, in_set=in_set)]
    return Explanation(
        kind=JOB_SET.kind if in_set else batch.JOB.kind,
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        state=state_of(root),
        summary=words.summary(account),
        budgets=[*set_budgets(root, jobs)] if in_set else [*job_budgets(root, account, retries)],
        earlier=account.ended - len(account.last),
        requested=record.read(root),
        rows=rows,
        next=[*next_steps(root, jobs, account, retries, in_set=in_set)],
    )


def job_budgets(root: Json, account: Account, retries: int) -> Iterator[str]:
    """Say what of a Job's budgets is spent."""
    if is_per_index(root):
        failed = at(root, ("status", "failedIndexes"))
        yield f"retries: {retries} for each index" + (f"; failed indexes: {failed}" if failed else "")
    else:
        yield f"retries: {account.spent_now('retry')} of {retries} spent"
    if account.left is not None:
        yield f"disruptions: {account.spent('disruption')} so far, {account.left.disruptions} more on spot"
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
        disruptions_left=None if left is None else left.disruptions,
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


def next_steps(root: Json, jobs: list[Json], account: Account, retries: int, *, in_set: bool) -> Iterator[str]:
    """Say what happens at the next failure."""
    if terminal.condition_of(root) is not None or terminal.is_decided(root.get("status") or {}):
        return
    if in_set:
        yield from next_of_set(root, jobs, account)
        return
    spec = root.get("spec") or {}
    for index, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        yield f"{what_matches(rule)}: {what_follows(rule, account)} (rule {index})"
    spent = account.spent_now("retry")
    if is_per_index(root):
        yield f"anything else: costs the index a retry, of {retries}"
    elif retries > spent:
        yield f"anything else: costs a retry; {words.counted(retries - spent, 'retry')} left"
    else:
        yield "anything else: ends the Job; no retry is left"


def next_of_set(root: Json, jobs: list[Json], account: Account) -> Iterator[str]:
    """Say what happens at the next failure in a JobSet: once where that is the same for all of its Jobs."""
    by_name: dict[str, tuple[str, ...]] = {}
    for job in jobs:
        name = (job["metadata"].get("labels") or {}).get(REPLICATED_JOB) or ""
        if name not in by_name:
            by_name[name] = tuple(next_of_job(root, job, account))
    alike = len(set(by_name.values())) == 1
    for name, lines in islice(by_name.items(), 1 if alike else None):
        yield from (line if alike else f"{name}: {line}" for line in lines)


def next_of_job(root: Json, job: Json, account: Account) -> Iterator[str]:
    """Say what happens at the next failure in one Job of a JobSet."""
    spec = job.get("spec") or {}
    for index, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        follows = what_set_does(root, job, rule) if rule.get("action") == "FailJob" else what_follows(rule, account)
        yield f"{what_matches(rule)}: {follows} (rule {index})"
    yield f"anything else: costs its Job a retry, of {batch.retry_budget(spec)}"


def what_set_does(root: Json, job: Json, rule: Json) -> str:
    """Say what a JobSet does when a rule has failed one of its Jobs."""
    said = "failed with exit code" if rule.get("onExitCodes") is not None else "has condition DisruptionTarget"
    replicated_job = (job["metadata"].get("labels") or {}).get(REPLICATED_JOB) or ""
    action = matching.action_of_set(root, replicated_job, f"{said} matching FailJob rule")
    left = max(0, retries_of(root) - costly_restarts(root))
    counting = action.removesuffix(FREE)
    if counting == FAILING or (counting == action and not left):
        return "ends the set at once"
    what = "restarts this Job alone" if counting == RESTART_JOB else "restarts the set"
    return f"{what}; {words.counted(left, 'restart')} left" if counting == action else f"{what} at no cost"


def what_matches(rule: Json) -> str:
    """Say what a rule of a failure policy matches."""
    on_exit_codes = rule.get("onExitCodes")
    if on_exit_codes is None:
        kinds = [one.get("type") or "" for one in rule.get("onPodConditions") or ()]
        return "a disruption" if matching.is_of_disruptions(rule) else f"condition {' or '.join(kinds)}"
    container = on_exit_codes.get("containerName")
    codes = ", ".join(str(code) for code in on_exit_codes.get("values") or ())
    which = f"exit code {codes}" if on_exit_codes.get("operator") == "In" else f"any exit code but {codes}"
    return f"{which} of {container}" if container else which


def what_follows(rule: Json, account: Account) -> str:
    """Say what a rule's action brings."""
    action = rule.get("action")
    left = None if account.left is None else account.left.disruptions
    if action == "Ignore" and not matching.is_of_disruptions(rule):
        return "costs no retry; the ledger counts it, and ends what fails so too often"
    if action == "Ignore":
        return "costs no retry" + (
            "" if left is None else f"; {words.counted(left, 'disruption')} left before on-demand nodes"
        )
    if action == "Count":
        return "costs a retry"
    return "ends the index at once" if action == "FailIndex" else "ends the Job at once"
