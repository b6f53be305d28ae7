"""Determines how a pod ended, and which budget that cost."""

from dataclasses import dataclass, replace
from typing import Final

from webhook.kube import terminal
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.times import shifted
from webhook.pods import matching
from webhook.pods.matching import MatchedRule
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.causes import Cause
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import UNLIMITED
from webhook.systems.job_set.spec import FAIL_SET, counts_towards_max

UNSEEN: Final = "Unseen"  # the reason of an end that no watch has delivered
# The reasons with which the leader ends pods that wait in vain.
SPOT_UNAVAILABLE: Final = "SpotUnavailable"
NEVER_STARTED: Final[Cause] = "NeverStarted"  # a cause too; its reason is the kubelet's
STALLED: Final[Cause] = "Stalled"
NODE_LOST: Final = "NodeLost"  # as in the status of pods by node controllers: NodeUnreachablePodReason in pkg/util/node
# The reasons of the condition DisruptionTarget (k8s.io/api/core/v1, and the controllers that set it).
DISRUPTIONS: Final = frozenset(
    {
        "PreemptionByScheduler",
        "DeletionByTaintManager",
        "EvictionByEvictionAPI",
        "DeletionByPodGC",
        "TerminationByKubelet",
        "DeletionByDeviceTaintManager",
        SPOT_UNAVAILABLE,
        NODE_LOST,
        UNSEEN,
    }
)
OOM: Final = "OOMKilled"
DEADLINE: Final = "DeadlineExceeded"
TOO_OFTEN: Final = "BackoffLimitExceeded"
STAMPED_LATE: Final = 60  # seconds by which the time of a Job's end may be later than the deletion of its pods
DELETED: Final = "Deleted"  # the reason of pods of kinds other than Job that were deleted while they ran
EVICTED: Final[Cause] = "WorkloadEvicted"  # the cause of pods that Kueue has ended; the reason is Kueue's
STOPPED: Final = "Stopped"  # the reason of pods that their Job deleted: it was suspended, scaled down or had ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one pod ended.

    `reason`: the reason of the disruption, or container and exit code, such as `main 143`. `rule`: the rule of the
    failure policy that matched; None if none did. `cost`:

    - `retry`: one retry of the Job or the index, or one restart of the JobSet;
    - `disruption`: one disruption, which has a budget of its own;
    - `free`: no budget of the API, although it was no disruption;
    - `fatal`: the Job, the index or the JobSet has failed;
    - `none`: nothing; the Job deleted the pod, which had not failed.

    For a pod of a workload of another kind, the workload stands for the Job.

    `on_failure`: the index of the rule of `onFailure` that decides; None if none matches, or before it is looked for.
    """

    pod: Pod
    cause: Cause
    reason: str
    rule: MatchedRule | None
    cost: AttemptCost
    on_failure: int | None = None


def outcome_of(pod: Pod, job: Json | None, job_set: Json | None = None, *, has_ended: bool = False) -> Outcome:
    """Return how a pod ended under the failure policies of its Job and its JobSet, both as the API has them.

    The pod has failed, or succeeded after a disruption. `has_ended`: whether another pod is known to have ended the
    Job.
    """
    if pod.kind is not batch.JOB or pod.has_succeeded:
        return outcome_alone(pod, has_ended=has_ended)
    spec = (job or {}).get("spec") or {}
    matched = matching.match_by_job(spec, pod)
    cause, reason = cause_of(pod, matched)
    if _is_given_up(pod, job):
        return Outcome(pod=pod, cause=NEVER_STARTED, reason=pod.reason, rule=None, cost="fatal")
    if _is_stopped(pod, job, has_ended=has_ended):
        if pod.disruption is None:
            cause, reason = "Other", STOPPED
        return Outcome(pod=pod, cause=cause, reason=reason, rule=None, cost="none")
    return Outcome(pod=pod, cause=cause, reason=reason, rule=matched, cost=_cost_of(pod, matched, spec, job_set))


def outcome_alone(pod: Pod, *, has_ended: bool) -> Outcome:
    """Return how a pod without a Job ended; its System says what that cost, a retry stands for that here.

    `has_ended`: whether its workload has ended, and so has deleted it.
    """
    if pod.disruption is not None and pod.has_succeeded:
        return Outcome(pod=pod, cause="Succeeded", reason=pod.disruption.reason, rule=None, cost="none")
    if not was_killed(pod):
        cause, reason = cause_of(pod, None)
        return Outcome(pod=pod, cause=cause, reason=reason, rule=None, cost="retry")
    if has_ended:
        return Outcome(pod=pod, cause="Other", reason=STOPPED, rule=None, cost="none")
    return Outcome(pod=pod, cause="Other", reason=DELETED, rule=None, cost="retry")


def was_killed(pod: Pod) -> bool:
    """Return True if a pod of a kind other than Job was deleted while it ran, but not disrupted."""
    if pod.disruption is not None:
        return False
    if not pod.ended:
        return bool(pod.deleted) or not pod.reason
    return bool(pod.deleted) and pod.ended >= pod.deleted


def as_evicted(outcome: Outcome, reason: str) -> Outcome:
    """Return the outcome of a pod, given the reason for which Kueue has evicted its Workload; empty if it has not.

    Kueue ends pods by suspending their Job, so that only pods which their Job has deleted can be evicted.
    """
    if not reason or outcome.reason != STOPPED:
        return outcome
    return replace(outcome, cause=EVICTED, reason=reason)


def _is_given_up(pod: Pod, job: Json | None) -> bool:
    """Return True if the leader has failed a Job because a container of this pod did not start."""
    ends = ((job or {}).get("status") or {}).get("conditions") or ()
    messages = [one.get("message") or "" for one in ends if one.get("reason") == NEVER_STARTED]
    return bool(messages) and any(f"{pod.namespace}/{pod.name} " in message for message in messages)


def _is_stopped(pod: Pod, job: Json | None, *, has_ended: bool) -> bool:
    """Return True if the Job deleted a pod because it has ended, is suspended or scaled down.

    The Job controller removes its finalizer from a pod before it deletes the pod. (If a pod has no finalizer and is not
    being deleted, the Job controller has counted it.) But if a Job has failed or is deleted, the Job controller counts
    the pods that it deletes as failed.
    """
    if not pod.deleting:
        return False
    return not pod.tracked or (
        pod.disruption is None and job is not None and _is_taken_along(pod, job, has_ended=has_ended)
    )


def is_in_doubt(pod: Pod, job: Json) -> bool:
    """Return True if it is unknown who deleted a pod: a user, or its failed Job, whose status does not say so yet."""
    if pod.kind is not batch.JOB:
        return was_killed(pod) and not is_deleted(job)
    gone_by_itself = not pod.deleted or not pod.tracked or pod.disruption is not None
    return not (gone_by_itself or is_deleted(job) or terminal.is_decided(job["status"]))


def _is_taken_along(pod: Pod, job: Json, *, has_ended: bool) -> bool:
    """Return True if a pod was deleted by its ended Job, and not by a user whose deletion ended the Job.

    With the reason PodFailurePolicy, the message names the pod that ended the Job. But if the Job has changed
    meanwhile, the Job controller tries again, and may then name a pod that it has deleted itself. With another reason
    and several pods at a time it is unknown who deleted the pod: most often the Job did. The end of the Job has the
    time before that deletion, or the time of a later try.
    """
    conditions = [one for one in (job.get("status") or {}).get("conditions") or () if terminal.decides(one)]
    named = any(f"{pod.namespace}/{pod.name} " in (one.get("message") or "") for one in conditions)
    if named and not has_ended:
        return False
    too_often = any(one.get("reason") == TOO_OFTEN for one in conditions)
    if too_often and (job["spec"].get("parallelism") or 1) == 1 and not has_ended_job(pod, job):
        return False  # no other pod can have ended the Job, and its restarts in place have not
    ends = [one.get("lastTransitionTime") or "" for one in conditions]
    if is_deleted(job):
        ends.append(job["metadata"]["deletionTimestamp"])
    end = min(ends, default=None)
    crashed_before = bool(pod.ended) and pod.ended < pod.deleted
    return end is not None and bool(pod.deleted) and not crashed_before and pod.deleted >= shifted(end, -STAMPED_LATE)


def is_deleted(job: Json) -> bool:
    """Return True if a Job has a deletionTimestamp."""
    return bool(job["metadata"].get("deletionTimestamp"))


def cause_of(pod: Pod, matched: MatchedRule | None) -> tuple[Cause, str]:
    """Return the cause of a pod's end, and its reason as in `Outcome`."""
    disruption = pod.disruption
    if disruption is not None and disruption.reason == NEVER_STARTED:
        return NEVER_STARTED, pod.reason
    if disruption is not None:
        return "Disruption", disruption.reason or "Unknown"
    if pod.stalled:
        return STALLED, ""
    if pod.reason == DEADLINE:
        return "DeadlineExceeded", ""
    if not pod.exits:
        return "Other", pod.reason
    named = () if matched is None else [one for one in pod.exits if one.container == matched.container]
    first = min(named or pod.exits, key=lambda one: one.time)
    if first.reason == OOM:
        return "OOMKilled", f"{first.container}"
    return "ExitCode", f"{first.container} {first.code}"


