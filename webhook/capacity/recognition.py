"""Recognise the providers of a cluster's nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from webhook.capacity.provider import Labels, Provider, capacity_of, combine, excluded_keys
from webhook.capacity.table import ANY, GKE, KARPENTER, PREEMPTIBLE, PROVIDERS, ROWS
from webhook.objects.problem import Json

PREEMPTIBLE_TOO: Final = combine(GKE, PREEMPTIBLE)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The fields of a Node by which its provider is recognised: metadata.labels and spec.providerID.

    `memory`: the bytes that it has for pods (status.allocatable.memory); 0 if they were not read.
    """

    labels: Mapping[str, str]
    provider_id: str = ""
    memory: int = 0


def recognise(nodes: Iterable[NodeFacts], *, has_karpenter_node_pools: bool) -> Provider | None:
    """Return the provider of these nodes, combined if there are several; None if no provider is recognised.

    Karpenter is recognised by its NodePools, also without a node. No provider needs a spot node to be recognised.
    """
    names = {KARPENTER.name} if has_karpenter_node_pools else set()
    for node in nodes:
        names |= claims(node)
    rows = [row for row in ROWS if row.name in names]
    return combine(*rows) if rows else None


def provider_named(name: str, recognised: Provider | None) -> Provider:
    """Return the provider that a policy names; for GKE with preemptible VMs if `recognised` contains such nodes."""
    if name == GKE.name and recognised is not None and PREEMPTIBLE.spot_labels.keys() & excluded_keys(recognised):
        return PREEMPTIBLE_TOO
    return ANY if name == ANY.name else PROVIDERS[name]


def capacities(
    nodes: Mapping[str, NodeFacts], own_spot: Labels = MappingProxyType({})
) -> dict[str, Literal["Spot", "OnDemand", ""]]:
    """Return the capacity of nodes, by their names; empty if it is not known.

    A node that no label marks is on-demand if any provider is known, whose spot nodes would have a label. `own_spot`:
    the labels of spot nodes that a policy describes.
    """
    spot = {**ANY.spot_labels, **own_spot}
    is_claimed = bool(own_spot) or any(map(claims, nodes.values()))
    rest: Literal["OnDemand", ""] = "OnDemand" if is_claimed else ""
    return {name: capacity_of(one.labels, spot, ANY.on_demand_labels) or rest for name, one in nodes.items()}


def claims(node: NodeFacts) -> set[str]:
    """Return the names of the providers that a node belongs to.

    A providerID names the cloud, not the service on it. So it is used only for a node without a known label: OpenShift
    on `gce://` is not GKE. A self-managed cluster on `gce://` or `azure://` without such labels counts as GKE or AKS.
    """
    labels = node.labels
    return {row.name for row in ROWS if any(key in labels for key in row.node_labels)} or {
        row.name for row in ROWS if row.provider_id and row.provider_id.match(node.provider_id)
    }


def facts_of(node: Json) -> NodeFacts:
    """Return the fields of a node by which its provider is recognised."""
    return NodeFacts((node.get("metadata") or {}).get("labels") or {}, (node.get("spec") or {}).get("providerID") or "")
