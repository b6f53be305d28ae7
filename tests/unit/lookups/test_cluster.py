"""What is known of the nodes: their zones, also of nodes that are newer than the last list."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.unit.ledger.leader import FakeApi, beside
from tests.virtual_time import run
from webhook.lookups.cluster import Cluster
from webhook.objects.problem import Json

ZONE = "topology.kubernetes.io/zone"


class NodesApi:
    """Lists a node, and has another one that it names only if asked for it; has nothing else."""

    def __init__(self) -> None:
        self.pages, self.stream = FakeApi().pages, FakeApi().stream

    async def get(self, _: str, query: Json, *__: object) -> Json:
        named = "fieldSelector" in query
        return {"items": [{"metadata": {"labels": {ZONE: "b"}}, "spec": {}}] if named else []}

    async def objects(self, *_: object) -> AsyncIterator[Json]:
        yield {"metadata": {"name": "old", "labels": {ZONE: "a"}}}


def test_the_zones_of_listed_and_of_newer_nodes_are_known() -> None:
    async def work() -> None:
        server: Any = NodesApi()
        cluster = Cluster(server)
        async with beside(cluster.run()):
            await asyncio.sleep(1)
            assert (cluster.zones.of("old", ""), cluster.zones.of("new", "")) == ("a", "")
            await asyncio.sleep(1)
            assert cluster.zones.of("new", "") == "b"

    run(work())
