"""Asks the API server for the faults of nodes on which pods have crashed."""

from collections.abc import Callable
from typing import Final

from webhook.kube.client import Api
from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.pods.hardware import NODE_READ, fault_of_node
from webhook.policy.model import Hardware
from webhook.tracking.nodes import NODES

FRESH: Final = 2.0  # seconds for which a node need not be asked for again: many pods may crash there at once
MOST: Final = 1_000  # nodes that are remembered so long


class NodeFaults:
    """The nodes that were asked for last; `clock`: monotonic, in seconds."""

    def __init__(self, api: Api, clock: Callable[[], float]) -> None:
        self.api = api
        self.clock = clock
        self.nodes: dict[str, tuple[float, Json | None]] = {}  # when each was asked for, the oldest first

    async def of(self, name: str, hardware: Hardware, ended: str = "") -> str:
        """Return a fault of a node on which a pod ended at a time, as `fault_of_node`. Raise what `Api` raises."""
        asked, node = self.nodes.get(name, (float("-inf"), None))
        if self.clock() - asked > FRESH:
            self.nodes.pop(name, None)
            query = {"fieldSelector": f"metadata.name={name}"}  # a list, because the Role has no right to get nodes
            found = await self.api.get(NODES, query, kind=type_of({"items": [NODE_READ]}))
            node = next(iter(found.get("items") or ()), None)
            self.nodes[name] = self.clock(), node
            if len(self.nodes) > MOST:
                del self.nodes[next(iter(self.nodes))]
        return fault_of_node(node, hardware, ended)
