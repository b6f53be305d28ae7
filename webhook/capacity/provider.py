"""A capacity provider: the labels and taints of its spot nodes, and the node affinity that pods need for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from re import Pattern
from typing import Final, Literal

from webhook.objects.problem import Json

# Node labels: the values that mark a node, by key.
Labels = Mapping[str, tuple[str, ...]]

# The values of a label whose presence marks a node: only spot nodes have the key, with the empty value.
PRESENCE: Final = ("",)

# The highest weight of a preferred term: it precedes the author's own preferences, but excludes no node.
WEIGHT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider, or several combined.

    A node is a spot node if it has one of `spot_labels` with one of its values. An on-demand node may have one of
    `on_demand_labels`, or neither. The other fields are for exceptions:

    - `excluded`: the spot labels that `off_spot` uses; None for all of them.
    - `preferred`: the spot labels by which a pod prefers spot nodes, most specific first; None for the first one.
    - `requirable`: whether a pod may require the first of the preferred labels.
    - `preferred_on_demand`: the on-demand labels that a pod must prefer for the provider to launch an on-demand node.
    - `closed_by`: node selector keys beside which the provider rejects any other key, each with the values for which
      it does not.
    - `node_labels`, `provider_id`: all its nodes have one of these label keys, or such a providerID.
    """

    name: str
    spot_labels: Labels
    on_demand_labels: Labels = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    excluded: tuple[str, ...] | None = None
    preferred: tuple[str, ...] | None = None
    requirable: bool = True
    preferred_on_demand: tuple[str, ...] = ()
    closed_by: Labels = field(default_factory=dict)
    node_labels: tuple[str, ...] = ()
    provider_id: Pattern[str] | None = None


def off_spot(provider: Provider) -> list[Json]:
    """Return the nodeSelectorRequirements that together keep a pod off spot nodes.

    The operator is never `In`, because on-demand nodes often lack the label. The caller may edit the returned values,
    as those of the other functions here.
    """
    return [
        {"key": key, "operator": "DoesNotExist"}
        if (values := provider.spot_labels[key]) == PRESENCE
        else {"key": key, "operator": "NotIn", "values": [*values]}
        for key in excluded_keys(provider)
    ]


def on_spot(provider: Provider) -> list[Json]:
    """Return the nodeSelectorRequirements that restrict a pod to spot nodes; empty if the provider supports none.

    A pod that `refuses_on_demand` needs none of them. With a combined provider, the pod's own may be on another key.
    """
    keys = preferred_keys(provider)[:1] if provider.requirable else ()
    return [carries(key, provider.spot_labels[key]) for key in keys]


def spot_preferences(provider: Provider) -> list[Json]:
    """Return the preferredSchedulingTerms for spot nodes: one for each provider that is combined in this one."""
    return [preference(key, provider.spot_labels[key]) for key in preferred_keys(provider)]


def on_demand_preferences(provider: Provider) -> list[Json]:
    """Return the preferredSchedulingTerms that a pod needs beside `off_spot` for its provider to launch a node."""
    return [preference(key, provider.on_demand_labels[key]) for key in provider.preferred_on_demand]


def combine(first: Provider, *others: Provider) -> Provider:
    """Return one provider for a cluster with nodes of several, the most specific one first.

    `off_spot` of it excludes the spot nodes of all of them; `on_spot` requires the label of the first one.
    """
    if not others:
        return first
    every = (first, *others)
    tolerations: list[Json] = []
    for provider in every:
        tolerations += [toleration for toleration in provider.tolerations if toleration not in tolerations]
    return Provider(
        name="+".join(sorted(provider.name for provider in every)),
        spot_labels={key: values for provider in every for key, values in provider.spot_labels.items()},
        on_demand_labels={key: values for provider in every for key, values in provider.on_demand_labels.items()},
        tolerations=tuple(tolerations),
        excluded=tuple(key for provider in every for key in excluded_keys(provider)),
        preferred=tuple(key for provider in every for key in preferred_keys(provider)),
        requirable=bool(on_spot(first)),
        preferred_on_demand=tuple(key for provider in every for key in provider.preferred_on_demand),
        closed_by={key: values for provider in every for key, values in provider.closed_by.items()},
    )


def custom(spot_labels: Mapping[str, Sequence[str]], tolerations: Sequence[Json]) -> Provider:
    """Return the provider that a policy describes.

    Each key of `spot_labels` has at least one value; `[""]` means that the presence of the key marks a spot node.
    """
    return Provider(
        name="custom",
        spot_labels={key: tuple(values) for key, values in spot_labels.items()},
        tolerations=tuple(tolerations),
    )


def capacity_of(labels: Mapping[str, str], spot: Labels, on_demand: Labels) -> Literal["Spot", "OnDemand", ""]:
    """Return the capacity of a node with these labels, by those that mark spot and on-demand nodes; "" if none does."""
    if any(marks(labels, key, values) for key, values in spot.items()):
        return "Spot"
    return "OnDemand" if any(marks(labels, key, values) for key, values in on_demand.items()) else ""


def marks(labels: Mapping[str, str], key: str, values: tuple[str, ...]) -> bool:
    """Return True if a node has a label with one of these values, or with any if its presence is enough."""
    value = labels.get(key)
    return value is not None and (values == PRESENCE or value in values)


def excluded_keys(provider: Provider) -> tuple[str, ...]:
    """Return the keys of the labels that keep a pod off spot nodes."""
    return tuple(provider.spot_labels) if provider.excluded is None else provider.excluded


def preferred_keys(provider: Provider) -> tuple[str, ...]:
    """Return the keys of the labels by which a pod prefers spot nodes, most specific first."""
    return tuple(provider.spot_labels)[:1] if provider.preferred is None else provider.preferred


def preference(key: str, values: tuple[str, ...]) -> Json:
    """Return a preferredSchedulingTerm for nodes with this label."""
    return {"weight": WEIGHT, "preference": {"matchExpressions": [carries(key, values)]}}


def carries(key: str, values: tuple[str, ...]) -> Json:
    """Return the nodeSelectorRequirement of nodes with this label."""
    if values == PRESENCE:
        return {"key": key, "operator": "Exists"}
    return {"key": key, "operator": "In", "values": [*values]}
