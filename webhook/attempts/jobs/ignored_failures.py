"""The failures of a pod's completion index that cost no retry, which the Job controller writes on each pod.

It does for each Job with backoffLimitPerIndex: `job-index-ignored-failure-count`, left out for 0
(pkg/controller/job/indexed_job_utils.go). They are a level of their own, against the disruption budget. Where the
ledger counts disruptions, admission takes them out of this count (webhook/rules/jobs/back_off.py), and the ledger
tells.
"""

from typing import Final

from webhook.attempts.jobs import job_index
from webhook.attempts.level import Evidence, Level
from webhook.kinds import batch

NAME: Final = job_index.NAME


def levels(evidence: Evidence) -> list[Level]:
    """Read the count of the pod's index."""
    if batch.INDEX_FAILURES not in evidence.annotations:
        return []
    is_there = batch.INDEX_IGNORED_FAILURES in evidence.annotations
    ignored = evidence.count_in_annotations(batch.INDEX_IGNORED_FAILURES) if is_there else 0
    if ignored is None:
        return []
    return [Level(NAME, ignored, evidence.settings.disruption_budget, of_disruptions=True)]
