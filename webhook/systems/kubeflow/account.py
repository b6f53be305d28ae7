"""Kubeflow's training operator: the scope is a replica. Source: pkg/controller.v1 of training-operator 1.9.3.

The operator creates a failed pod again with restartPolicy OnFailure and Always; with ExitCode after codes of 128 and
more, or if the pod shows no code; it counts none of that. With Never, and with a backoffLimit of 0, it fails the job.
Admission knows the restartPolicy, and says what a pod may retry.

A job is ended by what the operator itself writes when it has failed, the condition Failed: the operator then cleans up
its pods, as cleanPodPolicy says, and its users see that end.

An MPIJob of the MPI operator has the account of its workers; its launcher is a Job with an account of its own. Source:
pkg/controller/mpi_job_controller.go of mpi-operator 0.8.2. The operator writes the status of an MPIJob alone, and tries
again after a conflict. It creates a worker again only if that was deleted; one that has failed stays, and if a kubelet
has evicted it, the MPIJob is Failed.
"""

from functools import partial
from typing import Any, Final

from webhook.objects.patch import at, unless_changed
from webhook.objects.problem import Json
from webhook.pods.outcomes import was_killed
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kubeflow import spec as kubeflow
from webhook.systems.system import Spent, System, Write, status_of

FAILED: Final = "Failed"
EVICTED: Final = "Evicted"  # the reason of a pod that its kubelet has evicted
ENDED: Final = frozenset({FAILED, "Succeeded", "Suspended"})
SUSPEND: Final = ("spec", "runPolicy", "suspend")


def _cost_of(pod: Pod, root: Json, spent: Spent, _settings: Settings) -> AttemptCost:
    if not spent.budget:
        return "retry"  # of none
    replica_type, _, _ = pod.scope.rpartition("/")
    by_code = kubeflow.restart_policy_of(root, replica_type) == kubeflow.EXIT_CODE
    if by_code and pod.exits and pod.exits[0].code < kubeflow.RESTARTED:
        return "fatal"
    if was_killed(pod):
        return "free"  # by a person: the operator creates it again
    return "retry" if pod.disruption is None else "disruption"


def _cost_of_worker(pod: Pod, _root: Json, _spent: Spent, _settings: Settings) -> AttemptCost:
    """Return what the end of a worker of an MPIJob cost the MPIJob; what its launcher does then costs that."""
    if was_killed(pod):
        return "free"
    return "fatal" if pod.disruption is None or pod.reason == EVICTED else "disruption"


def _has_ended(root: Json) -> bool:
    conditions = at(root, ("status", "conditions")) or ()
    return bool(at(root, SUSPEND)) or any(
        one.get("type") in ENDED and one.get("status") == "True" for one in conditions
    )


def _fail(kind: KindSpec, root: Json, pod: Pod | None, reason: str, message: str) -> Write | None:
    if pod is None:
        return None
    status, time = root.get("status") or {}, pod.finished or pod.created
    times = {"lastUpdateTime": time, "lastTransitionTime": time}
    conditions = [
        {**one, "status": "False", **times} if one.get("type") == "Running" else one
        for one in status.get("conditions") or ()
        if one.get("type") != FAILED
    ]
    conditions.append({"type": FAILED, "status": "True", "reason": reason, "message": message, **times})
    ended = {"completionTime": time, **status, "conditions": conditions}
    return Write(status_of(kind, root), [unless_changed(root), {"op": "add", "path": "/status", "value": ended}])


def _suspend(kind: KindSpec, root: Json) -> Write:
    """Return the write that suspends a job: the operator deletes its pods."""
    change: dict[str, Any] = {"path": "/spec/runPolicy/suspend", "value": True}
    if at(root, SUSPEND[:-1]) is None:
        change = {"path": "/spec/runPolicy", "value": {"suspend": True}}
    return Write(kind.path_to(root), [unless_changed(root), {"op": "add", **change}])


def system(kind: KindSpec) -> System:
    """Return the System of a kind of the training operator."""
    return System(
        kind=kind,
        unit="replica",
        cost_of=_cost_of,
        has_ended=_has_ended,
        ends_bugs=True,
        fail=partial(_fail, kind),
        suspend=partial(_suspend, kind),
        writes={SUSPEND[1:]: (True,)},
        reads_spec=True,
        bounded=False,
        coupled=True,
    )


TRAINING: Final = tuple(map(system, kubeflow.TRAINING.values()))
MPI_JOB: Final = System(
    kind=kubeflow.MPI_JOB,
    unit="replica",
    cost_of=_cost_of_worker,
    has_ended=_has_ended,
    suspend=partial(_suspend, kubeflow.MPI_JOB),
    writes={SUSPEND[1:]: (True,)},
)
SYSTEMS: Final = (*TRAINING, MPI_JOB)
