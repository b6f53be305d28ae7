"""The annotation `job-index-ignored-failure-count`: the failures of a pod's completion index that cost no retry.

The Job controller writes it on each pod of a Job with backoffLimitPerIndex, except for 0
(pkg/controller/job/indexed_job_utils.go). It is a level of its own, against the disruption budget. Where the ledger
counts disruptions, admission subtracts them from this annotation (the rule back_off): then the source is the ledger.
"""

from typing import Final

from webhook.systems.job import job_index
from webhook.systems.job import spec as batch
from webhook.systems.level import Evidence, Level

NAME: Final = job_index.NAME


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the ignored failures of the pod's index."""
    if batch.INDEX_FAILURES not in evidence.annotations:
        return []
    is_there = batch.INDEX_IGNORED_FAILURES in evidence.annotations
    ignored = evidence.count_in_annotations(batch.INDEX_IGNORED_FAILURES) if is_there else 0
    if ignored is None:
        return []
    return [Level(NAME, ignored, evidence.settings.disruption_budget, of_disruptions=True)]
