"""The failures of a pod's completion index, which the Job controller writes on each pod.

It does for each Job with backoffLimitPerIndex: `job-index-failure-count`, "0" on an index's first pod
(pkg/controller/job/indexed_job_utils.go). Where the indexes have no retries of their own, the Job's status tells.
"""

from typing import Final

from webhook.attempts.jobs.job_status import budget_of, has_index_budgets
from webhook.attempts.level import Evidence, Level
from webhook.kinds import batch

NAME: Final = "JobIndex"


def levels(evidence: Evidence) -> list[Level]:
    """Read the count of the pod's index."""
    if batch.INDEX_FAILURES not in evidence.annotations or not has_index_budgets(evidence.owner):
        return []
    failures = evidence.count_in_annotations(batch.INDEX_FAILURES)
    return [] if failures is None else [Level(NAME, failures, budget_of(evidence))]
