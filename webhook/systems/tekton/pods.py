"""The name of a TaskRun's pod: TASKRUN-pod, then TASKRUN-pod-retryN.

Tekton shortens a name that is too long at its start, never at this end (pkg/pod/pod.go of Tekton 1.9).
"""

import re
from typing import Final

from webhook.systems.level import Evidence, Level, number_at

NAME: Final = "Tekton"
SUFFIX: Final = re.compile(r"-pod(?:-retry([0-9]{1,9}))?\Z")


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the number at the end of the pod's name."""
    name = (evidence.pod.get("metadata") or {}).get("name")
    if not isinstance(name, str):
        return []
    found = SUFFIX.search(name)
    if found is None:
        evidence.warn(("metadata", "name"), name[-20:])
        return []
    budget = evidence.settings_budget
    if evidence.owner is not None:
        budget = number_at(evidence.owner, ("spec", "retries")) or 0
    return [Level(NAME, int(found[1] or 0), budget)]
