"""Predicts what the failure of a pod does: what it costs, what it ends, and where the next pod runs. Pure.

This module decides nothing itself: it calls the functions with which the leader counts pods and admission places them.
`explain`, `render --after` and `simulate` ask it. Where the next pod of another kind than Job runs is not predicted.
"""

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from itertools import islice
from typing import Final, Literal

from msgspec.structs import replace

from webhook.accounts import limits, settling
from webhook.accounts.account import Account, Attempt, Left
from webhook.accounts.cached import CachedJob
from webhook.accounts.counted import Counted, counted_of
from webhook.accounts.counting import CountingPass
from webhook.accounts.tracked import RunningPods
from webhook.accounts.tracker import LAST_ENDS, Key, Tracker
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods import matching
from webhook.pods.matching import JobEnd
from webhook.pods.outcomes import DEADLINE, NEVER_STARTED, SPOT_UNAVAILABLE, STALLED
from webhook.pods.pods import Condition, Exit, Pod
from webhook.policy.attempt_costs import FAILURES, AttemptCost
from webhook.policy.causes import Cause
from webhook.policy.deadline import Slack
from webhook.policy.settings import NamedProfile, Settings, count
from webhook.rules import annotations
from webhook.rules.pods import loss, on_time, placement
from webhook.systems import pods as attempts
from webhook.systems.core import DISRUPTED
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import (
    COSTLY_JOB_RESTARTS,
    FAIL_SET,
    FREE,
    JOB_INDEX,
    JOB_RESTART,
    JOB_RESTARTS,
    JOB_SET,
    JOBS_STATUS,
    REPLICATED_JOB,
    RESTART,
    RESTART_SET,
    costly_restarts,
    counts_towards_max,
    job_restarts,
    whole,
)
from webhook.systems.kind_spec import KindSpec, OwnerReference
from webhook.systems.pod_source import Evidence
from webhook.systems.system import System

LATER: Final = "~"  # than any time
Ended = Literal["", "index", "Job", "JobSet", "scope", "workload"]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The state of a workload before one of its pods fails.

    `job`: the Job of that pod, as the API has it, or the workload if that is of another kind, `kind`. `job_set`: the
    JobSet of the Job; None if it has none. `account` counts every pod that has failed before. `live`: the pods that
    have not ended. `profile`: the one in force; `knows_codes`: whether its exit codes are known too. `now`: Unix time;
    0 where there is no clock.
    """

    kind: KindSpec = batch.JOB
    job: Json
    job_set: Json | None = None
    account: Account
    live: tuple[Pod, ...]
    profile: NamedProfile
    knows_codes: bool = True
    now: float = 0.0

    @cached_property
    def key(self) -> Key:
        """The workload."""
        kind, root = (self.kind, self.job) if self.job_set is None else (JOB_SET, self.job_set)
        return Key(root["metadata"].get("namespace") or "", kind, root["metadata"]["name"])

    @cached_property
    def system(self) -> System:
        """The system of the workload."""
        return self.key.system

    @property
    def replicated_job(self) -> str:
        """The replicated Job that the Job is of; empty where it has no JobSet."""
        return self.labels.get(REPLICATED_JOB) or ""

    @property
    def job_index(self) -> int:
        """The index of the Job in its replicated Job."""
        return count(self.labels.get(JOB_INDEX)) or 0

    @property
    def labels(self) -> Json:
        """The labels of the Job."""
        return self.job["metadata"].get("labels") or {}

    @property
    def acts(self) -> bool:
        """Whether the leader acts on the workload; else it only reports what it would do."""
        return self.profile.profile.actions == "Act"

    @cached_property
    def settings(self) -> Settings:
        """The settings of the Job, or of the workload of another kind."""
        return self.settings_of(self.job)

    def settings_of(self, root: Json) -> Settings:
        """Return the settings of an object under `profile`."""
        return self.profile.settings(annotations.of(root))

    @cached_property
    def eldest(self) -> list[Pod]:
        """The two live pods of the Job that have run longest."""
        uid = self.job["metadata"].get("uid")
        return nsmallest(2, (pod for pod in self.live if pod.job_uid == uid), key=lambda pod: pod.started or LATER)

    def slack_of(self, scope: str, account: Account | None = None) -> Slack | None:
        """Return what is left of time and work for the next pod of a scope; None if the Job has no deadline.

        `account`: that of the workload; None for the one before the failure.
        """
        known = self.account if account is None else account
        if not self.system.has_jobs:
            return None
        saved = on_time.SavedWork(known.work.at_least(scope), known.ended)
        return on_time.slack_of(self.job, self.job_set, self.settings, saved, self.now)

    @cached_property
    def counted(self) -> Counted:
        """What the ends of its pods cost."""
        return counted_of(self.system, self.job, self.job_set, self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the failure of a pod does.

    - `cause`, `cost`, `rule` and `action`: as the account will have them.
    - `left`: what is left afterwards, without the restart of the JobSet that the failure costs.
    - `ends`: what the failure ends for good; empty for nothing. Of another kind than Job and JobSet `scope`, such as a
      step of a Workflow, or `workload`. `reason`: why, if it is the ledger that ends it.
    - `set_action`: the action of the JobSet when the failure ends the Job; empty if the Job goes on or has no JobSet.
    - `suspends`: whether the ledger suspends the Job.
    - `on_failure`: the index of the rule of `onFailure` that decides; None if none does.
    - `settled_within`: the seconds in which the ledger decides whether the failure ends the Job, because it is a bug or
      a rule of `onFailure` makes it fatal; None if there is nothing to decide.
    - `off_spot`: whether the next pod of the index or the Job leaves spot nodes; None if there is no next pod.
    """

    cause: Cause
    cost: AttemptCost
    rule: int | None
    action: str
    left: Left
    ends: Ended = ""
    reason: str = ""
    set_action: str = ""
    suspends: bool = False
    on_failure: int | None = None
    settled_within: int | None = None
    off_spot: bool | None = None


