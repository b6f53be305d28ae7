"""Checks whether placement can act: by which labels it tells spot nodes, how many there are, and which it overlooks.

Pure.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from webhook.capacity.provider import Provider, capacity_of
from webhook.capacity.recognition import NodeFacts, facts_of, recognise
from webhook.capacity.table import ANY
from webhook.doctor.finding import Diagnosis, ok, warning
from webhook.doctor.snapshot import Snapshot
from webhook.objects.problem import listed
from webhook.policy.model import Policy
from webhook.rules.pods.placement import provider_of

# Words in the keys or values of the labels by which clouds and people mark spot nodes.
WORDS: Final = ("spot", "preemptible", "interruptible")
HOW: Final = "kubectl get nodes --show-labels   # then set placement.provider in the policy"


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield how many spot nodes each provider of the policy sees, and what keeps placement from acting."""
    if snapshot.nodes is None or snapshot.policy is None:
        return
    nodes = list(map(facts_of, snapshot.nodes))
    recognised = recognise(nodes, has_karpenter_node_pools=bool(snapshot.node_pools))
    for title, (profiles, provider) in _providers_in(snapshot.policy, recognised).items():
        if provider is None:
            what = f"no provider is recognised from {len(nodes)} nodes, so {_profiles_of(profiles)} place no pod"
            yield warning("Placement", f"{what}; name the provider in the policy, or describe it (custom)", HOW)
            continue
        numbers = Counter(capacity_of(node.labels, provider.spot_labels, {}) or "OnDemand" for node in nodes)
        seen = f"{numbers['Spot']} spot nodes and {numbers['OnDemand']} others, for {_profiles_of(profiles)}"
        yield ok("Placement", f"provider {title}: {seen}")
        yield from _overlooked(nodes, provider, title)


def _providers_in(policy: Policy, recognised: Provider | None) -> dict[str, tuple[list[str], Provider | None]]:
    """Return by the name of each provider the profiles that use it, and the provider; None if it is not recognised."""
    found: dict[str, tuple[list[str], Provider | None]] = {}
    for name, profile in policy.profiles.items():
        provider = provider_of(profile, recognised)
        found.setdefault("auto" if provider is None else provider.name, ([], provider))[0].append(name)
    return found


def _overlooked(nodes: list[NodeFacts], provider: Provider, title: str) -> Iterator[Diagnosis]:
    """Yield a warning for each label that seems to mark spot nodes, and by which a provider does not tell them."""
    found: Counter[str] = Counter()
    for node in nodes:
        if capacity_of(node.labels, provider.spot_labels, {}) != "Spot":
            found.update(f"{key}={value}" for key, value in node.labels.items() if _is_of_spot(key, value))
    for label, number in sorted(found.items()):
        what = f"{number} nodes have the label {label}, and are no spot nodes for provider {title}"
        yield warning("Placement", f"{what}: if they are, describe them (custom)", HOW)


def _is_of_spot(key: str, value: str) -> bool:
    if capacity_of({key: value}, ANY.spot_labels, {}) == "Spot":
        return True
    if value.lower() in {"false", "no", "0", "on-demand", "od", "standard", "regular"}:
        return False
    words = f"{key}={value}".lower()
    return any(word in words for word in WORDS)


def _profiles_of(names: list[str]) -> str:
    return f"profile{'s' * (len(names) > 1)} {listed(sorted(names))}"
