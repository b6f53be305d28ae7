"""What an attempt used, and what that costs by the policy's table of prices."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from webhook.history.amounts import Amounts
from webhook.history.record import Capacity
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


MOST_RESOURCES: Final = 5  # that an account lists
LONGEST_NAME: Final = 63  # characters of a resource's name in an account
LARGEST: Final = 10.0**18
DIGITS: Final = 6  # behind the point, to which each sum is rounded

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]


class Used(NamedTuple):
    """What one attempt used.

    - `seconds`: from its start to its end. `resources`: what the pod requested. `capacity`: that of its node.
    - `price`: what it cost in `currency`; None if no rate matches its node, or without prices.
    """

    seconds: float = 0.0
    resources: Amounts = ()
    capacity: Capacity = ""
    price: float | None = None
    currency: str = ""


class UsedRow(msgspec.Struct, array_like=True):
    """What several attempts used; written as a list, to save room.

    - `attempts`: how many. `seconds`: of all of them. `priced`: how many have a price. `price`: of these.
    - `resources`: resource-seconds in the order of the names beside the rows: `cpu` in core-seconds, `memory` in
      GiB-seconds, others in their own unit times seconds. A row may have fewer of them than there are names.
    """

    attempts: Count = 0
    seconds: Amount = 0.0
    priced: Count = 0
    price: Amount = 0.0
    resources: Annotated[list[Amount], msgspec.Meta(max_length=MOST_RESOURCES)] = msgspec.field(default_factory=list)

    def add(self, other: "UsedRow") -> None:
        """Add another row, with the same names of resources."""
        self.attempts = min(self.attempts + other.attempts, 2**31 - 1)
        self.seconds = total(self.seconds, other.seconds)
        self.priced = min(self.priced + other.priced, 2**31 - 1)
        self.price = total(self.price, other.price)
        longer, shorter = self.resources, other.resources
        if len(longer) < len(shorter):
            longer, shorter = shorter, longer
        self.resources = [
            total(amount, shorter[place]) if place < len(shorter) else amount for place, amount in enumerate(longer)
        ]

    def take(self, other: "UsedRow") -> None:
        """Take off another row, with the same names of resources, that was added before."""
        self.attempts = max(0, self.attempts - other.attempts)
        self.seconds = max(0.0, total(self.seconds, -other.seconds))
        self.priced = max(0, self.priced - other.priced)
        self.price = max(0.0, total(self.price, -other.price))
        for place, amount in enumerate(other.resources[: len(self.resources)]):
            self.resources[place] = max(0.0, total(self.resources[place], -amount))


# By cause and capacity. The capacity "" has what is not known, and what was added up to save room; so has the cause "".
Rows = dict[str, dict[str, UsedRow]]


def add(rows: Rows, cause: str, used: Used, names: list[str], times: int = 1) -> None:
    """Add `times` attempts that each used as much; append new names of resources to `names` if they have room."""
    names += [
        name
        for name, _ in used.resources
        if name not in names and len(name) <= LONGEST_NAME and len(name) == len(name.encode())
    ][: max(0, MOST_RESOURCES - len(names))]
    seconds = used.seconds * times
    of_each = {name: amount / GIB if name == "memory" else amount for name, amount in used.resources}
    amounts = [total(of_each.get(name, 0.0) * seconds) for name in names]
    while amounts and not amounts[-1]:
        amounts.pop()
    row = UsedRow(
        times, total(seconds), 0 if used.price is None else times, total((used.price or 0.0) * times), amounts
    )
    rows.setdefault(cause, {}).setdefault(used.capacity, UsedRow()).add(row)


def move(rows: Rows, before: str, after: str, used: Used, names: list[str]) -> None:
    """Count an attempt that used as much under the cause `after` instead of `before`."""
    row = rows.get(before, {}).get(used.capacity)
    if row is None or not row.attempts:  # it was added up with others, to save room
        return
    alone: Rows = {}
    add(alone, after, used, names)
    row.take(alone[after][used.capacity])
    add(rows, after, used, names)


def forget_prices(rows: Rows) -> None:
    """Forget what the attempts cost: they are priced in another currency from now on."""
    for row in every(rows):
        row.priced, row.price = 0, 0.0


def every(rows: Rows) -> list[UsedRow]:
    """Return all rows."""
    return [row for by_capacity in rows.values() for row in by_capacity.values()]


def rounded(price: float | None) -> float | None:
    """Return a price as it is summed up; None for None."""
    return None if price is None else total(price)


def total(*amounts: float) -> float:
    """Return a sum, rounded; at most LARGEST."""
    return round(min(sum(amounts, 0.0), LARGEST), DIGITS)
