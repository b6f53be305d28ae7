"""Real disruptions of every kind: what they cost, and on which nodes the pods are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.cluster import disruptions
from tests.cluster.objects import account, ended, last, noted
from tests.cluster.scenarios.conftest import program

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene

    Disrupt: TypeAlias = Callable[[Scene, list[Object]], None]

HANDLED = program(at_sigterm=143)
KILLED = program()


def evict_pods(here: Scene, pods: list[Object]) -> None:
    for pod in pods:
        here.evict(pod)


def preempt_pods(here: Scene, pods: list[Object]) -> None:
    here.preempt(*pods)


def taint_node(here: Scene, pods: list[Object]) -> None:
    disruptions.taint(here.kubectl, node_of(pods))


def delete_node(here: Scene, pods: list[Object]) -> None:
    disruptions.delete(here.kubectl, node_of(pods))


def maintain_node(here: Scene, pods: list[Object]) -> None:
    """Remove the pods' node for maintenance, and add another one."""
    node = node_of(pods)
    disruptions.cordon(here.kubectl, node)
    disruptions.taint(here.kubectl, node)
    old_uids = {pod["metadata"]["uid"] for pod in pods}
    here.team.wait_for_all("pods", lambda found: not old_uids & {pod["metadata"]["uid"] for pod in found})
    disruptions.delete(here.kubectl, node)
    here.nodes.add()


def node_of(pods: list[Object]) -> str:
    (node,) = {pod["spec"]["nodeName"] for pod in pods}
    return str(node)


REASONS: dict[Disrupt, str] = {
    evict_pods: "EvictionByEvictionAPI",
    preempt_pods: "PreemptionByScheduler",
    taint_node: "DeletionByTaintManager",
    delete_node: "DeletionByPodGC",
    maintain_node: "DeletionByTaintManager",
}
# The control plane looks for pods of lost nodes once in a while.
each_disruption = pytest.mark.parametrize(
    "disrupt",
    [pytest.param(one, marks=pytest.mark.first if one is delete_node else (), id=one.__name__) for one in REASONS],
)


def disrupt_two_jobs(here: Scene, disrupt: Disrupt) -> list[Object]:
    """Disrupt two Jobs on one spot node; one exits with 143 on SIGTERM and the other is killed. Return both."""
    jobs = {"handled": HANDLED, "killed": KILLED}
    for name, does in jobs.items():
        here.create("one-pod.yaml", does, name=name)
    before = {name: here.team.running(name, 1)[0] for name in jobs}
    here.nodes.add()
    disrupt(here, list(before.values()))
    for name, pod in before.items():
        here.team.running(name, 1, but=pod)
    return [here.team.wait_for("jobs", name, lambda found: ended(found, 1)) for name in jobs]


@each_disruption
def test_a_disruption_costs_no_retry(scene: NewScene, disrupt: Disrupt) -> None:
    for found in disrupt_two_jobs(scene(spot=1, on_demand=0), disrupt):
        assert found["status"].get("failed", 0) == 0
        assert last(found) == [("Disruption", REASONS[disrupt], "disruption")]


@each_disruption
def test_with_action_count_a_disruption_costs_a_retry(scene: NewScene, disrupt: Disrupt) -> None:
    for found in disrupt_two_jobs(scene("count", spot=1, on_demand=0), disrupt):
        assert found["status"]["failed"] == 1
        assert last(found) == [("Disruption", REASONS[disrupt], "retry")]
        assert account(found)["left"]["retries"] == 1


@pytest.mark.first
def test_disruptions_count_for_the_time_of_the_profile_and_then_pods_go_back_to_spot_nodes(scene: NewScene) -> None:
    here = scene("windowed")
    here.create("one-pod.yaml", HANDLED)
    (pod,) = here.team.running("train", 1)
    seen = [noted(pod)["placement"]]
    while "OnDemand" not in seen or seen[-1] == "OnDemand":
        here.evict(pod)
        (pod,) = here.team.running("train", 1, but=pod)
        seen.append(noted(pod)["placement"])
    assert seen[:3] == ["Spot", "Spot", "OnDemand"]
    found = here.team.wait_for("jobs", "train", lambda found: ended(found, len(seen) - 1))
    assert account(found)["cost"] == {"disruption": len(seen) - 1}


BACK_OFF = 900  # seconds to wait: without budgets for indexes the back-off doubles with each pod, up to ten minutes


@pytest.mark.parametrize(
    "file", ["fifty-indexes.yaml", pytest.param("fifty-pods.yaml", marks=pytest.mark.long)], ids=["indexes", "pods"]
)
def test_when_half_of_the_nodes_are_tainted_their_pods_are_replaced_and_cost_no_retry(
    scene: NewScene, file: str
) -> None:
    here = scene(spot=8)
    here.create(file)
    pods = here.team.running("sweep", 50)
    nodes = sorted({pod["spec"]["nodeName"] for pod in pods})
    half = set(nodes[: len(nodes) // 2])
    tainted_pods = [pod for pod in pods if pod["spec"]["nodeName"] in half]
    for _ in half:
        here.nodes.add()
    for node in half:
        disruptions.taint(here.kubectl, node)
    old_uids = {pod["metadata"]["uid"] for pod in tainted_pods}
    here.team.pods_of("sweep", lambda found: replaced(found, old_uids), seconds=BACK_OFF)
    found = here.team.wait_for("jobs", "sweep", lambda found: ended(found, len(tainted_pods)))
    assert account(found)["cost"] == {"disruption": len(tainted_pods)}
    assert found["status"].get("failed", 0) == 0


def replaced(pods: list[Object], old_uids: set[str]) -> bool:
    left = [pod for pod in pods if pod["metadata"]["uid"] not in old_uids]
    return len(left) == 50 and all(pod["status"]["phase"] == "Running" for pod in left)
