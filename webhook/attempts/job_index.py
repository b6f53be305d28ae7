"""The counts that the Job controller writes on each pod of a Job with backoffLimitPerIndex.

`job-index-failure-count` is always there, "0" on an index's first pod; `job-index-ignored-failure-count` only above 0
(pkg/controller/job/indexed_job_utils.go). Failures that an Ignore rule matched cost no retry: they are a level of their
own, against the disruption budget.
"""

from typing import Final

from webhook.attempts.level import Level, budget_of
from webhook.policy.settings import Settings, count
from webhook.problem import Json, Problem

NAME: Final = "JobIndex"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


def levels(pod: Json, owner: Json | None, settings: Settings, warnings: list[Problem]) -> list[Level]:
    """Read both counts of the pod's index."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    if FAILURES not in annotations:
        return []
    counts = [count(annotations[FAILURES]), count(annotations.get(IGNORED_FAILURES, "0"))]
    for key, number in zip((FAILURES, IGNORED_FAILURES), counts, strict=True):
        if number is None:
            path = ("metadata", "annotations", key)
            warnings.append(Problem(path, f"is {annotations[key][:20]!r}", "not a count, not used"))
    budgets = (budget_of(owner, settings), settings.disruption_budget)
    return [Level(NAME, number, budget) for number, budget in zip(counts, budgets, strict=True) if number is not None]
