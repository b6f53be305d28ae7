"""Knows the places of nodes, also of nodes that are gone: zone, capacity, and the labels by which prices choose.

The list of all nodes is read every few minutes (webhook/tracking/cluster.py). A newer node is asked for once, by name.
"""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
import structlog

from webhook.capacity.provider import Labels, Provider, capacity_of
from webhook.capacity.table import ANY
from webhook.history.record import Capacity
from webhook.history.usage import label_keys
from webhook.kube.bulkhead import Bulkhead
from webhook.kube.client import METADATA_ONLY_LIST, UNREACHABLE, Api, ApiError, wait_after
from webhook.kube.paths import path_of
from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.pods.pods import ZONE
from webhook.policy.model import Policy
from webhook.policy.settings import own_spot_labels
from webhook.rules.opt_in import labels_of

NODES: Final = path_of("v1", "nodes")
MOST_NODES: Final = 20_000  # that are remembered; the oldest are forgotten first
MOST_UNKNOWN: Final = 1_000  # that wait until they are asked for

log = structlog.get_logger()


class NodePlace(msgspec.Struct, frozen=True, gc=False):
    """Where pods run: what is known of a node.

    - `zone`: empty if it has none. `capacity`: as its labels say; empty if they do not.
    - `labels`: those by which the policy's prices choose, as pairs. `exists`: whether the API had the node.
    """

    zone: str = ""
    capacity: Capacity = ""
    labels: tuple[tuple[str, str], ...] = ()
    exists: bool = True


NOWHERE: Final = NodePlace(exists=False)


class KnownNodes:
    """The places of nodes by name.

    `spot_labels`: those of the policy's own providers. `keys`: of the labels by which the policy's prices choose, at
    most five. `recognised`: the provider of the cluster; without one, and without a provider of the policy's own, a
    node without any known label may be spot or not. `created`: when the nodes were created that were in the last list,
    of the time `listed`, or that were asked for since; in seconds since 1970.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.bulkhead = Bulkhead("nodes")
        self.places: dict[str, NodePlace] = {}
        self.created: dict[str, float] = {}
        self.listed = 0.0
        self.zones: set[str] = set()  # of all nodes that were ever seen
        self.unknown: dict[str, None] = {}  # nodes to ask for, the oldest first
        self.asked = asyncio.Event()
        self.spot_labels: Labels = {}
        self.keys: tuple[str, ...] = ()
        self.recognised: Provider | None = None

    def see_policy(self, policy: Policy) -> bool:
        """Record which labels matter from now on; return True if the nodes must be read again for that."""
        spot_labels = own_spot_labels(policy)
        keys = () if policy.prices is None else label_keys(policy.prices.rates)
        changed = (spot_labels, keys) != (self.spot_labels, self.keys)
        self.spot_labels, self.keys = spot_labels, keys
        return changed

    def see(self, node: Json) -> None:
        """Record the place of a node, of which metadata is read, and when it was created."""
        name = node["metadata"]["name"]
        self.put(name, self.place_of(labels_of(node)))
        self.created[name] = seconds(node["metadata"].get("creationTimestamp") or "") or 0.0

    def see_only(self, names: set[str], listed: float) -> None:
        """Record that a list which was read from `listed` on had only nodes of these names, each of which was seen."""
        self.created = {name: created for name, created in self.created.items() if name in names}
        self.listed = listed

    def since(self, name: str) -> float:
        """Return since when a node may exist under its name: one that the last list lacks is gone, or is younger."""
        return self.created.get(name, self.listed)

    def put(self, name: str, place: NodePlace) -> None:
        """Record the place of a node; forget the one that was recorded first, beyond MOST_NODES."""
        self.places.pop(name, None)
        self.places[name] = place
        self.zones.add(place.zone)
        while len(self.places) > MOST_NODES:
            del self.places[next(iter(self.places))]

    def place_of(self, labels: Mapping[str, str]) -> NodePlace:
        """Return the place of a node with these labels; equal places are the same object."""
        capacity = capacity_of(labels, self.spot_labels, {}) or capacity_of(
            labels, ANY.spot_labels, ANY.on_demand_labels
        )
        kept = tuple((key, labels[key]) for key in self.keys if key in labels)
        return _shared(NodePlace(labels.get(ZONE) or "", capacity, kept))

    def of(self, node: str) -> NodePlace:
        """Return the place of a node; NOWHERE if it is not known yet, or does not exist."""
        place = self.places.get(node)
        if place is None:
            self.ask_later(node)
            return NOWHERE
        if place.capacity or not place.exists or not (self.recognised or self.spot_labels):
            return place
        return msgspec.structs.replace(place, capacity="OnDemand")

    def zone_of(self, node: str, said: str) -> str:
        """Return the zone of a node; empty if it has none, or is not known.

        `said`: the label of a pod on it, which users may write. Of a node that is not known yet, or is gone, it counts
        if any node has that zone, so that nobody can invent one.
        """
        place = self.places.get(node)
        if place is None:
            self.ask_later(node)
        if place is not None and place.exists:
            return place.zone
        return said if said in self.zones else ""

    def ask_later(self, node: str) -> None:
        """Ask for a node soon."""
        if node and len(self.unknown) < MOST_UNKNOWN:
            self.unknown[node] = None
            self.asked.set()

    async def run(self) -> None:
        """Ask for the nodes that are not known, one after another, until cancelled."""
        while True:
            await self.asked.wait()
            self.asked.clear()
            while self.unknown:
                name = next(iter(self.unknown))
                with self.bulkhead.around("", name):
                    try:
                        await self.ask(name)
                    except (ApiError, *UNREACHABLE) as error:
                        log.warning("node not read", node=name, error=repr(error))
                        if (wait := wait_after(error)) is not None:
                            await asyncio.sleep(wait)  # then it is asked for again
                            continue
                self.unknown.pop(name)

    async def ask(self, name: str) -> None:
        """Record one node: NOWHERE if it does not exist. Raise as `Api.get` does."""
        query = {"fieldSelector": f"metadata.name={name}"}  # a list, because the Role has no right to get nodes
        found = await self.api.get(NODES, query, METADATA_ONLY_LIST)
        self.put(name, NOWHERE)
        self.created.pop(name, None)
        for node in found.get("items") or ():
            self.see(node)


@lru_cache(maxsize=MOST_NODES)
def _shared(place: NodePlace) -> NodePlace:
    """Return the same object for equal places: thousands of nodes have few different ones."""
    return place
