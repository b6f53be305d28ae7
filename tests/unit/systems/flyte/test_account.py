"""What the end of a pod of a FlyteWorkflow costs, as propeller counts it."""

from typing import Any

import pytest

from tests.unit.controller.leader import stored_pod
from tests.unit.systems.costs import cost_by
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.systems.flyte import account as flyte
from webhook.systems.system import Spent

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def pod(code: int = 137, reason: str = "Error", **status: Any) -> Pod:
    owner = {"apiVersion": "flyte.lyft.com/v1alpha1", "kind": "flyteworkflow", "name": "f1", "uid": "u"}
    root = stored_pod(0, "Failed", code, finalizers=[], ownerReferences=[{**owner, "controller": True}])
    root["status"] |= status
    root["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = reason
    return pods.read(root)


@pytest.mark.parametrize(
    ("found", "cost"),
    [
        (pod(conditions=[DISRUPTED]), "disruption"),
        (pod(143, conditions=[DISRUPTED], reason="Error"), "disruption"),
        (pod(), "free"),
        (pod(1), "free"),
        (pod(reason="OOMKilled"), "retry"),
    ],
    ids=["preempted, killed", "preempted, ended", "killed", "ended without a reason", "out of memory"],
)
def test_what_the_system_ended_costs_none_of_a_nodes_retries(found: Pod, cost: str) -> None:
    assert cost_by(flyte.FLYTE_WORKFLOW, found, {}, Spent(retries=9, disruptions=9, budget=2)) == cost


@pytest.mark.parametrize(("status", "cost"), [("Evicted", "retry"), ("Shutdown", "disruption")])
def test_flyte_takes_the_end_of_a_node_for_its_own_and_an_eviction_by_a_kubelet_for_the_programs(
    status: str, cost: str
) -> None:
    found = pod(conditions=[DISRUPTED])
    root = stored_pod(0, "Failed", 1)
    root["status"] |= {"reason": status, "conditions": [DISRUPTED]}
    ended = pods.read({**root, "metadata": {**root["metadata"], "ownerReferences": []}})
    assert found.reason == ""
    assert cost_by(flyte.FLYTE_WORKFLOW, ended, {}, Spent(retries=9, disruptions=9, budget=2)) == cost


@pytest.mark.parametrize(("phase", "ended"), [(None, False), (1, False), (2, False), (3, True), (5, True), (6, True)])
def test_a_flyte_workflow_has_ended_by_the_number_of_its_phase(phase: int | None, *, ended: bool) -> None:
    root: Json = {"status": {} if phase is None else {"phase": phase}}
    assert flyte.FLYTE_WORKFLOW.has_ended(root) is ended
    assert flyte.FLYTE_WORKFLOW.fail(root, pod(), "r", "m") is None
    assert flyte.FLYTE_WORKFLOW.suspend(root) is None
