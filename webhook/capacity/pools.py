"""Which nodes a cluster has, by pools: whether one of them could take a pod.

A pool is what the nodes have in common that one label names. Of each label the values on its nodes are kept, apart from
each other: a pool may seem to take a pod that no node of it takes, and never the other way round.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.capacity.recognition import NodeFacts
from webhook.objects.problem import Json

# The label that names a node's pool, on GKE, EKS, AKS and ACK.
NAMES: Final = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.alibabacloud.com/nodepool-id",
)
# What makes nodes for the pods that wait, with whatever labels those ask for: Karpenter, Ocean and Cast AI, by a label
# of their nodes, and GKE's auto-provisioning, which is Autopilot's too, by the names of its pools.
MADE_FOR_PODS: Final = (
    "karpenter.sh/nodepool",
    "spotinst.io/node-lifecycle",
    "provisioner.cast.ai/managed-by",
)
AUTO_PROVISIONED: Final = "nap-"
MOST_POOLS: Final = 50
MOST_LABELS: Final = 100  # of one pool
MOST_VALUES: Final = 50  # of one label

# The values that a label has on the nodes of a pool, None on those without it; None of all: too many to tell.
Values = set[str | None] | None


@dataclass(frozen=True, slots=True)
class Pool:
    """The values of each label on a pool's nodes; a label that is not named is on none of them."""

    labels: Mapping[str, Values]

    def may_have(self, key: str, operator: str, values: Iterable[str]) -> bool:
        """Return True if a node of the pool may meet a nodeSelectorRequirement."""
        found = self.labels.get(key, {None})
        if found is None:
            return True
        match operator:
            case "In":
                return not found.isdisjoint(values)
            case "NotIn":
                return not found.issubset(values)
            case "Exists":
                return found != {None}
            case "DoesNotExist":
                return None in found
            case _:
                return True

    def may_take(self, selector: Json, terms: Iterable[list[Json]]) -> bool:
        """Return True if a node of the pool may meet a nodeSelector, and one of the terms, if there are any."""
        if not all(self.may_have(key, "In", (value,)) for key, value in selector.items()):
            return False
        alternatives = list(terms)
        return not alternatives or any(all(map(self.meets, term)) for term in alternatives)

    def meets(self, expression: Json) -> bool:
        """Return True if a node of the pool may meet an expression."""
        return self.may_have(
            expression.get("key") or "", expression.get("operator") or "", expression.get("values") or ()
        )


class Census:
    """Counts nodes, one by one, by pools."""

    def __init__(self) -> None:
        self.known = True  # whether pools can be told: not where nodes are made for pods, or there are too many
        self.nodes: dict[str, int] = {}
        self.labels: dict[str, dict[str, dict[str, int]]] = {}  # of each pool, the nodes by label and value

    def add(self, node: NodeFacts) -> None:
        """Count a node."""
        name = next((node.labels[key] for key in NAMES if key in node.labels), "")
        if name.startswith(AUTO_PROVISIONED) or any(key in node.labels for key in MADE_FOR_PODS):
            self.known = False
        if not self.known:
            return
        self.nodes[name] = self.nodes.get(name, 0) + 1
        labels = self.labels.setdefault(name, {})
        for key, value in node.labels.items():
            values = labels.setdefault(key, {})
            if len(values) <= MOST_VALUES:
                values[value] = values.get(value, 0) + 1
        self.known = len(self.nodes) <= MOST_POOLS and len(labels) <= MOST_LABELS

    def pools(self) -> dict[str, Pool] | None:
        """Return the pools by name; None where nothing can be said."""
        if not self.known:
            return None
        return {
            name: Pool({key: values_of(one, count) for key, one in self.labels[name].items()})
            for name, count in self.nodes.items()
        }


def values_of(counted: Mapping[str, int], nodes: int) -> Values:
    """Return the values of one label, with None where some of so many nodes have it not."""
    if len(counted) > MOST_VALUES:
        return None
    return {*counted} if sum(counted.values()) == nodes else {*counted, None}
