"""What the figures of a report are sums of, and what attempts cost."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from webhook.history.record import AttemptRecord, Capacity
from webhook.history.usage import GIB, HOUR, UsedRow, per_hour, price, rate_of
from webhook.insight.report.known import (
    NOTHING,
    UNKNOWN,
    Counted,
    Known,
    Price,
    PriceOf,
    RowPrice,
    has_unknown_requests,
)
from webhook.insight.report.model import Figures, Usage
from webhook.pods.outcomes import SPOT_UNAVAILABLE
from webhook.policy.causes import CAUSES, LOSSES, Cause, Loss
from webhook.policy.model import Prices

# A number of attempts, and what they used together: seconds, resource-seconds, and money if it is known.
Parts = tuple[int, float, Mapping[str, float], float | None]


def by_policy(prices: Prices) -> PriceOf:
    """Return the price of attempts by the rates of a policy."""

    def price_of(attempt: AttemptRecord) -> Price:
        if not attempt.seconds:
            return NOTHING
        if has_unknown_requests(attempt):
            return UNKNOWN
        seconds, resources, labels = attempt.seconds, attempt.resources, attempt.labels
        return Price(
            price(prices.rates, attempt.capacity, labels, resources, seconds),
            price(prices.rates, "OnDemand", labels, resources, seconds),
        )

    return price_of


def row_by_policy(prices: Prices | None) -> RowPrice:
    """Return the price of a row of an account: the one that it has, or else that of its resources by capacity alone."""

    def price_of(row: UsedRow, capacity: Capacity, names: list[str], currency: str) -> Price:
        if not row.seconds:
            return NOTHING
        if prices is None:
            return UNKNOWN
        amounts = dict(zip(names, row.resources, strict=False))
        amounts["memory"] = amounts.get("memory", 0.0) * GIB

        def by_rate_of(capacity: Capacity) -> float | None:
            rate = rate_of(prices.rates, capacity, {})
            return None if rate is None else per_hour(rate, amounts) / HOUR

        is_priced = currency == prices.currency and row.priced == row.attempts
        return Price(row.price if is_priced else by_rate_of(capacity), by_rate_of("OnDemand"))

    return price_of


def by_records(currency: str) -> PriceOf:
    """Return the price of attempts as their records have it; one in another currency has none."""

    def price_of(attempt: AttemptRecord) -> Price:
        if not attempt.seconds:
            return Price(0.0, None)
        return Price(attempt.price if attempt.currency == currency else None, None)

    return price_of


def unpriced(_attempt: AttemptRecord) -> Price:
    """Return no price."""
    return UNKNOWN


def currencies_of(attempts: Iterable[AttemptRecord]) -> list[str]:
    """Return the currencies of priced attempts, that of most attempts first."""
    found = Counter(attempt.currency for attempt in attempts if attempt.price is not None and attempt.currency)
    return [currency for currency, _ in found.most_common()]


def currency_of(known: Iterable[Known]) -> tuple[str, list[str]]:
    """Return the currency of most priced attempts, empty if none has a price, and a note if there are others."""
    found = currencies_of(attempt for one in known for attempt in one.attempts)
    if not found:
        return "", []
    currency, *others = found
    if not others:
        return currency, []
    named = ", ".join(others)
    return currency, [f"attempts that are priced in {named} have no price here: a report has one currency, {currency}"]


def loss_of(cause: Cause, reason: str) -> Loss | None:
    """Return to what an attempt was lost; None if it was not."""
    return "Capacity" if cause == "Disruption" and reason == SPOT_UNAVAILABLE else CAUSES[cause].loss


def resource_seconds(resources: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return what requests of these resources use in some seconds; memory, in bytes, becomes GiB-seconds."""
    return {name: (size / GIB if name == "memory" else size) * seconds for name, size in resources.items()}


def importance_by(used: Usage) -> Callable[[Usage], float]:
    """Return by what losses are compared: their price, or else the mean of the shares that they are of each resource.

    `used`: by all attempts. So the parts of a sum add up to it, and a GPU-hour, which is a larger share of all
    GPU-hours, outweighs a core-hour. A resource that `used` lacks decides nothing: sums of an account may not have what
    attempts of its pods have.
    """
    if used.price is not None:
        return lambda one: one.price or 0.0

    totals = {name: total for name, total in used.resources.items() if total}
    if not totals:
        return lambda one: one.seconds / used.seconds if used.seconds else 0.0
    return lambda one: sum(one.resources.get(name, 0.0) / total for name, total in totals.items()) / len(totals)


