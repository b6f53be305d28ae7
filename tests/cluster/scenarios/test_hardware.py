"""Crashes that a fault of their node explains: they cost a disruption, and the node is avoided after the second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.disruptions import NODES
from tests.cluster.namespace import STRATEGIC
from tests.cluster.objects import account, condition, ended
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_bad_nodes import expect_avoided
from tests.cluster.scenarios.test_failure_costs import dies
from tests.cluster.scenarios.test_jobs import failed_for, is_complete

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Api
    from tests.cluster.scenarios.conftest import NewScene, Turn

FAULT = {"status": {"conditions": [{"type": "KernelDeadlock", "status": "True", "reason": "TaskHung"}]}}
HARDWARE = "condition KernelDeadlock is True (TaskHung)"


def breaks(api: Api, node: str) -> None:
    """Let a detector tell of a fault of a node."""
    api.patch(f"{NODES}/{node}/status", FAULT, kind=STRATEGIC)


def blamed(job: Object) -> bool:
    return ended(job, 1) and "Hardware" in account(job)["causes"]


@pytest.mark.first
def test_a_crash_on_a_node_with_a_fault_costs_no_retry_and_the_job_completes_with_its_retries(scene: NewScene) -> None:
    here = scene("hardware", spot=1, on_demand=1)
    job = here.create("one-small-pod.yaml", program(None, 0))
    (pod,) = here.team.running("report", 1)
    breaks(here.team.api, pod["spec"]["nodeName"])
    here.team.ends(pod, 1)
    done = here.team.wait_for("jobs", "report", is_complete)
    assert done["spec"]["backoffLimit"] == job["spec"]["backoffLimit"] + 1
    counted = here.team.wait_for("jobs", "report", blamed)
    found = account(counted)
    assert (found["cost"], found["causes"]) == ({"disruption": 1}, {"Hardware": {HARDWARE: 1}})
    (why,) = here.team.told("report", "HardwareFault")
    assert why.endswith(f"explains the crash of pod {pod['metadata']['name']} ({HARDWARE}); it cost 1 disruption")


@pytest.mark.first
def test_a_fault_that_is_told_after_the_crash_keeps_the_job_and_without_one_it_is_a_bug(
    scene: NewScene,
) -> None:
    here = scene("hardware", spot=1, on_demand=1)
    here.create("one-small-pod.yaml", program(1, None), name="bug")  # its next pod does not end before the verdict
    failed = here.team.wait_for("jobs", "bug", failed_for)
    assert failed_for(failed) == "PodFailurePolicy"
    assert "and its node had no fault within 10 s after it" in condition(failed, "Failed")["message"]
    here.create("one-small-pod.yaml", program(None, 0), name="later")
    (pod,) = here.team.running("later", 1)
    here.team.ends(pod, 1)
    here.team.wait_for("jobs", "later", lambda found: ended(found, 1))
    breaks(here.team.api, pod["spec"]["nodeName"])
    assert blamed(here.team.wait_for("jobs", "later", blamed))
    here.team.wait_for("jobs", "later", is_complete)


@pytest.mark.first
def test_after_faults_that_ended_pods_of_two_workloads_those_of_others_prefer_another_node(
    scene: NewScene, turn: Turn
) -> None:
    here = scene("hardware", spot=1, on_demand=0)
    for name in ("one", "two"):
        here.create("one-small-pod.yaml", program(None), name=name)
        (pod,) = here.team.running(name, 1)
        breaks(here.team.api, pod["spec"]["nodeName"])
        dies(here, pod, 1, time=turn.time())
        here.team.wait_for("jobs", name, blamed)
    says = "has ended pods of 2 workloads in seven days by faults of its hardware"
    expect_avoided(here, pod["spec"]["nodeName"], "HardwareFaults", says)
