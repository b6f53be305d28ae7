"""The zones of nodes, also of those that are new or gone."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.unit.ledger.leader import beside
from tests.virtual_time import run
from webhook.kube.client import ApiError
from webhook.lookups.zones import MOST_NODES, MOST_UNKNOWN, NodeZones
from webhook.objects.problem import Json

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


def looked_up(server: Any, *asking: Callable[[NodeZones], str]) -> list[str]:
    """Return the answers to questions, with time between them to ask the API."""

    async def work() -> list[str]:
        zones = NodeZones(server)
        found = []
        async with beside(zones.run()):
            for ask in asking:
                found.append(ask(zones))
                await asyncio.sleep(1)
        return found

    return run(work())


def zone_of(node: str, said: str = "") -> Callable[[NodeZones], str]:
    return lambda zones: zones.of(node, said)


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


def test_the_label_of_a_pod_spares_the_request() -> None:
    server = NodesApi({})
    assert looked_up(server, zone_of("n-1", "a")) == ["a"]
    assert server.asked == []


def test_the_zone_of_a_known_node_counts_and_not_the_label_that_a_user_may_have_written() -> None:
    zones = zones_of({"n-1": "a", "n-2": ""})
    assert (zones.of("n-1", "b"), zones.of("n-2", "b")) == ("a", "")


def test_a_node_that_is_gone_is_remembered() -> None:
    zones = zones_of({"n-1": "a"})
    zones.see([("n-2", "b")])
    assert zones.of("n-1", "") == "a"


def test_the_nodes_seen_last_are_remembered() -> None:
    zones = zones_of({"n-0": "a", "n-1": "a"})
    zones.see([(f"n-{number}", "a") for number in range(2, MOST_NODES - 5_000)])
    assert "n-1" in zones.zones
    zones.see([(f"n-{number}", "a") for number in range(2, MOST_NODES)])
    zones.see([("n-0", "a"), ("new", "a")])
    assert len(zones.zones) == MOST_NODES
    assert "n-1" not in zones.zones
    assert "n-0" in zones.zones


def test_the_nodes_that_wait_for_a_request_are_bounded() -> None:
    zones = zones_of({})
    for number in range(2 * MOST_UNKNOWN):
        zones.of(f"n-{number}", "")
    assert len(zones.unknown) == MOST_UNKNOWN


def zones_of(nodes: dict[str, str]) -> NodeZones:
    no_api: Any = None
    zones = NodeZones(no_api)
    zones.see(nodes.items())
    return zones
