"""What the end of a pod of a Volcano Job costs, and what the leader can do to such a Job."""

from typing import Any

import pytest

from tests.unit.controller.leader import stored_pod
from tests.unit.systems.costs import DELETED, EVICTED, cost_by
from tests.volcano import exits, on, task, volcano_job
from webhook.objects import bounds
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.systems.system import Create
from webhook.systems.volcano.account import JOB


def stored(*policies: Json, tasks: list[Json] | None = None, phase: str | None = "Running", **spec: Any) -> Json:
    root = volcano_job(*policies, tasks=tasks, **spec)
    root["metadata"] |= {"namespace": "ml", "uid": "job-uid", "resourceVersion": "7"}
    return {**root, "status": {"state": {"phase": phase}} if phase else {}}


def pod(code: int = 0, *, of: str = "main", disrupted: bool = False, **metadata: Any) -> Pod:
    """Return a pod as Volcano 1.13 writes it; it runs unless it has an exit code."""
    version = "batch.volcano.sh/v1alpha1"
    owner = {"apiVersion": version, "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
    labels = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": of, "volcano.sh/task-index": "1"}
    phase = "Failed" if code else "Running"
    root = stored_pod(1, phase, code, finalizers=[], labels=labels, ownerReferences=[owner], **metadata)
    root["status"] |= {"conditions": [EVICTED]} if disrupted else {}
    return pods.read(root)


def cost(found: Pod, root: Json) -> str:
    return cost_by(JOB, found, root)


def test_a_pod_is_counted_for_its_job_with_task_and_index_as_scope() -> None:
    found = pod(of="worker")
    assert (found.kind, found.job, found.job_uid, found.scope) == (JOB.kind, "train", "job-uid", "worker/1")


def test_a_job_with_endless_tasks_and_policies_is_read_as_far_as_the_bound() -> None:
    first = task(on("PodFailed", action="RestartTask"), name="main")
    endless = [task(name=f"t{number}") for number in range(bounds.MOST_ENTRIES)]
    assert cost(pod(143), stored(tasks=[first, *endless])) == "retry"
    assert cost(pod(143), stored(tasks=[*endless, first])) == "fatal"
    codes = [exits(1000 + number, "AbortJob") for number in range(bounds.MOST_ENTRIES)]
    assert cost(pod(143), stored(*codes, on("PodFailed", action="RestartTask"))) == "fatal"


INJECTED = [exits(137, "RestartTask"), exits(143, "RestartTask"), on("PodFailed", action="TerminateJob")]


@pytest.mark.parametrize(
    ("policies", "code", "disrupted", "expected"),
    [
        (INJECTED, 1, False, "fatal"),
        (INJECTED, 143, False, "retry"),
        (INJECTED, 143, True, "retry"),
        (INJECTED, 1, True, "fatal"),
        ([on("PodEvicted", action="AbortJob")], 143, True, "fatal"),
        ([on("PodEvicted", action="ResumeJob")], 143, True, "disruption"),
        ([], 143, True, "disruption"),
        ([], 143, False, "fatal"),
        ([], 1, False, "retry"),
        ([on("PodEvicted", action="RestartJob")], 143, True, "retry"),
        ([on("PodEvicted", action="RestartJob")], 143, False, "fatal"),
        ([on("*", action="RestartJob")], 1, False, "retry"),
        ([on("TaskCompleted", action="CompleteJob")], 143, True, "disruption"),
    ],
)
def test_an_end_costs_what_the_first_policy_makes_of_it(
    policies: list[Json], code: int, *, disrupted: bool, expected: str
) -> None:
    found = pod(code, disrupted=disrupted, **(DELETED if disrupted else {}))
    assert cost(found, stored(*policies)) == expected
    assert cost(found, stored(tasks=[task(*policies)])) == expected


def test_the_policies_of_a_task_come_before_those_of_the_job() -> None:
    root = stored(
        on("PodFailed", action="RestartJob"), tasks=[task(on("PodFailed", action="AbortJob")), task(name="b")]
    )
    assert (cost(pod(143), root), cost(pod(143, of="b"), root)) == ("fatal", "retry")


def test_pods_that_volcano_deletes_with_one_that_failed_cost_nothing() -> None:
    assert cost(pod(**DELETED), stored(on("PodFailed", action="RestartJob"))) == "none"


@pytest.mark.parametrize(
    ("phase", "ended"),
    [(phase, False) for phase in (None, "Pending", "Running", "Restarting")]
    + [
        (phase, True)
        for phase in ("Aborting", "Aborted", "Completing", "Completed", "Terminating", "Terminated", "Failed")
    ],
)
def test_a_job_has_ended_or_is_suspended_by_its_phase(phase: str | None, *, ended: bool) -> None:
    assert JOB.has_ended(stored(phase=phase)) is ended


def test_a_job_is_ended_and_suspended_by_commands_as_vcctl_creates_them() -> None:
    ended, suspended = JOB.fail(stored(), pod(1), "PodFailurePolicy", "a bug"), JOB.suspend(stored())
    assert isinstance(ended, Create)
    assert isinstance(suspended, Create)
    assert ended.path == suspended.path == "/apis/bus.volcano.sh/v1alpha1/namespaces/ml/commands"
    assert (ended.root["action"], suspended.root["action"]) == ("TerminateJob", "AbortJob")
    target = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "job-uid",
        "controller": True,
    }
    assert ended.root["target"] == target
    assert ended.root["metadata"]["ownerReferences"] == [target]
    assert (ended.root["reason"], ended.root["message"]) == ("PodFailurePolicy", "a bug")


def test_a_job_that_may_succeed_without_the_pod_is_not_ended() -> None:
    assert JOB.fail(stored(tasks=[task(replicas=3)], minAvailable=2), pod(1), "Bug", "a bug") is None
