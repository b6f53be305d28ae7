"""Whether and how an object has ended."""

from typing import Any

import pytest

from webhook.kube import terminal
from webhook.objects.problem import Json

THEN = "2026-11-22T08:00:00Z"


def root(*conditions: tuple[str, str], **status: Any) -> Json:
    found = [{"type": kind, "status": said, "lastTransitionTime": THEN} for kind, said in conditions]
    return {"status": {"conditions": found, **status}}


def phase(name: str) -> Json:
    """Return a RayJob."""
    return {"status": {"jobDeploymentStatus": name, "endTime": THEN, "reason": "AppFailed", "message": "exit code 1"}}


@pytest.mark.parametrize(
    ("found", "well"),
    [
        (root(("Suspended", "False"), ("Complete", "True")), True),
        (root(("FailureTarget", "True"), ("Failed", "True")), False),
        (root(("StartupPolicyCompleted", "True"), ("Completed", "True")), True),
        (root(("Succeeded", "True")), True),
        (root(("Succeeded", "False")), False),
        (root(("Succeeded", "Unknown")), None),
        (root(("Failed", "False"), ("FailureTarget", "True")), None),
        (phase("Complete"), True),
        (phase("Failed"), False),
        (phase("Retrying"), None),
        (phase("ValidationFailed"), None),
        ({}, None),
        (root(("Completed", "True"), phase="Succeeded"), True),
        (root(("Completed", "True"), phase="Failed"), False),  # a Workflow: the condition does not say how it ended
        (root(phase="Error", finishedAt=THEN), False),
        (root(phase="Running"), None),
        (root(phase=["Failed"]), None),
        (root(state={"phase": "Completed", "lastTransitionTime": THEN}), True),
        (root(state={"phase": "Failed", "lastTransitionTime": THEN}), False),
        (root(state={"phase": "Terminated", "lastTransitionTime": THEN}), False),
        (root(state={"phase": "Aborted", "lastTransitionTime": THEN}), None),  # a Volcano Job that is suspended
        (root(state="Failed"), None),
    ],
)
def test_an_object_has_succeeded_or_failed_or_not_ended(found: Json, well: bool | None) -> None:  # noqa: FBT001
    assert terminal.has_ended_well(found) is well
    assert terminal.has_failed(found) is (well is False)
    assert terminal.ended_at(found) == (None if well is None else THEN)


def test_the_completion_time_is_the_time_of_the_end() -> None:
    later = "2026-11-22T08:00:01Z"
    assert terminal.ended_at(root(("Succeeded", "False"), completionTime=later)) == later


def test_a_workflow_ended_when_its_status_says_so() -> None:
    assert terminal.ended_at(root(("Completed", "True"), phase="Failed", finishedAt="2026-11-22T09:00:00Z")) == (
        "2026-11-22T09:00:00Z"
    )


def test_the_end_of_a_ray_job_has_reason_and_message_of_its_status() -> None:
    found = terminal.condition_of(phase("Failed"))
    assert found is not None
    assert (found["reason"], found["message"]) == ("AppFailed", "exit code 1")
