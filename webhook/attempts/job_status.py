"""The status of the Job that owns the pod: its failures so far, Job-wide, against its Job-wide backoffLimit.

A failure is in `status.uncountedTerminatedPods.failed` until the Job controller has counted it in `status.failed`
(pkg/controller/job/job_controller.go). Failures that an Ignore rule matched are in neither.
"""

from typing import Final

from webhook.attempts.level import Evidence, Level
from webhook.workloads import batch

NAME: Final = "JobStatus"


def levels(evidence: Evidence) -> list[Level]:
    """Count the Job's failures."""
    if evidence.owner is None:
        return []
    status = evidence.owner.get("status") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("failed") or ()
    return [Level(NAME, (status.get("failed") or 0) + len(uncounted), budget_of(evidence))]


def budget_of(evidence: Evidence) -> int:
    """Return the retries that the Job allows."""
    owner = evidence.owner
    return evidence.said_budget if owner is None or owner.get("spec") is None else batch.retry_budget(owner["spec"])
