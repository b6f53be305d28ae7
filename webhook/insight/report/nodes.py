"""What a report must know of nodes: zone, capacity, and the labels by which prices choose. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from webhook.capacity.recognition import NodeFacts, capacities, facts_of
from webhook.history.prices import label_keys
from webhook.history.record import Capacity
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.problem import Json
from webhook.pods.pods import ZONE
from webhook.policy.model import Policy
from webhook.policy.settings import own_spot_labels


class Node(NamedTuple):
    """A node; `labels`: those by which the policy's prices choose."""

    zone: str = ""
    capacity: Capacity = ""
    labels: Mapping[str, str] = {}


UNKNOWN: Final = Node()


def nodes_of(found: Iterable[Json], policy: Policy | None, left_out: LeftOut = RAISING) -> dict[str, Node]:
    """Return the nodes of the API by name; the policy says which labels mark spot nodes of its own, and prices."""
    keys = () if policy is None or policy.prices is None else label_keys(policy.prices.rates)
    facts: dict[str, NodeFacts] = {}
    for one in found:
        with left_out.around("Node", one):
            facts[one["metadata"]["name"]] = facts_of(one)
    known = capacities(facts, {} if policy is None else own_spot_labels(policy))
    return {
        name: Node(one.labels.get(ZONE) or "", known[name], {key: one.labels[key] for key in keys if key in one.labels})
        for name, one in facts.items()
    }
