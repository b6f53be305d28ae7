"""How much work is left when a pod is placed, and until when it may start on a spot node, or wait for one.

Each completion index is a part of its own: its pods decide for themselves. Where a Job has more completions than run at
once, they run in rounds, and a part is the share of one round. What attempts have saved counts for their index; that
nobody has saved anything is never wrong, only dearer.

Reads:
    of the Job: metadata.creationTimestamp, spec.{completions,completionMode,parallelism}, status.succeeded
    of its JobSet: metadata.creationTimestamp
"""

from math import ceil

from webhook.objects.problem import Json
from webhook.objects.times import between, seconds
from webhook.pods.pods import Pod
from webhook.policy.deadline import Deadline, Slack
from webhook.policy.settings import LARGEST_COUNT
from webhook.systems.job import spec as batch


def slack_of(job: Json, job_set: Json | None, deadline: Deadline, saved: int, now: float) -> Slack:
    """Return what is left of the time and the work for a pod of a Job.

    `saved`: the seconds of work that the attempts of its part have saved. `job_set`: that of the Job, None without.
    """
    spec, part = job["spec"], _part_of(job["spec"], deadline)
    succeeded = (job.get("status") or {}).get("succeeded") or 0
    at_once = batch.running_at_once(spec)
    rounds = max(1, ceil(((spec.get("completions") or at_once) - succeeded) / at_once))
    rest = max(0.0, part - saved)
    loss = rest if deadline.loss is None else min(deadline.loss, rest)
    created = seconds((job if job_set is None else job_set)["metadata"].get("creationTimestamp"))
    due = deadline.due(now if created is None else created)
    return Slack(due, (rounds - 1) * part + rest, loss, deadline.start)


def saved_with(saved: int, pod: Pod, job: Json, deadline: Deadline) -> int:
    """Return the seconds of work that are saved after a pod has ended, of its part; `saved`: those before it.

    What the pod says itself counts; else all that it has run but what one disruption costs at most. Where several pods
    share a part nothing does: the next one may be another's.
    """
    spec = job["spec"]
    if not batch.is_indexed(spec) and batch.running_at_once(spec) > 1:
        return 0
    part = _part_of(spec, deadline)
    if pod.progress is not None:
        gained = pod.progress * part - saved
    elif deadline.loss is not None:
        gained = between(pod.began, pod.finished) - deadline.loss
    else:
        return saved
    return min(int(min(saved + max(0.0, gained), part)), LARGEST_COUNT)


def _part_of(spec: Json, deadline: Deadline) -> float:
    at_once = batch.running_at_once(spec)
    return deadline.work / max(1, ceil((spec.get("completions") or at_once) / at_once))
