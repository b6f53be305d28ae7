"""What an attempt costs, by the policy's table of prices."""

from collections.abc import Mapping, Sequence
from typing import Final

from webhook.policy.model import Rate

GIB: Final = 2**30
HOUR: Final = 3600.0  # seconds


def label_keys(rates: Sequence[Rate]) -> tuple[str, ...]:
    """Return the keys of the node labels by which rates choose, each once."""
    return tuple(dict.fromkeys(key for rate in rates for key in rate.match.node_labels))


def rate_of(rates: Sequence[Rate], capacity: str, labels: Mapping[str, str]) -> Rate | None:
    """Return the first rate that matches a node by capacity (Spot, OnDemand or "") and labels; None if none does."""
    for rate in rates:
        wanted = rate.match.node_labels
        if rate.match.capacity in {None, capacity} and all(labels.get(key) == value for key, value in wanted.items()):
            return rate
    return None


def per_hour(rate: Rate, resources: Mapping[str, float]) -> float:
    """Return the price of an hour of these resources: cpu in cores, memory in bytes, others in their own unit.

    A resource without a price costs nothing.
    """
    return sum(
        price * (resources.get(name, 0.0) / GIB if name == "memory" else resources.get(name, 0.0))
        for name, price in rate.per_hour.items()
    )


def price(
    rates: Sequence[Rate], capacity: str, labels: Mapping[str, str], resources: Mapping[str, float], seconds: float
) -> float | None:
    """Return what an attempt costs, in the policy's currency; None if no rate matches its node."""
    rate = rate_of(rates, capacity, labels)
    return None if rate is None else per_hour(rate, resources) * seconds / HOUR
