"""What a report must know of nodes: zone, capacity, and the labels by which prices choose. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from webhook.capacity.provider import capacity_of
from webhook.capacity.recognition import NodeFacts, claims
from webhook.capacity.table import ANY
from webhook.history.prices import label_keys
from webhook.history.record import Capacity
from webhook.ledger.model.pods import ZONE
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.settings import own_spot_labels


class Node(NamedTuple):
    """A node; `labels`: those by which the policy's prices choose."""

    zone: str = ""
    capacity: Capacity = ""
    labels: Mapping[str, str] = {}


UNKNOWN: Final = Node()


def nodes_of(found: Iterable[Json], policy: Policy | None, left_out: LeftOut = RAISING) -> dict[str, Node]:
    """Return the nodes of the API by name; the policy says which labels mark spot nodes of its own, and prices.

    A node that no label marks is on-demand if any provider is known, whose spot nodes would have a label.
    """
    own = {} if policy is None else own_spot_labels(policy)
    spot = {**ANY.spot_labels, **own}
    keys = () if policy is None or policy.prices is None else label_keys(policy.prices.rates)
    nodes, is_claimed = {}, bool(own)
    for one in found:
        with left_out.around("Node", one):
            facts = facts_of(one)
            is_claimed = is_claimed or bool(claims(facts))
            nodes[one["metadata"]["name"]] = Node(
                facts.labels.get(ZONE) or "",
                capacity_of(facts.labels, spot, ANY.on_demand_labels),
                {key: facts.labels[key] for key in keys if key in facts.labels},
            )
    if not is_claimed:
        return nodes
    return {name: node if node.capacity else node._replace(capacity="OnDemand") for name, node in nodes.items()}


def facts_of(node: Json) -> NodeFacts:
    """Return the fields of a node by which its provider is recognised."""
    return NodeFacts(node["metadata"].get("labels") or {}, (node.get("spec") or {}).get("providerID") or "")
