"""Prices of a simulation: by a table, or by what the records of history say."""

from typing import Any

import pytest

from tests.unit.insight.simulate.stories import attempt, ended
from webhook.insight.simulate import past, pricing
from webhook.insight.simulate.market import MarketPlace
from webhook.policy.model import Prices, Rate, RateMatch

TABLE = Prices(currency="EUR", rates=(Rate(match=RateMatch(capacity="Spot"), per_hour={"cpu": 1.0}),))
HOUR = 3600


def history(**fields: Any) -> past.Past:
    return past.read([attempt("train", 1, 10, HOUR, **fields), ended("train", 2 * HOUR)])


def test_a_table_prices_the_attempts_of_history_too() -> None:
    (one,) = history().attempts
    found = pricing.by_table(TABLE)
    assert found.currency == "EUR"
    assert found.paid(one) == pytest.approx(1.0)


def test_an_attempt_for_which_the_table_has_no_rate_has_no_price() -> None:
    (one,) = history(capacity="OnDemand").attempts
    assert pricing.by_table(TABLE).paid(one) is None


def test_records_say_what_an_hour_of_a_core_costs() -> None:
    found = pricing.by_records(history(price=0.5, currency="USD"))
    assert found.price is not None
    assert found.price({"cpu": 4.0}, MarketPlace("Spot", "z1", ())) == pytest.approx(2.0)
    assert (found.currency, found.others) == ("USD", 0)


def test_records_without_prices_give_none() -> None:
    found = pricing.by_records(history())
    assert (found.currency, found.price) == ("", None)
