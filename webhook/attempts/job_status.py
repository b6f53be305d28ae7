"""The status of the Job that owns the pod: its failures so far, Job-wide, against its Job-wide backoffLimit.

A failure is in `status.uncountedTerminatedPods.failed` until the Job controller has counted it in `status.failed`
(pkg/controller/job/job_controller.go). Failures that an Ignore rule matched are in neither.
"""

from typing import Final

from webhook.attempts.level import Level, budget_of
from webhook.policy.settings import Settings
from webhook.problem import Json, Problem

NAME: Final = "JobStatus"


def levels(_pod: Json, owner: Json | None, settings: Settings, _warnings: list[Problem]) -> list[Level]:
    """Count the Job's failures."""
    if owner is None:
        return []
    status = owner.get("status") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("failed") or ()
    return [Level(NAME, (status.get("failed") or 0) + len(uncounted), budget_of(owner, settings))]