def as_ended(pod: Pod, cause: str, *, reason: str = "", exits: tuple[Exit, ...] = (), time: str = "") -> Pod:
    """Return a pod as the API would have it after it has ended so, by itself, at a time (RFC 3339).

    `reason`: of the disruption, or of the pod. `exits`: its containers that failed.
    """
    conditions: tuple[Condition, ...] = ()
    of_pod: dict[str, str] = {
        "DeadlineExceeded": DEADLINE,
        NEVER_STARTED: reason,
        "Other": reason,
    }
    if cause in {"Disruption", NEVER_STARTED}:  # the leader deletes a pod that cannot start
        conditions = (Condition(DISRUPTED, "True", reason if cause == "Disruption" else cause, time),)
    elif cause == STALLED:
        conditions = (Condition(names.STALLED, "True", cause, time),)
    return replace(
        pod,
        phase="Failed",
        tracked=True,
        deleting=False,
        deleted="",
        reason=of_pod.get(cause, ""),
        ended=time,
        conditions=conditions,
        exits=exits,
    )


def foretell(standing: Standing, pod: Pod) -> Forecast:
    """Return what the failure of `pod` does; `pod` is as the API would have it after the failure."""
    counting, system = counted(standing, pod), standing.system
    detail = counting.details[-1]  # before it are the restarts in place that are not counted yet
    end, suspends = counting.end(counting.details), standing.acts and counting.suspends(counting.details)
    if end is not None and not may_end(standing, pod):
        end = None
    set_action = _action_of_set(standing, pod)
    ends = _ended_by(standing, counting.account, pod, detail, set_action)
    if end is not None and not (system.has_jobs and ends):
        ends = "workload" if not system.has_jobs else "Job" if standing.job_set is None else "JobSet"
    goes_on = system.has_jobs and not ends and not suspends and detail.cost != "none"
    return Forecast(
        cause=detail.cause,
        cost=detail.cost,
        rule=detail.rule,
        action=detail.action,
        left=_left_after(counting.account, detail, set_action),
        ends=ends,
        reason="" if end is None else end.reason,
        set_action=set_action,
        suspends=suspends,
        on_failure=detail.on_failure,
        settled_within=None if ends or set_action else settled_within(standing, pod),
        off_spot=_next_pod(standing, counting.account, pod, detail, set_action).off_spot if goes_on else None,
    )


def _as_stored(root: Json) -> Json:
    """Return a workload, perhaps of a manifest, with the metadata that a write of it needs."""
    return {**root, "metadata": {"namespace": "", "resourceVersion": "", **root["metadata"]}}


def counted(standing: Standing, pod: Pod) -> CountingPass:
    """Count a failed pod in a copy of the account, as the leader does."""
    metadata, job_set = standing.job["metadata"], standing.job_set
    job = {"spec": {}, **_as_stored(standing.job), "status": standing.job.get("status") or {}}
    running = RunningPods()
    others = (one for one in standing.eldest if one.uid != pod.uid)
    for one in islice(others, 1):  # all that matters is whether any other pod of the Job runs, and how long
        running.put(one, None)

    def find(_kind: KindSpec, _namespace: str, name: str) -> CachedJob | None:
        return CachedJob(job) if name == metadata["name"] else None

    tracker = Tracker(find=find, running=running)
    root, whole = job if job_set is None else job_set, None if standing.system.has_jobs else job
    account = deepcopy(standing.account)
    counting = CountingPass(standing.key, root, job_set, tracker, account, standing.settings_of, whole=whole)
    if counting.account.suspended and not job["spec"].get("suspend"):
        counting.reset_limits()
    counting.add(pod, job)
    return counting


