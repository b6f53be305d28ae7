"""The status of the AppWrapper that created a pod, or the pod's workload: the number of resets.

It is written before the objects of the next attempt are created (internal/controller of AppWrapper 1.2.0).
"""

from typing import Final

from webhook.systems.app_wrapper.spec import DEFAULT_RETRIES, RETRY_LIMIT
from webhook.systems.level import Evidence, Level, number_at

NAME: Final = "AppWrapper"


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the AppWrapper's resets."""
    for wrapper in (evidence.owner, evidence.above):
        if wrapper is not None and wrapper.get("kind") == NAME:
            limit = number_at(wrapper, ("metadata", "annotations", RETRY_LIMIT))
            resets = number_at(wrapper, ("status", "resettingCount")) or 0
            return [Level(NAME, resets, DEFAULT_RETRIES if limit is None else limit)]
    return []
