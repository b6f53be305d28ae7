"""The annotation that Volcano writes on each pod of its Jobs: the number of restarts of the Job, from 0."""

from typing import Final

from webhook.systems.level import Evidence, Level, number_at

NAME: Final = "Volcano"
RETRY_COUNT: Final = "volcano.sh/job-retry-count"
DEFAULT_MAX_RETRY: Final = 3  # runs; the default of the CRD


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the annotation; the budget is one less than maxRetry, which counts runs."""
    retries = evidence.count_in_annotations(RETRY_COUNT)
    if retries is None:
        return []
    budget = evidence.settings_budget
    if evidence.owner is not None:
        budget = max(0, (number_at(evidence.owner, ("spec", "maxRetry")) or DEFAULT_MAX_RETRY) - 1)
    return [Level(NAME, retries, budget)]
