"""Whether and how a workload has ended, or the end of a Job is decided, by its status.

Reads:
    status.{conditions,completionTime,phase,finishedAt}
    status.{jobDeploymentStatus,reason,message,endTime}
    status.state.{phase,lastTransitionTime}
"""

from typing import Final, NamedTuple

from webhook.objects.patch import at
from webhook.objects.problem import Json, Path

# The terminal conditions, by type and status: True if the object has succeeded.
ENDINGS: Final = {
    ("Complete", "True"): True,  # a Job
    ("Completed", "True"): True,  # a JobSet
    ("Failed", "True"): False,
    ("Succeeded", "True"): True,  # Tekton's
    ("Succeeded", "False"): False,
}


class Phase(NamedTuple):
    """A field of a status that has a phase, for kinds without conditions that say how they ended.

    `endings`: the terminal phases: True if the object has succeeded. `ended`: the field with the time of the end.
    """

    path: Path
    endings: dict[str, bool]
    ended: Path


PHASES: Final = (
    # Of an Argo Workflow: its condition Completed does not say how it has ended.
    Phase(("status", "phase"), {"Succeeded": True, "Failed": False, "Error": False}, ("status", "finishedAt")),
    # Of a RayJob. (ValidationFailed is none: such a RayJob has not run.)
    Phase(("status", "jobDeploymentStatus"), {"Complete": True, "Failed": False}, ("status", "endTime")),
    # Of a Volcano Job. (Aborted is none: such a Job is suspended.)
    Phase(
        ("status", "state", "phase"),
        {"Completed": True, "Failed": False, "Terminated": False},
        ("status", "state", "lastTransitionTime"),
    ),
)
# Conditions of a Job by which its controller says that its end is decided: before it has ended, or as it does.
DECISIONS: Final = frozenset({"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"})


def decides(condition: Json) -> bool:
    """Return True if a condition of a Job says that its end is decided."""
    return condition.get("type") in DECISIONS and condition.get("status") == "True"


def is_decided(status: Json) -> bool:
    """Return True if the end of a Job is decided, by its status."""
    return any(decides(one) for one in status.get("conditions") or ())


def condition_of(root: Json) -> Json | None:
    """Return the terminal condition of an object, or one that says the same; None if it has not ended."""
    conditions = at(root, ("status", "conditions")) or ()
    found: Json | None = next((one for one in conditions if (one.get("type"), one.get("status")) in ENDINGS), None)
    for phase in PHASES:
        said = at(root, phase.path)
        succeeded = phase.endings.get(said) if isinstance(said, str) else None
        if succeeded is not None:
            words = {name: at(root, ("status", name)) or "" for name in ("reason", "message")}
            time = at(root, phase.ended) or (found or {}).get("lastTransitionTime")
            return {
                "type": "Complete" if succeeded else "Failed",
                "status": "True",
                "lastTransitionTime": time,
                **words,
            }
    return found


def has_ended_well(root: Json) -> bool | None:
    """Return True if an object has succeeded, False if it has failed, None if it has not ended."""
    one = condition_of(root)
    return None if one is None else ENDINGS[one["type"], one["status"]]


def has_failed(root: Json) -> bool:
    """Return True if an object has failed."""
    return has_ended_well(root) is False


def ended_at(root: Json) -> str | None:
    """Return the time at which an object ended, as RFC 3339 text; None if it has not ended."""
    one = condition_of(root)
    return None if one is None else root["status"].get("completionTime") or one.get("lastTransitionTime")
