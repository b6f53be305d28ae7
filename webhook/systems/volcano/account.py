"""Volcano's Job: the scope is a task and an index. Source: pkg/controllers/job of Volcano 1.13 and of August 2026.

The first policy that matches decides, a task's before those of the Job: by the exit code of the first container, or by
an event, PodFailed when a pod ends, and PodEvicted when it is deleted. Each restart counts for maxRetry, whatever it is
of. Without a policy a pod that failed stays so, and one that is deleted is created again for free.

A Job is ended or suspended by a Command, as vcctl does it: `vcctl job suspend` creates one with the action AbortJob,
and `vcctl job resume` one that undoes it. A Job that AbortJob leaves is never cleaned up, so a bug ends it by
TerminateJob.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from webhook.kube.paths import path_of
from webhook.objects import bounds
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods.outcomes import was_killed
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems.system import Create, Spent, System
from webhook.systems.volcano import spec as volcano
from webhook.systems.volcano.spec import (
    ANY,
    ENDS,
    EVICTED,
    FAILED,
    RESTARTS,
    SUSPENDS,
    TASKS,
    events_of,
    tolerates_failures,
)

RUNNING: Final = frozenset({"", "Pending", "Running", "Restarting"})  # the phases in which a Job starts pods
ENDING: Final = frozenset({ENDS, SUSPENDS, "CompleteJob"})
BUS: Final = "bus.volcano.sh/v1alpha1"
COMMANDS: Final = "commands"


def _cost_of(pod: Pod, root: Json, _spent: Spent, settings: Settings) -> AttemptCost:
    """Return what the end of a pod cost, where the Job is known with its policies."""
    if was_killed(pod):
        return "none"  # by Volcano, with a pod of its task or Job that had failed
    action = _action_after(pod, root)
    if action in RESTARTS:
        return "retry"
    if action in ENDING:
        return "fatal"
    if pod.disruption is not None:
        return "disruption"
    codes = settings.profile.failure_policy.retriable_exit_codes
    return "fatal" if all(one.code in codes for one in pod.exits) else "retry"


def _action_after(pod: Pod, root: Json) -> str:
    """Return the action of the first policy that is about the end of a pod; empty if there is none."""
    task, _, _ = pod.scope.rpartition("/")
    for event, code in _ends_of(pod, _first_container(root, task)):
        for policy in islice(_policies_for(root, task), bounds.MOST_ENTRIES):
            if policy.get("exitCode") == code or not {event, ANY}.isdisjoint(events_of(policy)):
                return str(policy.get("action") or "")
    return ""


def _ends_of(pod: Pod, container: str) -> Iterator[tuple[str, int]]:
    """Yield the events of a pod's end, each with the exit code that Volcano knows then; 0 is no code."""
    if pod.has_failed:
        yield FAILED, next((one.code for one in pod.exits if one.container == container), 0)
    if pod.deleting or not pod.has_failed:
        yield EVICTED, 0


def _policies_for(root: Json, task: str) -> Iterator[Json]:
    """Yield the policies that are about the pods of a task, in the order in which Volcano reads them."""
    yield from _task_of(root, task).get("policies") or ()
    yield from at(root, ("spec", "policies")) or ()


def _first_container(root: Json, task: str) -> str:
    return at(_task_of(root, task), ("template", "spec", "containers", 0, "name")) or ""


def _task_of(root: Json, name: str) -> Json:
    """Return the task of a Job with this name, if it is among the first bounds.MOST_ENTRIES; else an empty one."""
    tasks = islice(at(root, TASKS) or (), bounds.MOST_ENTRIES)
    return next((one for one in tasks if one.get("name") == name), {})


def _has_ended(root: Json) -> bool:
    return (at(root, ("status", "state", "phase")) or "") not in RUNNING


def _fail(root: Json, _pod: Pod | None, reason: str, message: str) -> Create | None:
    """Return the Command that ends a Job; None if it may succeed without the pod."""
    return None if tolerates_failures(root) else _command(root, ENDS, reason, message)


def suspend(root: Json) -> Create:
    """Return the Command that suspends a Job."""
    return _command(root, SUSPENDS, "DisruptionLimitExceeded", "too many disruptions")


def _command(root: Json, action: str, reason: str, message: str) -> Create:
    """Return a Command about a Job, as vcctl creates it."""
    metadata = root["metadata"]
    version, uid = volcano.JOB.api_version, metadata["uid"]
    target = {"apiVersion": version, "kind": "Job", "name": metadata["name"], "uid": uid, "controller": True}
    return Create(
        path_of(BUS, COMMANDS, metadata["namespace"], None),
        {
            "apiVersion": BUS,
            "kind": "Command",
            "metadata": {
                "generateName": f"{metadata['name']}-{action.lower()}-",
                "namespace": metadata["namespace"],
                "ownerReferences": [target],
            },
            "action": action,
            "target": target,
            "reason": reason,
            "message": message,
        },
    )


JOB: Final = System(
    kind=volcano.JOB,
    unit="task",
    cost_of=_cost_of,
    has_ended=_has_ended,
    ends_bugs=True,
    fail=_fail,
    suspend=suspend,
    reads_spec=True,
    coupled=True,
)
SYSTEMS: Final = (JOB,)
