"""The limits that the API has for restarts in place."""

from typing import Final

from webhook.ledger.model.pods import Pod
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.systems.job import spec as batch

IN_PLACE: Final = "InPlaceRestart"  # a JobSet's restartStrategy
ON_FAILURE: Final = "OnFailure"  # the restartPolicy of pods whose restarts the Job controller counts


def limit_of(pod: Pod, job: Json, job_set: Json | None) -> int:
    """Return the restart in place with which the API ends the workload of a pod; batch.UNLIMITED or more if none does.

    The Job controller adds up the restarts of all containers of a Job's pods that have not ended.
    """
    if is_in_place(job_set):
        return (at(job_set, ("spec", "failurePolicy", "maxRestarts")) or 0) + 1
    if pod.row is not batch.JOB or pod.restarts is None or pod.restarts.policy != ON_FAILURE:
        return batch.UNLIMITED
    return max(1, batch.sum_of_failures(job["spec"]))


def is_in_place(job_set: Json | None) -> bool:
    """Return True if a JobSet restarts in place."""
    return bool(at(job_set, ("spec", "failurePolicy", "restartStrategy")) == IN_PLACE)


def has_ended_job(pod: Pod, job: Json) -> bool:
    """Return True if the restarts of a pod alone were enough for the Job controller to fail its Job."""
    return pod.restarts is not None and pod.restarts.by_api >= limit_of(pod, job, None)
