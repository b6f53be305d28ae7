"""What is known of the nodes: their zones, also of nodes that are newer than the last list."""

import asyncio
from collections.abc import AsyncIterator
from time import time
from typing import Any

from msgspec.structs import replace

from tests.admission import policy
from tests.unit.controller.leader import FakeApi, beside
from tests.virtual_time import run
from webhook.objects.problem import Json
from webhook.policy.model import Prices, Rate, RateMatch
from webhook.tracking.cluster import Cluster

ZONE = "topology.kubernetes.io/zone"


class NodesApi:
    """Lists a node, and has another one that it names only if asked for it; has nothing else."""

    def __init__(self) -> None:
        self.pages, self.stream = FakeApi().pages, FakeApi().stream

    async def get(self, _: str, query: Json, *__: object) -> Json:
        named = "fieldSelector" in query
        return {"items": [{"metadata": {"name": "new", "labels": {ZONE: "b"}}, "spec": {}}] if named else []}

    async def objects(self, *_: object) -> AsyncIterator[Json]:
        yield {"metadata": {"name": "old", "labels": {ZONE: "a", "disk": "fast"}}}


def test_the_zones_of_listed_and_of_newer_nodes_are_known() -> None:
    async def work() -> None:
        server: Any = NodesApi()
        cluster = Cluster(server)
        async with beside(cluster.run()):
            await asyncio.sleep(1)
            assert (zone_of(cluster, "old"), zone_of(cluster, "new")) == ("a", "")
            await asyncio.sleep(1)
            assert zone_of(cluster, "new") == "b"

    run(work())


def zone_of(cluster: Cluster, node: str) -> str:
    return cluster.known_nodes.zone_of(node, "")


def test_prices_by_other_labels_are_looked_up_at_once() -> None:
    rate = Rate(match=RateMatch(node_labels={"disk": "fast"}), per_hour={"cpu": 1})

    async def work() -> None:
        server: Any = NodesApi()
        cluster = Cluster(server)
        async with beside(cluster.run()):
            await asyncio.sleep(1)
            assert cluster.known_nodes.of("old").labels == ()
            cluster.see_policy(replace(policy(), prices=Prices(currency="USD", rates=(rate,))))
            await asyncio.sleep(1)
            assert cluster.known_nodes.of("old").labels == (("disk", "fast"),)
            cluster.see_policy(policy())
            await asyncio.sleep(1)
            assert cluster.known_nodes.of("old").labels == ()

    run(work())


def test_the_nodes_that_exist_are_those_of_the_last_list_and_of_others_only_younger_ones() -> None:
    class Changing(NodesApi):
        names = ("old", "gone")

        async def objects(self, *_: object) -> AsyncIterator[Json]:
            for name in self.names:
                yield {"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}}

    async def work() -> None:
        server: Any = Changing()
        cluster = Cluster(server)
        nodes = cluster.known_nodes
        assert nodes.since("old") == 0.0
        before = time()
        await cluster.read_nodes()
        assert [nodes.since(name) for name in ("old", "gone")] == [1767225600.0, 1767225600.0]
        server.names = ("old",)
        await cluster.read_nodes()
        assert nodes.since("gone") >= before
        assert (set(nodes.created), set(nodes.places)) == ({"old"}, {"old", "gone"})
        nodes.see({"metadata": {"name": "young", "creationTimestamp": "2026-02-01T00:00:00Z"}})  # one with a pod
        assert nodes.since("young") == 1769904000.0

    run(work())
