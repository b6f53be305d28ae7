"""On which node the next pod runs, by how the last attempt ended: each match of onFailure with each choice of nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import disruptions
from tests.cluster.disruptions import HOSTNAME, ZONE
from tests.cluster.objects import ended, noted
from tests.cluster.scenarios.conftest import program
from webhook.kube import names
from webhook.rules.pods.protect import PROTECTION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene

FULLER = "30"  # CPUs of 64: without a preference the scheduler chooses the other node
SIDECAR = program(143, container="proxy", others=0)


def exits_with_143(here: Scene, pod: Object) -> None:
    here.team.ends(pod, 143)


def is_evicted(here: Scene, pod: Object) -> None:
    here.evict(pod)


def is_on_a_tainted_node(here: Scene, pod: Object) -> None:
    disruptions.taint(here.kubectl, node_of(pod))
    here.team.wait_for_all("pods", lambda pods: pod["metadata"]["uid"] not in {one["metadata"]["uid"] for one in pods})
    disruptions.untaint(here.kubectl, node_of(pod))


def node_of(pod: Object) -> str:
    return str(pod["spec"]["nodeName"])


def fill(here: Scene, node: str) -> None:
    """Let a pod use much of a node."""
    container = {"name": "main", "image": "example.invalid/main", "resources": {"requests": {"cpu": FULLER}}}
    spec: dict[str, Any] = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
    spec["nodeSelector"] = {HOSTNAME: node}
    metadata = {"name": f"fills-{node}"}
    here.team.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    here.team.wait_for("pods", metadata["name"], node_is_set)


def node_is_set(pod: Object) -> bool:
    return "nodeName" in pod["spec"]


def decided(pod: Object) -> int | None:
    """Return the index of the rule that decided before a pod."""
    found: int | None = json.loads(pod["metadata"]["annotations"][names.AFTER_FAILURE]).get("rule")
    return found


def two_nodes(here: Scene, **other: Any) -> tuple[str, str]:
    """Add two nodes, of which the scheduler prefers the first."""
    first = here.nodes.add(zone="a")
    second = here.nodes.add(zone="b", **other)
    fill(here, second)
    return first, second


ENDS: list[tuple[int, Callable[[Scene, Object], None]]] = [
    (2, exits_with_143),
    (3, is_on_a_tainted_node),
    (4, is_evicted),
]
each_end = pytest.mark.parametrize(("rule", "ends"), ENDS, ids=[one.__name__ for _, one in ENDS])


@each_end
@pytest.mark.parametrize("profile", ["next-other-node", "next-other-zone"])
def test_the_next_pod_runs_on_another_node_although_that_is_fuller(
    scene: NewScene, profile: str, rule: int, ends: Callable[[Scene, Object], None]
) -> None:
    here = scene(profile, spot=0, on_demand=0)
    first, second = two_nodes(here)
    here.create("one-pod.yaml")
    (pod,) = here.team.running("train", 1)
    assert node_of(pod) == first
    ends(here, pod)
    (following,) = here.team.running("train", 1, but=pod)
    assert (decided(following), node_of(following)) == (rule, second)
    assert noted(following)["placement"] == "Spot"


@pytest.mark.parametrize(("rule", "ends"), ENDS[1:], ids=[one.__name__ for _, one in ENDS[1:]])
def test_the_next_pod_runs_on_demand_and_its_node_is_protected(
    scene: NewScene, rule: int, ends: Callable[[Scene, Object], None]
) -> None:
    here = scene("next-on-demand", spot=2, on_demand=1)
    here.create("one-pod.yaml")
    (pod,) = here.team.running("train", 1)
    assert noted(pod)["placement"] == "Spot"
    assert not PROTECTION.keys() & pod["metadata"]["annotations"].keys()
    ends(here, pod)
    (following,) = here.team.running("train", 1, but=pod)
    assert (decided(following), noted(following)["placement"]) == (rule, "OnDemand")
    assert "-on-demand-" in node_of(following)
    assert PROTECTION.items() <= following["metadata"]["annotations"].items()


@pytest.mark.parametrize("profile", ["next-other-node", "next-other-zone"])
def test_a_rule_about_one_container_decides_before_one_about_any(scene: NewScene, profile: str) -> None:
    here = scene(profile, spot=0, on_demand=0)
    first, second = two_nodes(here)
    here.create("sidecar.yaml", SIDECAR)
    before, following = here.team.pods_of("with-proxy", lambda pods: len(pods) == 2 and all(map(node_is_set, pods)))
    assert (node_of(before), decided(following), node_of(following)) == (first, 0, second)


@pytest.mark.first
@pytest.mark.parametrize("profile", ["next-other-node", "next-other-zone", "next-on-demand"])
def test_a_second_failure_on_the_same_node_decides_by_its_own_rule(scene: NewScene, profile: str) -> None:
    here = scene(profile, spot=1, on_demand=0)
    here.create("one-pod.yaml", program(143, 143))
    here.team.pods_of("train", lambda pods: len(pods) == 2 and node_is_set(pods[1]))
    here.nodes.add(spot=False)
    pods = here.team.pods_of("train", lambda pods: len(pods) == 3 and node_is_set(pods[2]))
    assert decided(pods[2]) == 1


def test_where_no_other_node_is_free_the_next_pod_runs_on_the_same(scene: NewScene) -> None:
    here = scene("next-other-node", spot=1, on_demand=0)
    here.create("one-pod.yaml")
    (pod,) = here.team.running("train", 1)
    is_evicted(here, pod)
    (following,) = here.team.running("train", 1, but=pod)
    assert node_of(following) == node_of(pod)


def test_after_most_spot_pods_of_a_zone_were_lost_new_jobs_prefer_another_zone(scene: NewScene) -> None:
    here = scene("wave", spot=0, on_demand=0)
    first, second = two_nodes(here)
    here.create("eight-pods.yaml")
    pods = here.team.running("render-frames", 8)
    assert {node_of(pod) for pod in pods} == {first}
    for pod in pods:
        is_evicted(here, pod)
    here.team.wait_for("jobs", "render-frames", lambda found: ended(found, 8))
    here.create("one-pod.yaml")
    (following,) = here.team.running("train", 1)
    assert node_of(following) == second
    assert f"{here.nodes.name}-a" in str(following["spec"]["affinity"])
    assert ZONE in str(following["spec"]["affinity"])


def test_the_launcher_of_an_mpi_job_runs_on_demand_from_its_first_attempt(scene: NewScene) -> None:
    here = scene("next-on-demand", spot=2, on_demand=1)
    here.create("launcher.yaml")
    here.create("one-pod.yaml")
    (launcher,), (worker,) = here.team.running("launcher", 1), here.team.running("train", 1)
    assert (noted(launcher)["placement"], noted(worker)["placement"]) == ("OnDemand", "Spot")
    assert "-on-demand-" in node_of(launcher)
