"""The counts that the Job controller writes on each pod of a Job with backoffLimitPerIndex.

`job-index-failure-count` is always there, "0" on an index's first pod; `job-index-ignored-failure-count` only above 0
(pkg/controller/job/indexed_job_utils.go). Failures that an Ignore rule matched cost no retry: they are a level of their
own, against the disruption budget.
"""

from typing import Final

from webhook.attempts.job_status import budget_of
from webhook.attempts.level import Evidence, Level

NAME: Final = "JobIndex"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


def levels(evidence: Evidence) -> list[Level]:
    """Read both counts of the pod's index."""
    if FAILURES not in evidence.annotations:
        return []
    failures, ignored = (evidence.count_in_annotations(key) for key in (FAILURES, IGNORED_FAILURES))
    if IGNORED_FAILURES not in evidence.annotations:
        ignored = 0
    found = []
    if failures is not None:
        found.append(Level(NAME, failures, budget_of(evidence)))
    if ignored is not None:
        found.append(Level(NAME, ignored, evidence.settings.disruption_budget, of_disruptions=True))
    return found
