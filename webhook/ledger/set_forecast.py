"""Foretells what a JobSet does when a pod of one of its Jobs has failed. Pure.

It does what pkg/controller/job of Kubernetes 1.36 and pkg/controllers/failure_policy.go of JobSet 0.12 do.
"""

from typing import Final

from webhook.ledger.model import matching
from webhook.ledger.model.matching import JobEnd
from webhook.ledger.model.pods import Pod
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.systems.job import spec as batch
from webhook.systems.job_set.rules.job_set import FAILING, FREE, RESTART_SET
from webhook.systems.job_set.spec import (
    COSTLY_JOB_RESTARTS,
    JOB_RESTART,
    JOB_RESTARTS,
    JOBS_STATUS,
    RESTART,
    costly_restarts,
    job_restarts,
    whole,
)

TOO_MANY_FAILURES: Final = JobEnd("BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_MANY_INDEXES: Final = JobEnd(
    "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES: Final = JobEnd("FailedIndexes", "Job has failed indexes")


def end_of_job(job: Json, pod: Pod, failed_indexes: int) -> JobEnd | None:
    """Return how a failed pod ends its Job, of which so many indexes have failed before; None if the Job goes on."""
    spec = job["spec"]
    matched = matching.match((spec.get("podFailurePolicy") or {}).get("rules") or [], pod)
    action = "" if matched is None else matched.action
    if matched is not None and action == "FailJob":
        return JobEnd(matching.POD_FAILURE_POLICY, matched.message)
    if action == "Ignore":
        return None
    if batch.failed_in_status(job) >= batch.sum_of_failures(spec):
        return TOO_MANY_FAILURES
    if not loses_index(spec, pod, action):
        return None
    most, failed = spec.get("maxFailedIndexes"), failed_indexes + 1
    if most is not None and failed > most:
        return TOO_MANY_INDEXES
    succeeded = whole(at(job, ("status", "succeeded")))
    return FAILED_INDEXES if failed + succeeded >= (spec.get("completions") or 1) else None


def loses_index(spec: Json, pod: Pod, action: str) -> bool:
    """Return True if a failed pod, of which a rule has this action, was the last one of its completion index."""
    most = spec.get("backoffLimitPerIndex")
    if most is None or action == "Ignore":
        return False
    return action == "FailIndex" or (pod.index_failures or 0) >= most


def action_of(job_set: Json, replicated_job: str, end: JobEnd) -> str:
    """Return the action of a JobSet when a Job of it ends so; FailJobSet too if no restart is left for another one."""
    action = matching.rule_of_set(job_set, replicated_job, end)[1]
    most = at(job_set, ("spec", "failurePolicy", "maxRestarts")) or 0
    return FAILING if not action.endswith(FREE) and costly_restarts(job_set) >= most else action


def restarted(job_set: Json, replicated_job: str, index: int, action: str) -> Json:
    """Return a JobSet with the status that it has after an action which restarts it, or one of its Jobs."""
    status, costs = dict(job_set.get("status") or {}), not action.endswith(FREE)
    if action.removesuffix(FREE) == RESTART_SET:
        status["restarts"] = whole(status.get("restarts")) + 1
        status["restartsCountTowardsMax"] = whole(status.get("restartsCountTowardsMax")) + costs
        return {**job_set, "status": status}
    found = [dict(one) for one in at(job_set, JOBS_STATUS) or ()]
    if not any(one.get("name") == replicated_job for one in found):
        found.append({"name": replicated_job})
    for one in found:
        if one.get("name") == replicated_job:
            one[JOB_RESTARTS] = with_more(one.get(JOB_RESTARTS), index, 1)
            one[COSTLY_JOB_RESTARTS] = with_more(one.get(COSTLY_JOB_RESTARTS), index, int(costs))
    return {**job_set, "status": {**status, JOBS_STATUS[-1]: found}}


def with_more(counts: object, index: int, more: int) -> list[int]:
    """Return the counts of a status, by index, with so many more at one index."""
    found = [whole(count) for count in counts] if isinstance(counts, list) else []
    found += [0] * (index + 1 - len(found))
    found[index] += more
    return found


def labels_of_pod(job_set: Json, labels: Json, replicated_job: str, index: int) -> Json:
    """Return the labels with which a pod of a JobSet is created, given those of its Job."""
    alone = job_restarts(job_set, replicated_job, index).in_all
    return {**labels, RESTART: str(whole(at(job_set, ("status", "restarts")))), JOB_RESTART: str(alone)}
