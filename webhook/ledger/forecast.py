"""Predicts what the failure of a pod does: what it costs, whether it ends the Job, and where the next pod runs. Pure.

This module decides nothing itself: it calls the functions with which the leader counts pods and admission places them.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal, cast

from webhook import attempts
from webhook.attempts import Evidence
from webhook.kinds import OwnerReference, batch
from webhook.ledger import settling
from webhook.ledger.model import limits
from webhook.ledger.model.account import Account, Attempt, Left
from webhook.ledger.model.cached import CachedJob
from webhook.ledger.model.counting import CountingPass
from webhook.ledger.model.outcomes import Cause, Cost
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.tracker import Key, Tracker
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.settings import NamedProfile, Settings, count
from webhook.rules import annotations
from webhook.rules.pods import loss, placement

Ended = Literal["", "index", "Job", "JobSet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a workload before one of its pods fails.

    `job`: the Job of that pod, as the API has it. `job_set`: the JobSet of the Job; None if it has none. `account`
    counts every pod that has failed before. `live`: the pods that have not ended. `profile`: the one in force.
    """

    job: Json
    job_set: Json | None
    account: Account
    live: tuple[Pod, ...]
    profile: NamedProfile

    @property
    def root(self) -> Json:
        """The object that has the account: the JobSet, or else the Job."""
        return self.job if self.job_set is None else self.job_set

    def settings_of(self, root: Json) -> Settings:
        """Return the settings of an object under `profile`."""
        return self.profile.settings(annotations.of(root))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the failure of a pod does.

    - `cause`, `cost`, `rule`, `action` and `left`: as the account will have them.
    - `ends`: what the failure ends for good; empty for nothing. `reason`: why, if it is the ledger that ends it.
    - `suspends`: whether the ledger suspends the Job.
    - `settled_within`: the seconds in which the ledger decides whether the failure was a bug, which ends the Job; None
      if there is nothing to decide.
    - `off_spot`: whether the next pod of the index or the Job leaves spot nodes; None if there is no next pod, and in a
      JobSet.
    """

    cause: Cause
    cost: Cost
    rule: int | None
    action: str
    left: Left
    ends: Ended = ""
    reason: str = ""
    suspends: bool = False
    settled_within: int | None = None
    off_spot: bool | None = None


def foretell(standing: Standing, pod: Pod) -> Forecast:
    """Return what the failure of `pod` does; `pod` is as the API would have it after the failure."""
    counting = counted(standing, pod)
    (detail,) = counting.details
    end, suspends = counting.end(counting.details), counting.suspends()
    ends = ended_by(standing, counting.account, detail)
    if end is not None and not ends:
        ends = "Job" if standing.job_set is None else "JobSet"
    goes_on = not ends and not suspends and standing.job_set is None and detail.cost != "none"
    return Forecast(
        cause=cast("Cause", detail.cause),
        cost=detail.cost,
        rule=detail.rule,
        action=detail.action,
        left=counting.account.left or Left(retries=0, disruptions=0),
        ends=ends,
        reason="" if end is None else end.reason,
        suspends=suspends,
        settled_within=None if ends else settled_within(standing, pod),
        off_spot=next_pod(standing, counting.account, pod, detail).off_spot if goes_on else None,
    )


def counted(standing: Standing, pod: Pod) -> CountingPass:
    """Count a failed pod in a copy of the account, as the leader does."""
    metadata, job_set = standing.job["metadata"], standing.job_set
    namespace = metadata.get("namespace") or ""
    key = Key(namespace, "" if job_set is None else job_set["metadata"]["name"], "" if job_set else metadata["name"])
    job = {**standing.job, "status": standing.job.get("status") or {}}
    tracker = Tracker(jobs={metadata["uid"]: CachedJob(job)}, live={one.uid: one for one in others(standing.live, pod)})
    root = job if job_set is None else job_set
    counting = CountingPass(key, root, job_set, tracker, deepcopy(standing.account), standing.settings_of)
    if counting.account.suspended and not standing.job["spec"].get("suspend"):
        counting.reset_limits()
    counting.add(pod, job)
    return counting


def others(pods: Iterable[Pod], pod: Pod) -> Iterable[Pod]:
    """Yield all pods but one."""
    return (one for one in pods if one.uid != pod.uid)


def ended_by(standing: Standing, account: Account, detail: Attempt) -> Ended:
    """Return what the Job controller or the JobSet controller ends because of a counted failure."""
    spec = standing.job["spec"]
    if standing.job_set is not None:
        return "JobSet" if detail.cost == "fatal" else ""
    if not batch.has_index_budgets(spec):
        return "Job" if detail.cost == "fatal" else ""
    failures = account.spent_now("retry") + account.spent_now("fatal")
    if detail.cost in limits.FAILURES and (detail.action == "FailJob" or failures > batch.sum_of_failures(spec)):
        return "Job"
    if detail.cost != "fatal":
        return ""
    most, failed = spec.get("maxFailedIndexes"), failed_indexes(standing.job)
    return "Job" if most is not None and failed + 1 > most else "index"


def failed_indexes(job: Json) -> int:
    """Return how many indexes of a Job have failed for good; status.failedIndexes lists them, such as `1,3-5`."""
    number = 0
    for part in (at(job, ("status", "failedIndexes")) or "").split(","):
        first, _, last = part.partition("-")
        begin, end = count(first), count(last or first)
        if begin is not None and end is not None:
            number += end - begin + 1
    return number


def settled_within(standing: Standing, pod: Pod) -> int | None:
    """Return the seconds in which the ledger decides whether a crash was a bug; None if it cannot be one."""
    settings = standing.settings_of(standing.job)
    if not settling.is_crash(pod) or settling.is_told_to_end(pod, settings):
        return None
    within = settling.window(standing.job, settings)
    return None if settling.bug_in(standing.job, settings, pod, within, standing.job_set) is None else within


def next_pod(standing: Standing, account: Account, pod: Pod, detail: Attempt) -> placement.Decision:
    """Decide where the pod runs that replaces the counted `pod`, of a Job without a JobSet."""
    evidence = evidence_after(standing, account, pod, detail)
    levels = attempts.levels(evidence)
    return placement.decide(levels, evidence.settings, lost=loss.is_lost_when_disrupted(evidence, levels))


def evidence_after(standing: Standing, account: Account, pod: Pod, detail: Attempt) -> Evidence:
    """Return what admission knows of the next pod when it is created."""
    spec = standing.job["spec"]
    said = next_annotations(spec, pod, detail)
    settings = standing.profile.settings({**annotations.of(standing.job), **said})
    root: Json = {"metadata": {"annotations": said}}
    return Evidence(
        pod=root,
        annotations=said,
        labels={},
        whole=lambda: root,
        controller=OwnerReference("batch", "v1", "Job", standing.job["metadata"]["name"], pod.job_uid),
        owner=with_failures(standing, account, detail),
        above=None,
        settings=placement.settings_of_retry(settings, said, standing.job),
        disruptions=limits.share_of(account.scopes.of(detail.scope), spec),
        failures=limits.failures_of(account, spec),
    )


def next_annotations(spec: Json, pod: Pod, detail: Attempt) -> Json:
    """Return the annotations with which the Job controller creates the pod that replaces the counted `pod`."""
    said = dict(at(spec, ("template", "metadata", "annotations")) or {})
    if spec.get("backoffLimitPerIndex") is not None:
        said[batch.INDEX_FAILURES] = str((pod.index_failures or 0) + (detail.cost in limits.FAILURES))
        ignored = (pod.index_ignored or 0) + (detail.action == "Ignore")
        if ignored:
            said[batch.INDEX_IGNORED_FAILURES] = str(ignored)
    return said


def with_failures(standing: Standing, account: Account, detail: Attempt) -> Json:
    """Return the Job with `status.failed` as it is when the next pod is created."""
    before = batch.failed_in_status(standing.job)
    failed = max(before + (detail.cost in limits.FAILURES), account.spent_now("retry"))
    return {**standing.job, "status": {"failed": failed}}
