"""What the end of a pod of a training job costs, and what the leader can do to such a job."""

from copy import deepcopy
from typing import Any

import jsonpatch
import pytest

from tests.unit.controller.leader import stored_pod
from tests.unit.systems.costs import DELETED, EVICTED, SPENT, cost_by
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.systems.accounts import SYSTEMS
from webhook.systems.kubeflow import account as kubeflow
from webhook.systems.kubeflow.spec import MPI_JOB, TRAINING
from webhook.systems.system import Spent, Write

PYTORCH = kubeflow.system(TRAINING["PyTorchJob"])
PATH = "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs/train"
RUNNING = {"type": "Running", "status": "True", "reason": "PyTorchJobRunning", "message": "runs"}
CREATED = {"type": "Created", "status": "True", "reason": "PyTorchJobCreated", "message": "created"}


def job(restart_policy: str | None = "ExitCode", *conditions: Json, **run_policy: Any) -> Json:
    replica = {} if restart_policy is None else {"restartPolicy": restart_policy}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"namespace": "ml", "name": "train", "resourceVersion": "7"},
        "spec": {"runPolicy": {"backoffLimit": 2, **run_policy}, "pytorchReplicaSpecs": {"Worker": replica}},
        "status": {"conditions": [*conditions], "replicaStatuses": {"Worker": {"active": 1}}},
    }


def pod(code: int = 0, *, kind: str = "PyTorchJob", status: Json | None = None, **metadata: Any) -> Pod:
    """Return a pod as training-operator 1.9 writes it; it runs unless it has an exit code."""
    owner = {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": "train", "uid": "u", "controller": True}
    labels = {"job-name": "train", "replica-type": "worker", "replica-index": "3"}
    root = stored_pod(
        1,
        "Failed" if code else "Running",
        code,
        finalizers=[],
        labels={f"training.kubeflow.org/{key}": value for key, value in labels.items()},
        ownerReferences=[owner],
        **metadata,
    )
    root["status"] |= status or {}
    return pods.read(root)


def cost(found: Pod, root: Json, spent: Spent = SPENT) -> str:
    return cost_by(PYTORCH, found, root, spent)


@pytest.mark.parametrize("kind", TRAINING)
def test_a_pod_is_counted_for_its_job_with_its_replica_as_scope(kind: str) -> None:
    found = pod(kind=kind)
    assert (found.kind, found.job, found.job_uid, found.scope) == (TRAINING[kind], "train", "u", "worker/3")
    assert TRAINING[kind] in SYSTEMS


@pytest.mark.parametrize(
    ("restart_policy", "code", "disrupted", "expected"),
    [
        ("ExitCode", 1, False, "fatal"),
        ("ExitCode", 1, True, "fatal"),
        ("ExitCode", 143, False, "retry"),
        ("ExitCode", 139, False, "retry"),
        ("ExitCode", 137, True, "disruption"),
        ("OnFailure", 1, True, "disruption"),
        (None, 1, True, "disruption"),
        ("OnFailure", 1, False, "retry"),
    ],
)
def test_an_end_costs_what_the_operator_makes_of_it(
    restart_policy: str | None, code: int, *, disrupted: bool, expected: str
) -> None:
    found = pod(code, status={"conditions": [EVICTED]} if disrupted else {})
    assert cost(found, job(restart_policy)) == expected


def test_without_retries_a_disruption_costs_what_is_not_there() -> None:
    found = pod(137, status={"conditions": [EVICTED]})
    assert cost(found, job("Never"), SPENT._replace(budget=0)) == "retry"


def test_a_pod_that_a_person_deletes_is_created_again_for_free() -> None:
    assert cost(pod(**DELETED), job()) == "free"


def test_where_only_the_metadata_is_known_a_disruption_costs_a_disruption() -> None:
    metadata = {"metadata": job()["metadata"]}
    assert cost(pod(1, status={"conditions": [EVICTED]}), metadata) == "disruption"
    assert cost(pod(1), metadata) == "retry"


@pytest.mark.parametrize(
    ("root", "ended"),
    [
        (job("ExitCode", CREATED, RUNNING), False),
        (job("ExitCode", {**RUNNING, "status": "False"}, {**RUNNING, "type": "Failed"}), True),
        (job("ExitCode", {**RUNNING, "type": "Succeeded"}), True),
        (job("ExitCode", {**RUNNING, "type": "Suspended"}), True),
        (job("ExitCode", {**RUNNING, "type": "Suspended", "status": "False"}), False),
        (job("ExitCode", suspend=True), True),
        ({"metadata": {}}, False),
    ],
)
def test_a_job_has_ended_by_its_conditions_or_is_suspended(root: Json, *, ended: bool) -> None:
    assert PYTORCH.has_ended(root) is ended


def applied(write: Any, root: Json) -> Json:
    assert isinstance(write, Write)
    found: Json = jsonpatch.apply_patch(deepcopy(root), write.operations)
    return found


def test_a_job_is_failed_by_the_condition_that_its_users_see() -> None:
    root = job("ExitCode", CREATED, RUNNING)
    write = PYTORCH.fail(root, pod(139), "PodFailurePolicy", "a bug")
    assert isinstance(write, Write)
    assert write.path == f"{PATH}/status"
    status = applied(write, root)["status"]
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [
        ("Created", "True"),
        ("Running", "False"),
        ("Failed", "True"),
    ]
    assert status["conditions"][-1]["message"] == "a bug"
    assert status["completionTime"] == pod(139).ended
    assert status["replicaStatuses"] == root["status"]["replicaStatuses"]


def test_a_job_without_a_status_can_be_failed_too() -> None:
    root = job()
    del root["status"]
    (failed,) = applied(PYTORCH.fail(root, pod(139), "PodFailurePolicy", "a bug"), root)["status"]["conditions"]
    assert failed["type"] == "Failed"


@pytest.mark.parametrize("root", [job(), {**job(), "spec": {}}])
def test_a_job_is_suspended_by_its_run_policy(root: Json) -> None:
    write = PYTORCH.suspend(root)
    suspended = applied(write, root)
    assert at(suspended, ("spec", "runPolicy", "suspend")) is True
    assert at(suspended, ("spec", "runPolicy", "backoffLimit")) == at(root, ("spec", "runPolicy", "backoffLimit"))


def test_a_job_that_has_changed_since_it_was_read_is_left_alone() -> None:
    for write in (PYTORCH.fail(job(), pod(139), "Bug", "a bug"), PYTORCH.suspend(job())):
        assert isinstance(write, Write)
        assert write.operations[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}


def worker(code: int = 0, version: str = "v2beta1", *, status: Json | None = None, **metadata: Any) -> Pod:
    """Return a worker of an MPIJob as mpi-operator 0.8 writes it; it runs unless it has an exit code."""
    owner = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "name": "train", "uid": "u", "controller": True}
    labels = {"job-name": "train", "job-role": "worker", "replica-index": "3"}
    labels = {f"training.kubeflow.org/{key}": value for key, value in labels.items()}
    phase = "Failed" if code or (status or {}).get("reason") else "Running"
    root = stored_pod(1, phase, code, finalizers=[], labels=labels, ownerReferences=[owner], **metadata)
    root["status"] |= status or {}
    return pods.read(root)


