"""Which price an attempt has."""

import pytest
from msgspec import structs

from tests.unit.insight.report.facts import attempt, workload
from webhook.insight.report import sums
from webhook.insight.report.known import Price, PriceOf
from webhook.policy.model import Prices, Rate, RateMatch

PRICES = Prices(
    currency="USD",
    rates=(
        Rate(match=RateMatch(capacity="Spot"), per_hour={"cpu": 0.25}),
        Rate(match=RateMatch(capacity="OnDemand"), per_hour={"cpu": 1.0}),
    ),
)


def test_a_policy_says_what_an_attempt_cost_and_what_it_would_have_cost_on_demand() -> None:
    price_of = sums.by_policy(PRICES)
    assert price_of(attempt(hours=2, capacity="Spot")) == Price(2.0, 8.0)
    assert price_of(attempt(hours=2, capacity="OnDemand")) == Price(8.0, 8.0)
    assert price_of(attempt(hours=2)) == Price(None, 8.0)


@pytest.mark.parametrize("price_of", [sums.by_policy(PRICES), sums.by_records("USD")])
def test_an_attempt_that_did_not_run_costs_nothing(price_of: PriceOf) -> None:
    assert price_of(attempt("Disruption", hours=0)).paid == 0.0


def test_records_alone_do_not_say_what_spot_saved_not_even_of_an_attempt_that_did_not_run() -> None:
    assert sums.by_records("USD")(attempt("Disruption", hours=0)).on_demand is None


def test_an_attempt_without_requests_costs_nothing_unless_its_pod_is_gone_and_could_have_had_some() -> None:
    price_of = sums.by_policy(PRICES)
    nothing = attempt(capacity="Spot", resources={})
    assert price_of(nothing) == Price(0.0, 0.0)
    assert price_of(structs.replace(nothing, uid="")) == Price(None, None)


def test_records_have_their_own_price_in_the_currency_of_the_report() -> None:
    price_of = sums.by_records("USD")
    assert price_of(attempt(price=0.5, currency="USD")) == Price(0.5, None)
    assert price_of(attempt(price=0.5, currency="EUR")) == Price(None, None)
    assert sums.unpriced(attempt(price=0.5, currency="USD")) == Price(None, None)


def test_the_currency_of_most_attempts_is_that_of_the_report() -> None:
    dollars = [attempt(number=number, price=1.0, currency="USD") for number in range(2)]
    assert sums.currency_of([workload(attempt())]) == ("", [])
    assert sums.currency_of([workload(*dollars)]) == ("USD", [])
    currency, (note,) = sums.currency_of([workload(*dollars, attempt(price=1.0, currency="EUR"))])
    assert currency == "USD"
    assert note.startswith("attempts that are priced in EUR have no price here")
