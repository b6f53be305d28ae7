"""Knows the zones of nodes, also of nodes that are gone. Before Kubernetes 1.35 a pod does not have its node's zone.

The list of all nodes is read every few minutes (webhook/lookups/cluster.py). A newer node is asked for by its name,
once, and only if its pods do not have the label.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from webhook.kube.client import METADATA_ONLY_LIST, UNREACHABLE, Api, ApiError
from webhook.kube.paths import path_of
from webhook.ledger.model.pods import ZONE
from webhook.rules.opt_in import labels_of

NODES: Final = path_of("v1", "nodes")
MOST_NODES: Final = 20_000  # that are remembered; the oldest are forgotten first
MOST_UNKNOWN: Final = 1_000  # that wait until they are asked for

log = structlog.get_logger()


class NodeZones:
    """The zones of nodes by name; an empty zone for a node that has none."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.zones: dict[str, str] = {}
        self.unknown: dict[str, None] = {}  # nodes to ask for, the oldest first
        self.asked = asyncio.Event()

    def see(self, nodes: Iterable[tuple[str, str]]) -> None:
        """Record the zones of nodes: pairs of name and zone."""
        for name, zone in nodes:
            self.zones.pop(name, None)
            self.zones[name] = zone
        while len(self.zones) > MOST_NODES:
            del self.zones[next(iter(self.zones))]

    def of(self, node: str, said: str) -> str:
        """Return the zone of a node; empty if it has none, or is not known yet. `said`: the label of a pod on it."""
        zone = self.zones.get(node)
        if zone is None and not said and node and len(self.unknown) < MOST_UNKNOWN:
            self.unknown[node] = None
            self.asked.set()
        return said if zone is None else zone

    async def run(self) -> None:
        """Ask for the nodes that are not known, one after another, until cancelled."""
        while True:
            await self.asked.wait()
            self.asked.clear()
            while self.unknown:
                name = next(iter(self.unknown))
                try:
                    self.see([(name, await self.ask(name))])
                except (ApiError, *UNREACHABLE) as error:
                    log.warning("zone of a node not read", node=name, error=repr(error))
                self.unknown.pop(name)

    async def ask(self, name: str) -> str:
        """Return the zone of one node; empty if it has none, or does not exist. Raise as `Api.get` does."""
        query = {"fieldSelector": f"metadata.name={name}"}  # a list, because the Role has no right to get nodes
        found = await self.api.get(NODES, query, METADATA_ONLY_LIST)
        return next((labels_of(node).get(ZONE) or "" for node in found.get("items") or ()), "")