def test_a_worker_of_an_mpi_job_is_counted_by_its_replica_and_one_of_the_training_operator_is_not() -> None:
    assert (worker(1).kind, worker(1).job, worker(1).scope) == (MPI_JOB, "train", "worker/3")
    assert worker(1, "v1").job == ""


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (worker(143, status={"conditions": [EVICTED]}, deletionTimestamp="2026-01-01T00:00:01Z"), "disruption"),
        (worker(deletionTimestamp="2026-01-01T00:00:01Z"), "free"),
        (worker(status={"reason": "Evicted", "conditions": [EVICTED]}), "fatal"),
        (worker(1), "fatal"),
    ],
    ids=["preempted", "deleted by a person", "evicted by its kubelet", "ended by itself"],
)
def test_a_worker_of_an_mpi_job_is_created_again_only_if_it_was_deleted(found: Pod, expected: str) -> None:
    assert cost_by(kubeflow.MPI_JOB, found, {}) == expected


def test_an_mpi_job_is_suspended_like_a_training_job_and_only_its_launcher_can_be_failed() -> None:
    root = {**job(), "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}
    write = kubeflow.MPI_JOB.suspend(root)
    assert isinstance(write, Write)
    assert write.path == "/apis/kubeflow.org/v2beta1/namespaces/ml/mpijobs/train"
    assert at(jsonpatch.apply_patch(root, write.operations), ("spec", "runPolicy", "suspend")) is True
    assert kubeflow.MPI_JOB.fail(root, worker(1), "Reason", "message") is None
