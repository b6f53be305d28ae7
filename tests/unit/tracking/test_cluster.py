"""What is known of the nodes: their zones, also of nodes that are newer than the last list."""

import asyncio
from collections.abc import AsyncIterator
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
        return {"items": [{"metadata": {"labels": {ZONE: "b"}}, "spec": {}}] if named else []}

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
