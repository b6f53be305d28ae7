"""The node pools of a cluster, and whether one of them could run a pod.

A pool is the nodes with the same value of a label that names the pool. For each label the values on the pool's nodes
are kept, but not their combinations. So a pool may seem to fit a pod although no node of it does, but never the
reverse.
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
# Autoscalers that create nodes for pending pods, with the labels that these require: Karpenter, Ocean and Cast AI,
# recognised by a label of their nodes, and GKE's auto-provisioning (also in Autopilot), by the prefix of its pools.
MADE_FOR_PODS: Final = (
    "karpenter.sh/nodepool",
    "spotinst.io/node-lifecycle",
    "provisioner.cast.ai/managed-by",
)
AUTO_PROVISIONED: Final = "nap-"
MOST_POOLS: Final = 50
MOST_LABELS: Final = 100  # of one pool
MOST_VALUES: Final = 50  # of one label

# The values of a label on the nodes of a pool; None in the set stands for nodes without the label. None instead of a
# set: there are too many values.
Values = set[str | None] | None


@dataclass(frozen=True, slots=True)
class Pool:
    """The values of each label on a pool's nodes; labels that are not in `labels` are on no node.

    `memory`: the most bytes that a node has for pods; 0 if that was not read.
    """

    labels: Mapping[str, Values]
    memory: int = 0

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
        """Return True if a node of the pool may meet a nodeSelector and, if there are terms, at least one of them."""
        if not all(self.may_have(key, "In", (value,)) for key, value in selector.items()):
            return False
        alternatives = list(terms)
        return not alternatives or any(all(map(self.meets, term)) for term in alternatives)

    def meets(self, expression: Json) -> bool:
        """Return True if a node of the pool may meet an expression of a nodeSelectorTerm."""
        return self.may_have(
            expression.get("key") or "", expression.get("operator") or "", expression.get("values") or ()
        )


class Census:
    """Counts nodes and their labels by pool; add the nodes one by one."""

    def __init__(self) -> None:
        self.known = True  # False if nodes are created for pending pods, or there are too many pools or labels
        self.nodes: dict[str, int] = {}  # number of nodes by pool
        self.labels: dict[str, dict[str, dict[str, int]]] = {}  # number of nodes by pool, label and value
        self.memory: dict[str, int] = {}  # the most of a node by pool

    def add(self, node: NodeFacts) -> None:
        """Count a node."""
        name = next((node.labels[key] for key in NAMES if key in node.labels), "")
        if name.startswith(AUTO_PROVISIONED) or any(key in node.labels for key in MADE_FOR_PODS):
            self.known = False
        if not self.known:
            return
        self.nodes[name] = self.nodes.get(name, 0) + 1
        self.memory[name] = max(node.memory, self.memory.get(name, 0))
        labels = self.labels.setdefault(name, {})
        for key, value in node.labels.items():
            values = labels.setdefault(key, {})
            if len(values) <= MOST_VALUES:
                values[value] = values.get(value, 0) + 1
        self.known = len(self.nodes) <= MOST_POOLS and len(labels) <= MOST_LABELS

    def pools(self) -> dict[str, Pool] | None:
        """Return the pools by name; None if they do not show which pods could run."""
        if not self.known:
            return None
        return {
            name: Pool({key: values_of(one, count) for key, one in self.labels[name].items()}, self.memory[name])
            for name, count in self.nodes.items()
        }


def values_of(counted: Mapping[str, int], nodes: int) -> Values:
    """Return the values of one label; with None among them if not all of `nodes` nodes have the label."""
    if len(counted) > MOST_VALUES:
        return None
    return {*counted} if sum(counted.values()) == nodes else {*counted, None}
