"""What the end of a driver or executor costs, and what the leader can do to a SparkApplication."""

from typing import Any

import jsonpatch
import pytest

from tests.unit.controller.leader import stored_pod
from tests.unit.systems.costs import DELETED, EVICTED, cost_by
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.systems.spark.account import OF_APACHE, SPARK_APPLICATION
from webhook.systems.system import System, Write

LABELS = {
    SPARK_APPLICATION.kind: {
        "sparkoperator.k8s.io/app-name": "etl",
        "sparkoperator.k8s.io/launched-by-spark-operator": "true",
    },
    OF_APACHE.kind: {"spark.operator/spark-app-name": "etl"},
}
EITHER = pytest.mark.parametrize("system", [SPARK_APPLICATION, OF_APACHE], ids=("kubeflow", "apache"))


def application(state: str = "RUNNING", spec: Json | None = None, **metadata: Any) -> Json:
    return {
        "metadata": {"namespace": "ml", "name": "etl", "resourceVersion": "7", **metadata},
        "spec": {"restartPolicy": {"type": "OnFailure", "onFailureRetries": 2}, **(spec or {})},
        "status": {"applicationState": {"state": state}, "currentState": {"currentStateSummary": state}},
    }


def pod(system: System, role: str, code: int = 0, metadata: Json | None = None, **status: Any) -> Pod:
    """Return a driver or executor; it runs unless it has an exit code."""
    labels = {**LABELS[system.kind], "spark-role": role}
    given = {"finalizers": [], "labels": labels, "ownerReferences": [], **(metadata or {})}
    root = stored_pod(1, "Failed" if code else "Running", code, **given)
    root["status"] |= status
    return pods.read(root)


def cost_of(system: System, ended: Pod, state: str = "RUNNING") -> str:
    return cost_by(system, ended, application(state))


@EITHER
def test_a_driver_that_ends_costs_a_retry_whatever_ended_it(system: System) -> None:
    assert cost_of(system, pod(system, "driver", 1)) == "retry"
    assert cost_of(system, pod(system, "driver", 137, conditions=[EVICTED])) == "retry"
    assert cost_of(system, pod(system, "driver", metadata=DELETED)) == "retry"


@EITHER
def test_a_lost_executor_costs_nothing_of_the_application(system: System) -> None:
    assert cost_of(system, pod(system, "executor", 137, conditions=[EVICTED])) == "free"
    assert cost_of(system, pod(system, "executor", 1)) == "free"
    assert cost_of(system, pod(system, "executor", metadata=DELETED)) == "none"  # its driver no longer needs it


def test_the_driver_of_an_application_whose_spec_was_changed_costs_nothing() -> None:
    assert cost_of(SPARK_APPLICATION, pod(SPARK_APPLICATION, "driver", metadata=DELETED), "INVALIDATING") == "none"


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "SUSPENDING", "SUSPENDED"])
def test_an_application_that_has_ended_or_is_suspended_deletes_its_pods_itself(state: str) -> None:
    assert SPARK_APPLICATION.has_ended(application(state))


def test_one_that_fails_or_waits_for_its_next_run_has_not_ended() -> None:
    assert not any(SPARK_APPLICATION.has_ended(application(state)) for state in ("", "FAILING", "PENDING_RERUN"))
    assert SPARK_APPLICATION.has_ended(application(spec={"suspend": True}))


@pytest.mark.parametrize(
    ("state", "has_ended"),
    [
        ("Failed", False),
        ("DriverEvicted", False),
        ("ResourceReleased", True),
        ("TerminatedWithoutReleaseResources", True),
    ],
)
def test_one_of_apaches_operator_has_ended_once_no_restart_follows(state: str, *, has_ended: bool) -> None:
    assert OF_APACHE.has_ended(application(state)) is has_ended


def test_the_leader_can_suspend_an_application_but_not_fail_it() -> None:
    root = application()
    write = SPARK_APPLICATION.suspend(root)
    assert isinstance(write, Write)
    assert write.path == "/apis/sparkoperator.k8s.io/v1beta2/namespaces/ml/sparkapplications/etl"
    assert jsonpatch.apply_patch(root, write.operations)["spec"]["suspend"] is True
    assert SPARK_APPLICATION.fail(root, pod(SPARK_APPLICATION, "driver", 1), "PodFailurePolicy", "exit code 1") is None


def test_it_suspends_none_that_kueue_would_resume_and_none_of_apaches_operator() -> None:
    assert SPARK_APPLICATION.suspend(application(labels={"kueue.x-k8s.io/queue-name": "etl"})) is None
    assert OF_APACHE.suspend(application()) is None
    assert OF_APACHE.fail(application(), pod(OF_APACHE, "driver", 1), "PodFailurePolicy", "exit code 1") is None


@EITHER
def test_only_the_driver_is_one_pod_at_a_time(system: System) -> None:
    assert system.is_single("driver")
    assert not system.is_single("executor")


@pytest.mark.parametrize("state", ["", "PENDING_RERUN", "SUBMISSION_FAILED", "RESUMING", "INVALIDATING", "UNKNOWN"])
def test_an_application_is_not_suspended_while_the_operator_may_submit_a_run(state: str) -> None:
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(application(state), suspension(state))


@pytest.mark.parametrize("state", ["SUBMITTED", "RUNNING", "FAILING", "SUCCEEDING"])
def test_a_suspension_in_any_other_state_fails_if_the_state_has_changed(state: str) -> None:
    assert jsonpatch.apply_patch(application(state), suspension(state))["spec"]["suspend"]
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(application("PENDING_RERUN"), suspension(state))


def suspension(state: str) -> list[Json]:
    write = SPARK_APPLICATION.suspend(application(state))
    assert isinstance(write, Write)
    return write.operations
