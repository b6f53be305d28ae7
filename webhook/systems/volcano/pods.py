"""The pods of a Volcano Job: the scope is the task and index; an annotation has the number of the Job's restarts."""

from typing import Final

from webhook.objects.problem import Json
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pod_source import Evidence, Level, Place, PodSource, joined, number_at
from webhook.systems.volcano import spec as volcano

NAME: Final = "Volcano"
LABELS: Final = (volcano.TASK, volcano.TASK_INDEX)
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


def _place_of(metadata: Json, controller: OwnerReference) -> Place:
    return Place(volcano.JOB, controller.name, controller.uid, joined(metadata, *LABELS))


PODS: Final = (PodSource(volcano.JOB, NAME, levels, _place_of, is_of_group=True),)
