"""Fails a Job in the way in which the Job controller itself does: by the condition FailureTarget.

The Job controller then deletes the pods and sets Failed with the same reason and message (pkg/controller/job of
Kubernetes 1.36). A JobSet treats the reason PodFailurePolicy like a verdict of the Job's own policy, and fails too,
unless a rule of its author restarts it for that reason. A whole JobSet is failed by its own condition Failed, whatever
its rules say: its controller then deletes the Jobs that run (jobSetFinished in pkg/controllers/jobset_controller.go of
JobSet 0.11).
"""

from datetime import UTC, datetime
from typing import Final

import structlog

from webhook import metrics
from webhook.kube import terminal
from webhook.kube.client import Api
from webhook.objects.patch import unless_changed
from webhook.objects.problem import Json
from webhook.pods import matching
from webhook.pods.pods import Pod
from webhook.systems.job import spec as batch

OF_SET: Final = matching.POD_FAILURE_POLICY

log = structlog.get_logger()


async def running_job(api: Api, pod: Pod) -> Json | None:
    """Return the Job of a pod; None if it has ended, is deleted or suspended. Raise what `Api` raises."""
    job: Json = await api.get(batch.JOB.path(pod.namespace, pod.job))
    metadata = job["metadata"]
    if metadata["uid"] != pod.job_uid or metadata.get("deletionTimestamp") or job["spec"].get("suspend"):
        return None
    return None if terminal.is_decided(job.get("status") or {}) else job


async def fail(api: Api, namespace: str, name: str, reason: str, message: str) -> bool:
    """Fail a Job; return False if it had ended, or was about to, already. Raise what `Api` raises."""
    return await put(api, namespace, await api.get(batch.JOB.path(namespace, name)), reason, message)


async def put(api: Api, namespace: str, job: Json, reason: str, message: str) -> bool:
    """Add the condition FailureTarget to a Job as it was read; raise ApiError with 409 if it has changed since.

    Return False, and change nothing, if the end of the Job is decided already.
    """
    status = job.get("status") or {}
    if terminal.is_decided(status):
        return False
    metadata = job["metadata"]
    target = condition("FailureTarget", reason, message)
    conditions = [*(status.get("conditions") or ()), {**target, "lastProbeTime": target["lastTransitionTime"]}]
    operations = [unless_changed(job), {"op": "add", "path": "/status/conditions", "value": conditions}]
    await api.patch(f"{batch.JOB.path(namespace, metadata['name'])}/status", operations)
    metrics.LEDGER_STOPPED.labels("Failed", reason).inc()
    log.info("Job failed", namespace=namespace, name=metadata["name"], reason=reason, message=message)
    return True


async def end_suspended(api: Api, namespace: str, job: Json, reason: str, message: str) -> None:
    """Write the end of a suspended Job without pods, as it was read; raise ApiError with 409 if it has changed since.

    The Job controller cannot do that after a queue has suspended the Job: the API accepts no end of a Job without a
    startTime, and Kueue removes the startTime of a suspended Job again and again.
    """
    metadata, status = job["metadata"], job.get("status") or {}
    ends = [condition(kind, reason, message) for kind in ("FailureTarget", "Failed")]
    time = ends[0]["lastTransitionTime"]
    said = {
        "conditions": [*(status.get("conditions") or ()), *({**one, "lastProbeTime": time} for one in ends)],
        "startTime": status.get("startTime") or time,
    }
    operations = [{"op": "add", "path": f"/status/{field}", "value": value} for field, value in said.items()]
    await api.patch(f"{batch.JOB.path(namespace, metadata['name'])}/status", [unless_changed(job), *operations])
    metrics.LEDGER_STOPPED.labels("Failed", reason).inc()
    log.info("Job failed", namespace=namespace, name=metadata["name"], reason=reason, message=message)


async def fail_set(api: Api, path: str, reason: str, message: str) -> None:
    """Fail the JobSet at an API path unless it has ended; raise ApiError with 409 if it has changed meanwhile."""
    job_set = await api.get(path)
    if terminal.condition_of(job_set) is not None:
        return
    metadata, status = job_set["metadata"], job_set.get("status") or {}
    kept = [one for one in status.get("conditions") or () if one.get("type") != "Failed"]
    failed = {**status, "conditions": [*kept, condition("Failed", reason, message)], "terminalState": "Failed"}
    await api.patch(f"{path}/status", [unless_changed(job_set), {"op": "add", "path": "/status", "value": failed}])
    metrics.LEDGER_STOPPED.labels("Failed", reason).inc()
    log.info("JobSet failed", namespace=metadata["namespace"], name=metadata["name"], reason=reason, message=message)


def condition(kind: str, reason: str, message: str) -> Json:
    """Return a condition with status True and the current time."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
