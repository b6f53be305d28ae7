"""What is known of nodes, also of those that are new or gone: zone, capacity, and the labels of prices."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission import policy
from tests.unit.controller.leader import beside
from tests.virtual_time import run
from webhook.capacity.table import GKE
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.policy.model import CustomProvider, Placement, Prices, Profile, Rate, RateMatch
from webhook.tracking.nodes import MOST_NODES, MOST_UNKNOWN, NOWHERE, KnownNodes

ZONE = "topology.kubernetes.io/zone"


class NodesApi:
    """Lists the nodes that a field selector names; answers the first requests with `faults`."""

    def __init__(self, nodes: dict[str, str], *faults: Exception) -> None:
        self.nodes = nodes
        self.faults = list(faults)
        self.asked: list[str] = []

    async def get(self, path: str, query: Json, *_: object) -> Json:
        assert path == "/api/v1/nodes"
        name = query["fieldSelector"].removeprefix("metadata.name=")
        self.asked.append(name)
        if self.faults:
            raise self.faults.pop(0)
        found = [{"metadata": {"name": name, "labels": {ZONE: self.nodes[name]}}}] if name in self.nodes else []
        return {"items": found}


def looked_up(server: Any, *asking: Callable[[KnownNodes], str]) -> list[str]:
    """Return the answers to questions, with time between them to ask the API."""

    async def work() -> list[str]:
        zones = KnownNodes(server)
        found = []
        async with beside(zones.run()):
            for ask in asking:
                found.append(ask(zones))
                await asyncio.sleep(1)
        return found

    return run(work())


def zone_of(node: str, said: str = "") -> Callable[[KnownNodes], str]:
    return lambda zones: zones.zone_of(node, said)


def test_a_node_that_is_not_known_is_asked_for_once() -> None:
    server = NodesApi({"n-1": "a"})
    assert looked_up(server, zone_of("n-1"), zone_of("n-1"), zone_of("n-1")) == ["", "a", "a"]
    assert server.asked == ["n-1"]


def test_a_node_that_does_not_exist_is_asked_for_once() -> None:
    server = NodesApi({})
    assert looked_up(server, zone_of("n-1"), zone_of("n-1")) == ["", ""]
    assert server.asked == ["n-1"]


def test_a_node_is_asked_for_again_after_a_fault() -> None:
    server = NodesApi({"n-1": "a"}, ApiError(500, "no"), TimeoutError())
    assert looked_up(server, *[zone_of("n-1")] * 4) == ["", "", "", "a"]


def test_while_the_api_server_is_busy_no_other_node_is_asked_for_and_none_is_forgotten() -> None:
    async def work() -> list[float]:
        api: Any = server
        zones = KnownNodes(api)
        for name in server.nodes:
            zones.ask_later(name)
        async with beside(zones.run()):
            await asyncio.sleep(4)
            assert len(server.asked) == 1
            await asyncio.sleep(20)
        return [zones.zone_of(name, "") == "a" for name in server.nodes]

    server = NodesApi(dict.fromkeys(("n-1", "n-2", "n-3"), "a"), *[ApiError(429, "too many requests", 5.0)] * 2)
    assert all(run(work()))
    assert len(server.asked) == 5


def test_the_label_of_a_pod_says_the_zone_of_an_unknown_node_only_if_a_node_has_that_zone() -> None:
    server = NodesApi({"n-1": "a"})
    found = looked_up(server, zone_of("n-1", "a"), zone_of("n-1", "b"), zone_of("gone", "a"), zone_of("gone", "b"))
    assert found == ["", "a", "a", ""]
    assert server.asked == ["n-1", "gone"]


def test_the_zone_of_a_known_node_counts_and_not_the_label_that_a_user_may_have_written() -> None:
    zones = zones_of({"n-1": "a", "n-2": ""})
    assert (zones.zone_of("n-1", "b"), zones.zone_of("n-2", "b")) == ("a", "")


def test_a_node_that_is_gone_is_remembered() -> None:
    zones = zones_of({"n-1": "a"})
    zones.see(node("n-2", "b"))
    assert zones.zone_of("n-1", "") == "a"


def test_the_nodes_seen_last_are_remembered() -> None:
    zones = zones_of({"n-0": "a", "n-1": "a"})
    for number in range(2, MOST_NODES - 5_000):
        zones.see(node(f"n-{number}", "a"))
    assert "n-1" in zones.places
    for number in range(2, MOST_NODES):
        zones.see(node(f"n-{number}", "a"))
    zones.see(node("n-0", "a"))
    zones.see(node("new", "a"))
    assert len(zones.places) == MOST_NODES
    assert "n-1" not in zones.places
    assert "n-0" in zones.places


def test_the_nodes_that_wait_for_a_request_are_bounded() -> None:
    zones = zones_of({})
    for number in range(2 * MOST_UNKNOWN):
        zones.zone_of(f"n-{number}", "")
    assert len(zones.unknown) == MOST_UNKNOWN


def node(name: str, zone: str = "", **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": {ZONE: zone, **labels}}}


def zones_of(nodes: dict[str, str]) -> KnownNodes:
    no_api: Any = None
    zones = KnownNodes(no_api)
    for name, zone in nodes.items():
        zones.see(node(name, zone))
    return zones


GKE_SPOT = {"cloud.google.com/gke-spot": "true"}


@pytest.mark.parametrize(
    ("labels", "capacity"),
    [
        (GKE_SPOT, "Spot"),
        ({"cloud.google.com/gke-provisioning": "spot"}, "Spot"),
        ({"cloud.google.com/gke-provisioning": "standard"}, "OnDemand"),
        ({"karpenter.sh/capacity-type": "spot"}, "Spot"),
        ({"karpenter.sh/capacity-type": "on-demand"}, "OnDemand"),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, "Spot"),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "OnDemand"),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, "Spot"),
        ({"machine.openshift.io/interruptible-instance": ""}, "Spot"),
        ({"team": "ml"}, ""),
    ],
)
def test_the_labels_of_providers_say_which_capacity_a_node_has(labels: dict[str, str], capacity: str) -> None:
    zones = zones_of({})
    zones.see(node("n-1", **labels))
    assert zones.of("n-1").capacity == capacity


def test_a_node_of_a_recognised_provider_without_a_spot_label_is_on_demand() -> None:
    zones = zones_of({"n-1": "a"})
    assert zones.of("n-1").capacity == ""
    zones.recognised = GKE
    assert zones.of("n-1").capacity == "OnDemand"


def test_a_node_that_does_not_exist_has_no_capacity_in_any_cluster() -> None:
    async def work() -> str:
        nodes = KnownNodes(api_of(NodesApi({})))
        nodes.recognised = GKE
        async with beside(nodes.run()):
            nodes.of("n-1")
            await asyncio.sleep(1)
            return nodes.of("n-1").capacity

    assert run(work()) == ""


def api_of(server: NodesApi) -> Any:
    return server


def test_profiles_may_name_different_values_of_one_label() -> None:
    zones = zones_of({})
    placements = [
        Placement(provider="custom", custom=CustomProvider(spot_labels={"pool": [value]}))
        for value in ("spot", "cheap")
    ]
    zones.see_policy(policy(**{f"p{number}": Profile(placement=one) for number, one in enumerate(placements)}))
    for value in ("spot", "cheap", "dear"):
        zones.see(node(value, pool=value))
    assert [zones.of(name).capacity for name in ("spot", "cheap", "dear")] == ["Spot", "Spot", "OnDemand"]


def test_the_own_labels_of_a_policy_mark_spot_nodes() -> None:
    zones = zones_of({})
    placement = Placement(provider="custom", custom=CustomProvider(spot_labels={"pool": ["cheap"], "bid": [""]}))
    assert zones.see_policy(policy(default=Profile(placement=placement)))
    zones.see(node("n-1", pool="cheap"))
    zones.see(node("n-2", bid="3"))
    zones.see(node("n-3", pool="dear"))
    assert [zones.of(name).capacity for name in ("n-1", "n-2", "n-3")] == ["Spot", "Spot", "OnDemand"]


def test_the_labels_by_which_prices_choose_are_kept_and_no_others() -> None:
    zones = zones_of({})
    rate = Rate(match=RateMatch(node_labels={"gpu": "h100"}), per_hour={"cpu": 1})
    priced = replace(policy(), prices=Prices(currency="USD", rates=(rate,)))
    assert zones.see_policy(priced)
    zones.see(node("n-1", gpu="a100", disk="fast"))
    assert zones.of("n-1").labels == (("gpu", "a100"),)
    assert not zones.see_policy(priced)
    assert zones.see_policy(policy())


def test_nodes_with_the_same_facts_share_them() -> None:
    zones = zones_of({"n-1": "a", "n-2": "a"})
    assert zones.of("n-1") is zones.of("n-2")
    assert zones.of("n-3") is NOWHERE
