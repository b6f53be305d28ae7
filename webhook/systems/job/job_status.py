"""The status of the Job that controls the pod: the failures of all its pods, against its backoffLimit.

A failure is in `status.uncountedTerminatedPods.failed` until the Job controller has counted it in `status.failed`
(pkg/controller/job/job_controller.go). Failures that an Ignore rule matched are in neither. With backoffLimitPerIndex
a failure is in neither until the failed pod's replacement exists; the ledger counts it earlier.
"""

from typing import Final

from webhook.policy.settings import count
from webhook.systems.job import spec as batch
from webhook.systems.level import Evidence, Level

NAME: Final = "JobStatus"


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the Job's failures, unless the pod's index has a level of its own."""
    if evidence.owner is None or (
        is_of_index(evidence) and count(evidence.annotations[batch.INDEX_FAILURES]) is not None
    ):
        return []
    failed = batch.failed_in_status(evidence.owner)
    return [Level(NAME, failed + not_counted_yet(evidence, failed), budget_of(evidence))]


def not_counted_yet(evidence: Evidence, failed: int) -> int:
    """Return the number of failures that the Job's status lacks because their pods are not replaced yet.

    Without a count of the ledger this is 1 if the pod's index has had failures, else 0. The former pod of the index may
    have been disrupted and not have failed: then the attempt is too high, but a last attempt is never missed.
    """
    if batch.INDEX_FAILURES not in evidence.annotations or is_of_index(evidence):
        return 0
    if evidence.failures is not None:
        return max(0, evidence.failures - failed)
    return bool(evidence.count_in_annotations(batch.INDEX_FAILURES))


def is_of_index(evidence: Evidence) -> bool:
    """Return True if a pod has an index with retries of its own, or may have: the Job's spec may not be known."""
    if batch.INDEX_FAILURES not in evidence.annotations:
        return False
    owner = evidence.owner
    return owner is None or owner.get("spec") is None or batch.has_index_budgets(owner["spec"])


def budget_of(evidence: Evidence) -> int:
    """Return the retries that the Job allows; of the settings if the Job's spec is not known."""
    owner = evidence.owner
    return evidence.settings_budget if owner is None or owner.get("spec") is None else batch.retry_budget(owner["spec"])