def _action_of_set(standing: Standing, pod: Pod) -> str:
    if standing.job_set is None:
        return ""
    end = end_of_job(standing.job, pod, failed_indexes(standing.job))
    return "" if end is None else action_of(standing.job_set, standing.replicated_job, end)


def _left_after(account: Account, detail: Attempt, set_action: str) -> Left:
    left = account.left or Left(retries=0, disruptions=0)
    if detail.action == "FailJob":
        return left
    return Left(retries=max(0, left.retries - counts_towards_max(set_action)), disruptions=left.disruptions)


def _ended_by(standing: Standing, account: Account, pod: Pod, detail: Attempt, set_action: str) -> Ended:
    """Return what a controller, or the leader after a bug, ends because of a counted failure."""
    system = standing.system
    if not system.has_jobs:
        is_bounded = system.bounded or standing.acts or not standing.counted.counts_as_retry(pod)
        ends = (detail.cost == "fatal" and is_bounded) or is_bug(standing, pod)
        return "" if not ends else "scope" if system.scopes_end_alone else "workload"
    spec = standing.job["spec"]
    if standing.job_set is not None:
        index = not set_action and _loses_index(spec, pod, detail.action)
        return "JobSet" if set_action == FAIL_SET else "index" if index else ""
    if not batch.has_index_budgets(spec):
        return "Job" if detail.cost == "fatal" else ""
    failures = account.spent_now("retry") + account.spent_now("fatal")
    if detail.cost in FAILURES and (detail.action == "FailJob" or failures > batch.sum_of_failures(spec)):
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


def may_end(standing: Standing, pod: Pod) -> bool:
    """Return True if the leader can and may end a workload, or its part, because of a failed pod."""
    return standing.acts and standing.system.fail(_as_stored(standing.job_set or standing.job), pod, "", "") is not None


def is_bug(standing: Standing, pod: Pod) -> bool:
    """Return True if the leader ends a workload without Jobs, or its part, at once because of how a pod failed."""
    return not standing.system.has_jobs and settling.is_suspect(standing.counted, pod) and may_end(standing, pod)


def settled_within(standing: Standing, pod: Pod) -> int | None:
    """Return the seconds in which the ledger decides whether a crash was a bug; None if it cannot be one."""
    settings = standing.settings
    if not (standing.system.has_jobs and standing.acts) or not settling.is_suspect(standing.counted, pod):
        return None
    within = settling.window(standing.job, settings)
    return None if settling.bug_in(standing.counted, pod, within) is None else within


def _next_pod(standing: Standing, account: Account, pod: Pod, detail: Attempt, set_action: str) -> placement.Decision:
    job, above = standing.job, standing.job_set
    said, failed = next_annotations(job["spec"], pod, detail), batch.failed_in_status(job)
    counts, per_index = detail.cost in FAILURES, job["spec"].get("backoffLimitPerIndex") is not None
    if above is not None and set_action:
        above = restarted(above, standing.replicated_job, standing.job_index, set_action)
        said = dict(at(job, ("spec", "template", "metadata", "annotations")) or {})
        said |= {batch.INDEX_FAILURES: "0"} if per_index else {}
        failed = 0
    else:  # with backoffLimitPerIndex the Job controller counts a failure when it has replaced the pod
        failed += counts and (above is None or not per_index)
    return placed(evidence_of(standing, account, pod, detail, said, failed, above))


def placed(evidence: Evidence) -> placement.Decision:
    """Decide where a pod runs, as admission does."""
    levels = attempts.levels(evidence)
    return placement.decide(levels, evidence.settings, lost=loss.is_lost_when_disrupted(evidence, levels))


def evidence_of(  # noqa: PLR0913, PLR0917 - where all of it meets
    standing: Standing,
    account: Account,
    pod: Pod,
    detail: Attempt,
    said: Json,
    failed: int,
    above: Json | None = None,
) -> Evidence:
    """Return what admission knows of the next pod: it has the annotations `said`, and its Job so many failures.

    `above`: the JobSet of the Job, None if it has none.
    """
    spec, settings = standing.job["spec"], standing.profile.settings({**annotations.of(standing.job), **said})
    labels: Json = {}
    if above is not None:
        labels = labels_of_pod(above, standing.labels, standing.replicated_job, standing.job_index)
    root: Json = {"metadata": {"annotations": said, "labels": labels}}
    settings = placement.settings_of_retry(settings, said, standing.job, above)
    settings = placement.settings_by_deadline(settings, standing.slack_of(detail.scope, account), standing.now)
    return Evidence(
        pod=root,
        annotations=said,
        labels=labels,
        whole=lambda: root,
        controller=OwnerReference("batch", "v1", "Job", standing.job["metadata"]["name"], pod.job_uid),
        owner={**standing.job, "status": {"failed": failed}},
        above=above,
        settings=placement.settings_without_spot(settings) if _lacks_spot(standing, account, detail) else settings,
        disruptions=limits.share_of(limits.disruptions_at(detail.scope, account, pod, spec, above), spec),
        failures=account.failures_now if above is None else None,
    )