def _cost_of(pod: Pod, matched: MatchedRule | None, spec: Json, job_set: Json | None) -> AttemptCost:
    free: AttemptCost = "free" if pod.disruption is None else "disruption"
    if matched is None or matched.action == "Count":
        in_place = (
            job_set is not None and spec.get("backoffLimit") == UNLIMITED
        )  # what restartStrategy InPlaceRestart asks for
        return free if in_place and spec.get("backoffLimitPerIndex") is None else "retry"
    if matched.action == "Ignore":
        return free
    if matched.action == "FailJob" and job_set is not None:
        action = matching.action_of_set(job_set, pod.replicated_job, matched.message)
        return "fatal" if action == FAIL_SET else "retry" if counts_towards_max(action) else free
    return "fatal"


IN_PLACE: Final = "InPlaceRestart"  # a JobSet's restartStrategy
ON_FAILURE: Final = "OnFailure"  # the restartPolicy of pods whose restarts the Job controller counts


def limit_of(pod: Pod, job: Json, job_set: Json | None) -> int:
    """Return the restart in place with which the API ends the workload of a pod; batch.UNLIMITED or more if none does.

    The Job controller adds up the restarts of all containers of a Job's pods that have not ended.
    """
    if is_in_place(job_set):
        return (at(job_set, ("spec", "failurePolicy", "maxRestarts")) or 0) + 1
    if pod.kind is not batch.JOB or pod.restarts is None or pod.restarts.policy != ON_FAILURE:
        return batch.UNLIMITED
    return max(1, batch.sum_of_failures(job["spec"]))


def is_in_place(job_set: Json | None) -> bool:
    """Return True if a JobSet restarts in place."""
    return bool(at(job_set, ("spec", "failurePolicy", "restartStrategy")) == IN_PLACE)


def has_ended_job(pod: Pod, job: Json) -> bool:
    """Return True if the restarts of a pod alone were enough for the Job controller to fail its Job."""
    return pod.restarts is not None and pod.restarts.by_api >= limit_of(pod, job, None)
