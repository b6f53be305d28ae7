"""Nodes are asked for when a pod has crashed there."""

import asyncio
from typing import Any

from webhook.policy.model import Hardware
from webhook.tracking.node_faults import FRESH, MOST, NodeFaults


class Nodes:
    """An API with these nodes; `asked`: the queries that it got."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.asked: list[str] = []

    async def get(self, _path: str, query: dict[str, str], **_: Any) -> Any:
        self.asked.append(query["fieldSelector"])
        name = query["fieldSelector"].removeprefix("metadata.name=")
        conditions = [{"type": "KernelDeadlock", "status": str(name in self.broken)}]
        return {"items": [{"metadata": {"name": name}, "status": {"conditions": conditions}}]}


def faults_of(api: Any, *names: str, every: float = 0.0) -> list[str]:
    """Return the faults of nodes, each asked for so many seconds after the one before."""
    now = 0.0

    async def ask() -> list[str]:
        nonlocal now
        faults, found = NodeFaults(api, lambda: now), []
        for name in names:
            found.append(await faults.of(name, Hardware()))
            assert len(faults.nodes) <= MOST
            now += every
        return found

    return asyncio.run(ask())


def test_pods_that_crash_on_a_node_together_cost_one_look_at_it() -> None:
    api = Nodes("bad")
    assert faults_of(api, "bad", "good", "bad") == [
        "condition KernelDeadlock is True",
        "",
        "condition KernelDeadlock is True",
    ]
    assert api.asked == ["metadata.name=bad", "metadata.name=good"]


def test_a_node_is_looked_at_again_after_a_while() -> None:
    api = Nodes()
    faults_of(api, "a", "a", every=FRESH + 1)
    assert len(api.asked) == 2


def test_only_so_many_nodes_are_remembered() -> None:
    assert faults_of(Nodes(), *(f"node-{number}" for number in range(MOST + 10))) == [""] * (MOST + 10)
