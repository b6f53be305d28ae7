"""What the end of a TaskRun's pod costs, and how the leader cancels a TaskRun."""

from __future__ import annotations

from typing import Any

import pytest

from tests.objects import pod as pod_of
from tests.unit.accounts.pods import disrupted, failed, running_pod
from webhook.accounts.tracker import as_failed
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.policy.model import Profile
from webhook.policy.settings import Settings
from webhook.systems.accounts import SYSTEMS
from webhook.systems.system import Spent
from webhook.systems.tekton import account as tekton
from webhook.systems.tekton.spec import PIPELINE_RUN as PIPELINE_RUN_ROW

SETTINGS = Settings(profile_name="default", profile=Profile())
SPENT = Spent(retries=0, disruptions=0, budget=3)
PLACE = {"row": PIPELINE_RUN_ROW, "job": "build", "job_uid": "run-uid", "scope": "a"}
OF_TASK: dict[str, Any] = {**PLACE, "controller": "build-a", "controller_uid": "task-uid", "tracked": False}


def cost(pod: Pod) -> str:
    return tekton.cost_of(pod, {}, SPENT, SETTINGS)


@pytest.mark.parametrize(
    "pod",
    [
        failed(code=42),
        failed(code=137, exit_reason="OOMKilled"),
        failed(code=143, deleting=True),
        disrupted(reason="EvictionByEvictionAPI", code=143),
        disrupted(reason="PreemptionByScheduler"),
        disrupted(reason="DeletionByTaintManager"),
        disrupted(reason="DeletionByPodGC", exits=()),
        running_pod(phase="Failed", reason="Evicted"),
    ],
)
def test_whatever_ended_a_pod_tekton_counts_a_retry(pod: Pod) -> None:
    assert cost(pod) == "retry"


def test_the_pod_of_a_retry_that_began_before_its_task_run_was_cancelled_costs_nothing() -> None:
    ended = SPENT._replace(ended=True)
    assert tekton.cost_of(failed(code=137, deleting=True), {}, ended, SETTINGS) == "none"


def test_a_sidecar_that_fails_after_the_steps_costs_nothing() -> None:
    assert cost(failed(code=1, container="sidecar-db")) == "none"


def test_a_pod_that_is_removed_before_it_ended_costs_no_retry() -> None:
    conditions = disrupted().conditions
    assert cost(as_failed(running_pod(deleting=True, conditions=conditions))) == "disruption"
    assert cost(as_failed(running_pod(deleting=True))) == "free"


@pytest.mark.parametrize(
    ("spec", "status", "has_ended"),
    [
        ({}, {}, False),
        ({}, {"conditions": [{"type": "Succeeded", "status": "Unknown"}]}, False),
        ({}, {"conditions": [{"type": "Succeeded", "status": "False"}]}, True),
        ({}, {"conditions": [{"type": "Succeeded", "status": "True"}]}, True),
        ({"status": "Cancelled"}, {}, True),
        ({"status": "CancelledRunFinally"}, {}, True),
        ({"status": "TaskRunCancelled"}, {}, True),
        ({"status": "StoppedRunFinally"}, {}, False),
        ({"status": "PipelineRunPending"}, {}, False),
    ],
)
def test_a_run_that_is_cancelled_ends_its_pods_itself(spec: Json, status: Json, *, has_ended: bool) -> None:
    assert tekton.has_ended({"metadata": {}, "spec": spec, "status": status}) is has_ended


def test_a_run_that_is_deleted_has_ended() -> None:
    assert tekton.has_ended({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}})


@pytest.mark.parametrize(("name", "attempt"), [("build-a-pod", 0), ("build-a-pod-retry2", 2)])
def test_a_task_run_is_cancelled_once_tekton_has_recorded_the_attempt_that_failed(name: str, attempt: int) -> None:
    write = tekton.fail({}, failed(code=42, name=name, **OF_TASK), "PodFailurePolicy", "exit code 42")
    assert write is not None
    assert write.path == "/apis/tekton.dev/v1/namespaces/ml/taskruns/build-a"
    assert write.operations == [
        {"op": "test", "path": "/metadata/uid", "value": "task-uid"},
        {"op": "test", "path": "/status/conditions/0/status", "value": "Unknown"},
        {"op": "test", "path": f"/status/retriesStatus/{attempt}/podName", "value": name},
        {"op": "add", "path": "/spec/status", "value": "TaskRunCancelled"},
        {"op": "add", "path": "/spec/statusMessage", "value": "retry-policy.dev: exit code 42"},
    ]


def test_after_a_pod_that_tekton_has_not_seen_fail_there_is_no_record_to_wait_for() -> None:
    write = tekton.fail({}, as_failed(running_pod(name="build-a-pod", deleting=True, **OF_TASK)), "R", "m")
    assert write is not None
    assert not any("retriesStatus" in one["path"] for one in write.operations)


def test_a_pod_that_no_task_run_controls_ends_none() -> None:
    assert tekton.fail({}, failed(), "R", "m") is None


def test_a_long_message_is_cut() -> None:
    write = tekton.fail({}, failed(**OF_TASK), "R", "m" * 10_000)
    assert write is not None
    assert len(write.operations[-1]["value"]) == tekton.LONGEST


def test_a_run_and_a_task_run_have_an_account_and_neither_can_be_suspended() -> None:
    for system in (tekton.PIPELINE_RUN, tekton.TASK_RUN):
        assert SYSTEMS[system.kind] is system
        assert system.suspend({}) is None


def step(name: str, code: int, said: str = "") -> Json:
    message = f'[{{"key":"Reason","value":"{said}","type":3}}]' if said else ""
    ended = {"exitCode": code, "reason": "Error", "finishedAt": "2026-01-01T00:00:09Z", "message": message}
    return {"name": f"step-{name}", "state": {"terminated": ended}}


def test_of_several_steps_those_that_tekton_skipped_did_not_fail() -> None:
    owner = {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": "a", "uid": "task-uid", "controller": True}
    found = pod_of(name="a-pod", namespace="ml", uid="pod-uid")
    found["metadata"]["ownerReferences"] = [owner]
    found["status"] = {"phase": "Failed", "containerStatuses": [step("after", 1, "Skipped"), step("build", 143)]}
    (failing,) = pods.read(found).exits
    assert (failing.container, failing.code) == ("step-build", 143)