def _lacks_spot(standing: Standing, account: Account, detail: Attempt) -> bool:
    of_scope = [one for one in account.last if standing.job_set is not None or one.scope == detail.scope]
    return any(one.reason == SPOT_UNAVAILABLE for one in (*of_scope[-LAST_ENDS:], detail))


def next_annotations(spec: Json, pod: Pod, detail: Attempt) -> Json:
    """Return the annotations with which the Job controller creates the pod that replaces the counted `pod`."""
    said = dict(at(spec, ("template", "metadata", "annotations")) or {})
    if spec.get("backoffLimitPerIndex") is not None:
        said[batch.INDEX_FAILURES] = str((pod.index_failures or 0) + (detail.cost in FAILURES))
        ignored = (pod.index_ignored or 0) + (detail.action == "Ignore")
        if ignored:
            said[batch.INDEX_IGNORED_FAILURES] = str(ignored)
    return said


def end_of_job(job: Json, pod: Pod, failed_indexes: int) -> JobEnd | None:
    """Return how a failed pod ends its Job, of which so many indexes have failed before; None if the Job goes on."""
    spec = job["spec"]
    matched = matching.match_by_job(spec, pod)
    action = "" if matched is None else matched.action
    if matched is not None and action == "FailJob":
        return JobEnd(matching.POD_FAILURE_POLICY, matched.message)
    if action == "Ignore":
        return None
    if batch.failed_in_status(job) >= batch.sum_of_failures(spec):
        return matching.TOO_MANY_FAILURES
    if not _loses_index(spec, pod, action):
        return None
    most, failed = spec.get("maxFailedIndexes"), failed_indexes + 1
    if most is not None and failed > most:
        return matching.TOO_MANY_INDEXES
    succeeded = whole(at(job, ("status", "succeeded")))
    return matching.FAILED_INDEXES if failed + succeeded >= (spec.get("completions") or 1) else None


def _loses_index(spec: Json, pod: Pod, action: str) -> bool:
    most = spec.get("backoffLimitPerIndex")
    if most is None or action == "Ignore":
        return False
    return action == "FailIndex" or (pod.index_failures or 0) >= most


def action_of(job_set: Json, replicated_job: str, end: JobEnd) -> str:
    """Return the action of a JobSet when a Job of it ends so; FailJobSet too if no restart is left for another one."""
    action = matching.rule_of_set(job_set, replicated_job, end)[1]
    most = at(job_set, ("spec", "failurePolicy", "maxRestarts")) or 0
    return FAIL_SET if counts_towards_max(action) and costly_restarts(job_set) >= most else action


def restarted(job_set: Json, replicated_job: str, index: int, action: str) -> Json:
    """Return a JobSet with the status that it has after an action which restarts it, or one of its Jobs."""
    status, counts = dict(job_set.get("status") or {}), counts_towards_max(action)
    if action.removesuffix(FREE) == RESTART_SET:
        status["restarts"] = whole(status.get("restarts")) + 1
        status["restartsCountTowardsMax"] = whole(status.get("restartsCountTowardsMax")) + counts
        return {**job_set, "status": status}
    found = [dict(one) for one in at(job_set, JOBS_STATUS) or ()]
    if not any(one.get("name") == replicated_job for one in found):
        found.append({"name": replicated_job})
    for one in found:
        if one.get("name") == replicated_job:
            one[JOB_RESTARTS] = _with_more(one.get(JOB_RESTARTS), index, 1)
            one[COSTLY_JOB_RESTARTS] = _with_more(one.get(COSTLY_JOB_RESTARTS), index, counts)
    return {**job_set, "status": {**status, JOBS_STATUS[-1]: found}}


def _with_more(counts: object, index: int, more: int) -> list[int]:
    found = [whole(count) for count in counts] if isinstance(counts, list) else []
    found += [0] * (index + 1 - len(found))
    found[index] += more
    return found


def labels_of_pod(job_set: Json, labels: Json, replicated_job: str, index: int) -> Json:
    """Return the labels with which a pod of a JobSet is created, given those of its Job."""
    alone = job_restarts(job_set, replicated_job, index).in_all
    return {**labels, RESTART: str(whole(at(job_set, ("status", "restarts")))), JOB_RESTART: str(alone)}
