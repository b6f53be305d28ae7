"""Whether and how a Job, JobSet, TaskRun, PipelineRun or Workflow has ended, or its end is decided, by its status.

Reads:
    status.{conditions,completionTime,phase,finishedAt}
"""

from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json

# The terminal conditions, by type and status: True if the object has succeeded.
ENDINGS: Final = {
    ("Complete", "True"): True,  # a Job
    ("Completed", "True"): True,  # a JobSet
    ("Failed", "True"): False,
    ("Succeeded", "True"): True,  # Tekton's
    ("Succeeded", "False"): False,
}
# The phases of an Argo Workflow that has ended: its condition Completed does not say how.
PHASES: Final = {"Succeeded": True, "Failed": False, "Error": False}
# Conditions of a Job by which its controller says that its end is decided: before it has ended, or as it does.
DECISIONS: Final = frozenset({"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"})


def decides(condition: Json) -> bool:
    """Return True if a condition of a Job says that its end is decided."""
    return condition.get("type") in DECISIONS and condition.get("status") == "True"


def is_decided(status: Json) -> bool:
    """Return True if the end of a Job is decided, by its status."""
    return any(decides(one) for one in status.get("conditions") or ())


def condition_of(root: Json) -> Json | None:
    """Return the terminal condition of an object; None if it has not ended."""
    for one in at(root, ("status", "conditions")) or ():
        if (one.get("type"), one.get("status")) in ENDINGS:
            found: Json = one
            return found
    return None


def has_ended_well(root: Json) -> bool | None:
    """Return True if an object has succeeded, False if it has failed, None if it has not ended."""
    phase = at(root, ("status", "phase"))
    if isinstance(phase, str) and phase in PHASES:
        return PHASES[phase]
    one = condition_of(root)
    return None if one is None else ENDINGS[one["type"], one["status"]]


def has_failed(root: Json) -> bool:
    """Return True if an object has failed."""
    return has_ended_well(root) is False


def ended_at(root: Json) -> str | None:
    """Return the time at which an object ended, as RFC 3339 text; None if it has not ended."""
    if has_ended_well(root) is None:
        return None
    status, one = root["status"], condition_of(root) or {}
    return status.get("completionTime") or status.get("finishedAt") or one.get("lastTransitionTime")
