"""What attempts cost: by the records themselves, or by a policy's table of prices. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from webhook.history.prices import GIB, HOUR, per_hour, price, rate_of
from webhook.history.record import AttemptRecord, Capacity
from webhook.history.usage import Row
from webhook.insight.report.known import Known, Price, PriceOf, RowPrice, has_unknown_requests
from webhook.policy.model import Prices

NOTHING: Final = Price(0.0, 0.0)  # of an attempt that did not run
UNKNOWN: Final = Price(None, None)


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

    def price_of(row: Row, capacity: Capacity, names: list[str], currency: str) -> float | None:
        if not row.seconds:
            return 0.0
        if prices is None:
            return None
        if currency == prices.currency and row.priced == row.attempts:
            return row.price
        rate = rate_of(prices.rates, capacity, {})
        amounts = dict(zip(names, row.resources, strict=False))
        amounts["memory"] = amounts.get("memory", 0.0) * GIB
        return None if rate is None else per_hour(rate, amounts) / HOUR

    return price_of


def by_records(currency: str) -> PriceOf:
    """Return the price of attempts as their records have it; one in another currency has none."""

    def price_of(attempt: AttemptRecord) -> Price:
        if not attempt.seconds:
            return NOTHING
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
