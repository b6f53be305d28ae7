"""A capacity provider as a value: which labels and taints mark spot nodes, and what that asks of a pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from re import Pattern
from typing import Final

from webhook.objects.problem import Json

# Node labels by key, each with the values that count.
Labels = Mapping[str, tuple[str, ...]]

# The values of a label that is a mark by its presence: the key stands on spot nodes alone, with the empty value.
PRESENCE: Final = ("",)

# The most that a preferred term can weigh: capacity goes before an author's own preferences, it never outlaws a node.
WEIGHT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One row of the table, or several combined.

    A node is spot if any of `spot_labels` has one of its values there. An on-demand node may carry one of
    `on_demand_labels`, or neither. The rest says where a provider is not content with that:

    - `excluded`: the spot labels that `off_spot` names; None for all of them.
    - `preferred`: the spot labels that send a pod to spot, most specific first; None for the first one.
    - `requirable`: whether the first preferred one may be required.
    - `preferred_on_demand`: the on-demand labels without which the provider launches no on-demand node.
    - `closed_by`: node selector keys beside which the provider refuses any further key, each with the values for
      which it does not.
    - `node_labels`, `provider_id`: its nodes carry one of these label keys; or such a providerID.
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
    """Return the nodeSelectorRequirements, all of them to be met, that keep a pod off spot nodes.

    Never `In`: on-demand is often the absence of a label. As with every function here that returns a list, its values
    are the caller's own.
    """
    return [
        {"key": key, "operator": "DoesNotExist"}
        if (values := provider.spot_labels[key]) == PRESENCE
        else {"key": key, "operator": "NotIn", "values": [*values]}
        for key in excluded_keys(provider)
    ]


def on_spot(provider: Provider) -> list[Json]:
    """Return the nodeSelectorRequirements that hold a pod on spot nodes; none where the provider takes no such word.

    A pod that `refuses_on_demand` already needs none, and in a combined provider its own may be on another key.
    """
    keys = preferred_keys(provider)[:1] if provider.requirable else ()
    return [carries(key, provider.spot_labels[key]) for key in keys]


def spot_preferences(provider: Provider) -> list[Json]:
    """Return the preferredSchedulingTerms that draw a pod to spot nodes: one per combined provider, as any will do."""
    return [preference(key, provider.spot_labels[key]) for key in preferred_keys(provider)]


def on_demand_preferences(provider: Provider) -> list[Json]:
    """Return the preferredSchedulingTerms that must go with `off_spot` for the provider to launch on-demand nodes."""
    return [preference(key, provider.on_demand_labels[key]) for key in provider.preferred_on_demand]


def combine(first: Provider, *others: Provider) -> Provider:
    """Make one provider of several that share a cluster, the most specific one first.

    Off spot is off the spot nodes of each of them; the spot requirement is the first one's.
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
    """Make a provider of what a policy says; each key has at least one value, and `[""]` means the key alone."""
    return Provider(
        name="custom",
        spot_labels={key: tuple(values) for key, values in spot_labels.items()},
        tolerations=tuple(tolerations),
    )


def excluded_keys(provider: Provider) -> tuple[str, ...]:
    """Return the labels by which a pod is kept off spot."""
    return tuple(provider.spot_labels) if provider.excluded is None else provider.excluded


def preferred_keys(provider: Provider) -> tuple[str, ...]:
    """Return the labels by which a pod is sent to spot, most specific first."""
    return tuple(provider.spot_labels)[:1] if provider.preferred is None else provider.preferred


def preference(key: str, values: tuple[str, ...]) -> Json:
    """Return a preferredSchedulingTerm for nodes with this label."""
    return {"weight": WEIGHT, "preference": {"matchExpressions": [carries(key, values)]}}


def carries(key: str, values: tuple[str, ...]) -> Json:
    """Return the nodeSelectorRequirement of nodes with this label."""
    if values == PRESENCE:
        return {"key": key, "operator": "Exists"}
    return {"key": key, "operator": "In", "values": [*values]}