class Sum:
    """A sum of usage; `price` is None once the price of a part is not known."""

    __slots__ = ("attempts", "price", "resources", "seconds")

    def __init__(self) -> None:
        self.attempts = 0
        self.seconds = 0.0
        self.resources: dict[str, float] = {}
        self.price: float | None = 0.0

    def add(self, number: int, seconds: float, resources: Mapping[str, float], price: float | None) -> None:
        """Add what a number of attempts used together."""
        self.attempts += number
        self.seconds += seconds
        for name, used in resources.items():
            self.resources[name] = self.resources.get(name, 0.0) + used
        self.price = None if price is None or self.price is None else self.price + price

    def merge(self, other: "Sum") -> None:
        """Add another sum."""
        self.add(other.attempts, other.seconds, other.resources, other.price)

    def usage(self, *, priced: bool) -> Usage:
        """Return the sum; without a price unless the report has prices."""
        price = self.price if priced else None
        return Usage(attempts=self.attempts, seconds=self.seconds, resources=self.resources, price=price)


def _part(one: Parts, share: float) -> Parts:
    number, seconds, resources, price = one
    of_resources = {name: used * share for name, used in resources.items()}
    return number, seconds * share, of_resources, None if price is None else price * share


@dataclass(slots=True)
class Tally:
    """The sums of a group of workloads."""

    workloads: int = 0
    complete: int = 0
    failed: int = 0
    used: Sum = field(default_factory=Sum)
    spot: Sum = field(default_factory=Sum)
    on_demand: Sum = field(default_factory=Sum)
    elsewhere: Sum = field(default_factory=Sum)
    lost: Sum = field(default_factory=Sum)
    kept: Sum = field(default_factory=Sum)
    lost_to: dict[Loss, Sum] = field(default_factory=lambda: {loss: Sum() for loss in LOSSES})
    causes: Counter[Cause] = field(default_factory=Counter)
    saved_retries: Sum = field(default_factory=Sum)
    saved_on_spot: float = 0.0
    compared: bool = False  # whether the on-demand price of any attempt on spot is known

    def add(self, attempt: AttemptRecord, used: Mapping[str, float], price: Price) -> None:
        """Add an attempt, which runs if it has no end; `used`: its resource-seconds."""
        loss = loss_of(attempt.cause, attempt.reason) if attempt.end else None
        kept = attempt.saved / attempt.seconds if attempt.seconds else 0.0
        self.add_sums(attempt.capacity, loss, (1, attempt.seconds, used, price.paid), kept)
        if attempt.end:
            self.causes[attempt.cause] += 1
        self.compare(attempt.capacity, price)

    def compare(self, capacity: Capacity, price: Price) -> None:
        """Add what attempts on spot have saved, if it is known what they would have cost on-demand."""
        if capacity == "Spot" and price.paid is not None and price.on_demand is not None:
            self.saved_on_spot += price.on_demand - price.paid
            self.compared = True

    def add_counted(self, one: Counted) -> None:
        """Add attempts that are only known as a sum; all of them were lost."""
        self.add_sums(one.capacity, one.loss, (one.number, one.seconds, one.resources, one.price.paid), one.kept)
        self.compare(one.capacity, one.price)
        if one.number:
            self.causes[one.cause] += one.number

    def add_sums(self, capacity: Capacity, loss: Loss | None, one: Parts, kept: float) -> None:
        """Add attempts to each sum that has them; `loss`: None if they were not lost; `kept`: the share that counts."""
        self.used.add(*one)
        {"Spot": self.spot, "OnDemand": self.on_demand, "": self.elsewhere}[capacity].add(*one)
        if loss is not None:
            self.lost.add(*one)
            self.lost_to[loss].add(*one)
            if kept:
                self.kept.add(*_part(one, min(1.0, kept)))

    def merge(self, other: "Tally") -> None:
        """Add the sums of another group."""
        self.workloads += other.workloads
        self.complete += other.complete
        self.failed += other.failed
        for name in ("used", "spot", "on_demand", "elsewhere", "lost", "kept", "saved_retries"):
            getattr(self, name).merge(getattr(other, name))
        for loss in LOSSES:
            self.lost_to[loss].merge(other.lost_to[loss])
        self.causes += other.causes
        self.saved_on_spot += other.saved_on_spot
        self.compared |= other.compared

    def figures(self, *, priced: bool) -> Figures:
        """Return the sums as a report has them."""
        return Figures(
            workloads=self.workloads,
            complete=self.complete,
            failed=self.failed,
            used=self.used.usage(priced=priced),
            spot=self.spot.usage(priced=priced),
            on_demand=self.on_demand.usage(priced=priced),
            elsewhere=self.elsewhere.usage(priced=priced),
            lost=self.lost.usage(priced=priced),
            lost_to={loss: total.usage(priced=priced) for loss, total in self.lost_to.items()},
            kept=self.kept.usage(priced=priced),
            causes=dict(self.causes),
            saved_retries=self.saved_retries.usage(priced=priced),
            saved_on_spot=self.saved_on_spot if priced and self.compared else None,
        )
