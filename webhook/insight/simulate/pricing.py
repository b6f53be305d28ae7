"""What attempts cost, and what an hour of a pod costs: by a table of prices, or by the records of history. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from webhook.history import usage
from webhook.history.record import AttemptRecord
from webhook.insight.report.sums import currencies_of
from webhook.insight.simulate.market import MarketPlace
from webhook.insight.simulate.past import Past, PastAttempt
from webhook.insight.simulate.replay import Price
from webhook.policy.model import Prices

ALL: Final = "*"  # any capacity, or any zone

Key = tuple[str, str]  # capacity and zone


class Pricing(NamedTuple):
    """Where prices come from: a table, or records.

    - `currency`: the one of all money; empty if there are no prices. `price`: of an hour of a pod; None without prices.
    - `is_table`: whether a table says what an attempt of history cost; else its record does.
    - `others`: how many attempts are priced in another currency, which is ignored.
    """

    currency: str
    price: Price | None
    is_table: bool
    others: int = 0

    def paid(self, attempt: PastAttempt) -> float | None:
        """Return what an attempt of history cost; None if that is not known."""
        if not attempt.seconds:
            return 0.0
        if not self.is_table:
            return _recorded(attempt.record, self.currency)
        place = MarketPlace(attempt.capacity, attempt.record.zone, tuple(sorted(attempt.record.labels.items())))
        hourly = None if self.price is None else self.price(attempt.record.resources, place)
        return None if hourly is None else hourly * attempt.seconds / usage.HOUR


def by_table(table: Prices) -> Pricing:
    """Return the prices of a table."""
    rates = table.rates

    def price(resources: Mapping[str, float], place: MarketPlace) -> float | None:
        rate = usage.rate_of(rates, place.capacity, dict(place.labels))
        return None if rate is None else usage.per_hour(rate, resources)

    return Pricing(table.currency, price, is_table=True)


def by_records(history: Past) -> Pricing:
    """Return the prices that the records have, in the currency of most of them."""
    currency = next(iter(currencies_of(one.record for one in history.attempts)), "")
    others = sum(one.record.price is not None and one.record.currency != currency for one in history.attempts)
    return Pricing(currency, _learnt(history.attempts, currency), is_table=False, others=others)


def _recorded(record: AttemptRecord, currency: str) -> float | None:
    return record.price if record.currency == currency else None


def _learnt(attempts: Iterable[PastAttempt], currency: str) -> Price | None:
    """Return what an hour of a core costs by the records, on average for each capacity and zone; None without prices.

    A pod without cpu counts as one of a core. Where attempts ran and none of them has a price, no price is known.
    """
    money: defaultdict[Key, float] = defaultdict(float)
    hours: defaultdict[Key, float] = defaultdict(float)
    ran: set[Key] = set()
    for one in attempts:
        if not one.seconds:
            continue
        keys = _keys_of(one.capacity, one.record.zone)
        ran.update(keys)
        if (paid := _recorded(one.record, currency)) is not None:
            for key in keys:
                money[key] += paid
                hours[key] += _cores(one.record.resources) * one.seconds / usage.HOUR
    if not hours:
        return None
    hourly = {key: money[key] / hours[key] for key in hours}

    def price(resources: Mapping[str, float], place: MarketPlace) -> float | None:
        known = hourly.get(next(key for key in _keys_of(place.capacity, place.zone) if key in ran))
        return None if known is None else known * _cores(resources)

    return price


def _keys_of(capacity: str, zone: str) -> tuple[Key, ...]:
    """Return the places whose mean price a pod may have, the most exact first."""
    return (capacity, zone), (capacity, ALL), (ALL, ALL)


def _cores(resources: Mapping[str, float]) -> float:
    return resources.get("cpu") or 1.0
