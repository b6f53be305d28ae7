"""How much work is left when a pod is placed, and until when it may start on a spot node, or wait for one.

Each completion index decides for itself. Where a Job has more completions than run at once, they run in rounds. What
attempts have saved counts for their index; that nobody has saved anything is never wrong, only dearer.

Reads:
    of the Job: metadata.creationTimestamp, spec.{activeDeadlineSeconds,backoffLimitPerIndex,completionMode,completions,
    parallelism,podFailurePolicy.rules}, status.{failed,startTime,succeeded,uncountedTerminatedPods.failed}
    of its JobSet: metadata.creationTimestamp
"""

from math import ceil
from typing import Final, NamedTuple

from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.pods.pods import Pod
from webhook.policy.deadline import Deadline, Slack
from webhook.policy.settings import Settings
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import controller_of

GRACE: Final = 30  # seconds in which a pod that is told to end does so, by default
NUMBERS: Final = 100  # of seconds of saved work that differ, for which an account has room: one for each index


class SavedWork(NamedTuple):
    """The seconds of work that the attempts of an index have saved, and how many pods of its Job have ended."""

    seconds: int = 0
    ended: int = 0


def slack_of(job: Json, job_set: Json | None, settings: Settings, saved: SavedWork, now: float) -> Slack | None:
    """Return what is left of the time and the work for a pod of a Job; None without a deadline.

    `job_set`: that of the Job, None without. If it is not known, nor is the deadline: a restart creates the Job anew.
    """
    deadline, above = settings.deadline, controller_of(job)
    if deadline is None or (job_set is None and above is not None and above.kind == JOB_SET.kind):
        return None
    spec, status = job["spec"], job.get("status") or {}
    left = rounds_of(spec, status.get("succeeded") or 0)
    rest = max(0, deadline.work - saved.seconds)
    created = seconds((job if job_set is None else job_set)["metadata"].get("creationTimestamp"))
    due = deadline.due(now if created is None else created, rounds_of(spec))
    started, limit = seconds(status.get("startTime")), spec.get("activeDeadlineSeconds")
    if limit is not None:
        due = min(due, (now if started is None else started) + limit)
    is_constant = spec.get("backoffLimitPerIndex") is not None and settings.profile.back_off.disruptions == "Constant"
    is_constant = is_constant and batch.ignores_disruptions_alone(spec)  # else admission leaves the wait as it is
    failures = batch.failed_in_status(job) if is_constant else saved.ended
    return Slack(
        due=due,
        work=(left - 1) * (deadline.work + deadline.start) + rest,
        loss=rest if deadline.loss is None else min(deadline.loss, rest),
        start=deadline.start,
        replaced=batch.back_off(failures + 1) + GRACE,
    )


def rounds_of(spec: Json, succeeded: int = 0) -> int:
    """Return how many pods of a Job run one after another, after so many have succeeded; at least 1."""
    at_once = batch.running_at_once(spec)
    return max(1, ceil(((spec.get("completions") or at_once) - succeeded) / at_once))


def saved_with(saved: int, pod: Pod, job: Json, deadline: Deadline) -> int:
    """Return the seconds of work that are saved after a pod has ended, of its index; `saved`: those before it.

    What the pod says itself counts; else all that it worked but what one disruption costs at most. Nothing where the
    next pod may do another one's work. Of a Job with many indexes it is rounded down, each time that one ends; of a
    JobSet too, whose Jobs have a scope each: one of them does not say how many these are.
    """
    spec = job["spec"]
    if not batch.pods_continue(spec):
        return 0
    if pod.progress is not None:
        found = pod.progress * deadline.work
    elif deadline.loss is not None:
        found = saved + max(0.0, pod.worked - deadline.loss)
    else:
        return saved
    is_exact = not pod.job_set and (spec.get("completions") or 1) <= NUMBERS
    step = 1 if is_exact else max(1, deadline.work // NUMBERS)
    return max(saved, int(min(found, deadline.work)) // step * step)
