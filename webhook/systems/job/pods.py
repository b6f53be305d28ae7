"""The attempt of a Job's pod: the failures of its completion index, or of all pods, in what the Job controller writes.

It writes two annotations on each pod of a Job with backoffLimitPerIndex (pkg/controller/job/indexed_job_utils.go): the
failures of the pod's index, "0" on its first pod, and those that cost no retry, except for 0. The latter are a level of
their own, against the disruption budget. Where the ledger counts disruptions, admission subtracts them from this
annotation (the rule back_off): then the source is the ledger.

If the indexes have no retries of their own, the source is the Job's status, against its backoffLimit. A failure is in
`status.uncountedTerminatedPods.failed` until the Job controller has counted it in `status.failed`
(pkg/controller/job/job_controller.go). Failures that an Ignore rule matched are in neither. With backoffLimitPerIndex,
and if the controller is busy for longer than a back-off, a failure is in neither until the failed pod's replacement
exists; the ledger counts it earlier.
"""

from typing import Final

from webhook.policy.settings import count
from webhook.systems.job import spec as batch
from webhook.systems.pod_source import Evidence, Level, PodSource

OF_INDEX: Final = "JobIndex"
OF_JOB: Final = "JobStatus"


def of_index(evidence: Evidence) -> list[Level]:
    """Return the level of the failures of the pod's index."""
    if not _is_of_index(evidence):
        return []
    failures = evidence.count_in_annotations(batch.INDEX_FAILURES)
    return [] if failures is None else [Level(OF_INDEX, failures, _budget_of(evidence))]


def _of_job(evidence: Evidence) -> list[Level]:
    """Return the level of the Job's failures, unless the pod's index has a level of its own."""
    if evidence.owner is None or (
        _is_of_index(evidence) and count(evidence.annotations[batch.INDEX_FAILURES]) is not None
    ):
        return []
    failed = batch.failed_in_status(evidence.owner)
    return [Level(OF_JOB, failed + _not_counted_yet(evidence, failed), _budget_of(evidence))]


def ignored_of_index(evidence: Evidence) -> list[Level]:
    """Return the level of the ignored failures of the pod's index, which are disruptions, if nothing else is ignored.

    Else those that the ledger has counted are the only level of disruptions, if it has.
    """
    if batch.INDEX_FAILURES not in evidence.annotations or _counts_other_failures(evidence):
        return []
    is_there = batch.INDEX_IGNORED_FAILURES in evidence.annotations
    ignored = evidence.count_in_annotations(batch.INDEX_IGNORED_FAILURES) if is_there else 0
    if ignored is None:
        return []
    return [Level(OF_INDEX, ignored, evidence.settings.disruption_budget, of_disruptions=True)]


def _counts_other_failures(evidence: Evidence) -> bool:
    """Return True if not all ignored failures count as disruptions, and the ledger tells them apart.

    Rules of the Job ignore others too, or disruptions count for a time.
    """
    spec = (evidence.owner or {}).get("spec")
    if evidence.disruptions is None or spec is None:
        return False
    return evidence.settings.profile.disruptions.per is not None or not batch.ignores_disruptions_alone(spec)


def _not_counted_yet(evidence: Evidence, failed: int) -> int:
    """Return the number of failures that the Job's status lacks because their pods are not replaced yet.

    Without a count of the ledger this is 1 if the pod's index has had failures, else 0. The former pod of the index may
    have been disrupted and not have failed: then the attempt is too high, but a last attempt is never missed.
    """
    if _is_of_index(evidence):
        return 0
    if evidence.failures is not None:
        return max(0, evidence.failures - failed)
    return bool(evidence.count_in_annotations(batch.INDEX_FAILURES))


def _is_of_index(evidence: Evidence) -> bool:
    """Return True if a pod has an index with retries of its own, or may have: the Job's spec may not be known."""
    if batch.INDEX_FAILURES not in evidence.annotations:
        return False
    owner = evidence.owner
    return owner is None or owner.get("spec") is None or batch.has_index_budgets(owner["spec"])


def _budget_of(evidence: Evidence) -> int:
    """Return the retries that the Job allows; of the settings if the Job's spec is not known."""
    owner = evidence.owner
    return evidence.settings_budget if owner is None or owner.get("spec") is None else batch.retry_budget(owner["spec"])


PODS: Final = (
    PodSource(batch.JOB, OF_INDEX, of_index),
    PodSource(batch.JOB, OF_JOB, _of_job),
    PodSource(batch.JOB, OF_INDEX, ignored_of_index),
)
