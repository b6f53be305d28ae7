"""Ends a Job from outside, as the Job controller itself does: by its condition FailureTarget.

The Job controller then deletes the pods and sets Failed with the same reason and message (pkg/controller/job of
Kubernetes 1.36). A JobSet takes the reason PodFailurePolicy for the Job's own verdict, and fails with it.
"""

from datetime import UTC, datetime
from typing import Final

import structlog

from webhook.ledger import endings, rules
from webhook.ledger.pods import Pod
from webhook.policy.settings import Settings
from webhook.problem import Json
from webhook.rules import failure_policy
from webhook.server.api import Api
from webhook.workloads import batch

OF_SET: Final = rules.POD_FAILURE_POLICY
LIMIT_EXCEEDED: Final = "DisruptionLimitExceeded"

log = structlog.get_logger()


def may_settle(job: Json, settings: Settings) -> bool:
    """Tell whether the ledger is to decide what a crash of a Job's pod is; of the Job, little need be known."""
    return any(failure_policy.is_settled(one, settings) for one in batch.JOB.jobs(job))


async def settle(api: Api, settings: Settings, pod: Pod, within: int) -> bool:
    """End the Job of a pod whose crash no disruption explains; tell whether it was a bug, and not worth a retry."""
    job = await api.get(path_of(pod.namespace, pod.job))
    metadata, spec = job["metadata"], job["spec"]
    if metadata["uid"] != pod.job_uid or metadata.get("deletionTimestamp") or spec.get("suspend"):
        return False
    (embedded,) = batch.JOB.jobs(job)
    if not may_settle(job, settings) or embedded.pod_spec.get("restartPolicy") != "Never":
        return False
    own = (embedded.spec.get("podFailurePolicy") or {}).get("rules") or []
    added, _ = failure_policy.bug_rules(embedded, settings, own)
    match = rules.match([*own, *added], pod)
    if match is None or match.index < len(own) or match.container is None:
        return False
    code = next(one.code for one in pod.exits if one.container == match.container)
    what = f"Container {match.container} for pod {pod.namespace}/{pod.name} failed with exit code {code}"
    message = f"{what}, and no pod that it depends on was disrupted within {within} s"
    return await put(api, pod.namespace, job, OF_SET, message)


async def fail(api: Api, namespace: str, name: str, reason: str, message: str) -> bool:
    """End a Job; tell whether it had not ended before."""
    return await put(api, namespace, await api.get(path_of(namespace, name)), reason, message)


async def put(api: Api, namespace: str, job: Json, reason: str, message: str) -> bool:
    """Put the condition on a Job as it was read; raise ApiError with 409 where it has changed since."""
    status = job.get("status") or {}
    if endings.is_over(status):
        return False
    metadata = job["metadata"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "FailureTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": now,
        "lastTransitionTime": now,
    }
    conditions = [*(status.get("conditions") or ()), condition]
    operations = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/status/conditions", "value": conditions},
    ]
    await api.patch(f"{path_of(namespace, metadata['name'])}/status", operations)
    log.info("Job failed", namespace=namespace, name=metadata["name"], reason=reason, message=message)
    return True


def path_of(namespace: str, name: str) -> str:
    """Return the path of a Job."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
