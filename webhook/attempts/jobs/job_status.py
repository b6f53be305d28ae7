"""The status of the Job that owns the pod: its failures so far, Job-wide, against its Job-wide backoffLimit.

A failure is in `status.uncountedTerminatedPods.failed` until the Job controller has counted it in `status.failed`
(pkg/controller/job/job_controller.go). Failures that an Ignore rule matched are in neither. With backoffLimitPerIndex
a failure is in neither until the pod exists that replaces the failed one: the ledger has counted it before.
"""

from typing import Final

from webhook.attempts.level import Evidence, Level
from webhook.kinds import batch
from webhook.objects.problem import Json

NAME: Final = "JobStatus"


def levels(evidence: Evidence) -> list[Level]:
    """Count the Job's failures."""
    if evidence.owner is None:
        return []
    failed = batch.failed_in_status(evidence.owner)
    return [Level(NAME, failed + not_counted_yet(evidence, failed), budget_of(evidence))]


def not_counted_yet(evidence: Evidence, failed: int) -> int:
    """Return how many failures the Job's status does not tell of because their pods are not replaced yet.

    Where the ledger knows nothing, the pod that is replaced now is taken for one if its index had failures: its last
    pod may have been disrupted, but no last attempt is to be taken for an earlier one.
    """
    if batch.INDEX_FAILURES not in evidence.annotations or has_index_budgets(evidence.owner):
        return 0
    if evidence.failures is not None:
        return max(0, evidence.failures - failed)
    return bool(evidence.count_in_annotations(batch.INDEX_FAILURES))


def has_index_budgets(owner: Json | None) -> bool:
    """Return True if each index of a Job has retries of its own, as far as the Job is known."""
    return owner is None or owner.get("spec") is None or batch.has_index_budgets(owner["spec"])


def budget_of(evidence: Evidence) -> int:
    """Return the retries that the Job allows."""
    owner = evidence.owner
    return evidence.said_budget if owner is None or owner.get("spec") is None else batch.retry_budget(owner["spec"])
