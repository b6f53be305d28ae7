"""The annotation `job-index-failure-count`: the failures of a pod's completion index.

The Job controller writes it on each pod of a Job with backoffLimitPerIndex, "0" on the first pod of an index
(pkg/controller/job/indexed_job_utils.go). If the indexes have no retries of their own, the source is the Job's status.
"""

from typing import Final

from webhook.systems.job import spec as batch
from webhook.systems.job.job_status import budget_of, is_of_index
from webhook.systems.level import Evidence, Level

NAME: Final = "JobIndex"


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the failures of the pod's index."""
    if not is_of_index(evidence):
        return []
    failures = evidence.count_in_annotations(batch.INDEX_FAILURES)
    return [] if failures is None else [Level(NAME, failures, budget_of(evidence))]
