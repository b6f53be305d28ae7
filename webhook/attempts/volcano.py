"""The annotation that Volcano writes on each pod of its Jobs: how often the Job was started again, 0 first."""

from typing import Final

from webhook.attempts.level import Evidence, Level, number_at

NAME: Final = "Volcano"
RETRY_COUNT: Final = "volcano.sh/job-retry-count"
DEFAULT_MAX_RETRY: Final = 3  # runs, as the CRD has it


def levels(evidence: Evidence) -> list[Level]:
    """Read the annotation; maxRetry counts runs."""
    retries = evidence.count_in_annotations(RETRY_COUNT)
    if retries is None:
        return []
    budget = evidence.said_budget
    if evidence.owner is not None:
        budget = max(0, (number_at(evidence.owner, ("spec", "maxRetry")) or DEFAULT_MAX_RETRY) - 1)
    return [Level(NAME, retries, budget)]
