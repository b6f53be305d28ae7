"""Which attempt a pod is: one file per source that tells it. Adding a source is a file, its test and a line here.

A pod can stand under several levels, each a counter with its own budget; placement looks at them all. The annotation
wins over every other source. A source that does not apply, or whose signal is malformed, gives no level.
"""

from collections.abc import Callable
from typing import Final

from webhook.attempts import annotation, job_index, job_status
from webhook.attempts.level import Level
from webhook.policy.settings import Settings
from webhook.problem import Json, Problem

__all__ = ["Level", "levels"]

Source = Callable[[Json, Json | None, Settings, list[Problem]], list[Level]]

# A source that says something silences those after it.
SOURCES: Final[tuple[Source, ...]] = (annotation.levels, job_index.levels, job_status.levels)


def levels(pod: Json, owner: Json | None, settings: Settings, warnings: list[Problem]) -> list[Level]:
    """Return the levels that a pod stands under, empty where nothing tells; add a warning for each malformed signal.

    `owner` is the pod's controller, None where it has none, is of a kind that no row knows, or is gone.
    """
    for source in SOURCES:
        found = source(pod, owner, settings, warnings)
        if found:
            return found
    return []
