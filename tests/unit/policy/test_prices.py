"""The prices of a policy: what contradicts itself, and what would never decide."""

import json

import pytest

from tests.unit.policy.test_parse import policy, problems, with_profile
from webhook.history.usage import label_keys
from webhook.objects.problem import Json


def prices_problems(rates: list[Json]) -> list[str]:
    prices = json.dumps({"currency": "USD", "rates": rates})
    return problems(f"{with_profile('{}')}prices: {prices}\n")


def rate(capacity: str | None = None, **labels: str) -> Json:
    match: Json = {"nodeLabels": labels} if capacity is None else {"capacity": capacity, "nodeLabels": labels}
    return {"match": match, "perHour": {"cpu": 1}}


def test_prices_choose_by_at_most_five_labels() -> None:
    five = [rate(**{key: "x"}) for key in "abcde"]
    prices = json.dumps({"currency": "USD", "rates": [*five, *[rate("Spot", a=value) for value in "yz"]]})
    found = policy(f"{with_profile('{}')}prices: {prices}\n").prices
    assert found is not None
    assert label_keys(found.rates) == tuple("abcde")
    assert prices_problems([*five, rate(f="x")]) == [
        "prices.rates: choose by 6 labels: a, b, c, d, e, f; must choose by at most 5"
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (rate(), rate("Spot")),
        (rate("Spot"), rate("Spot", gpu="a")),
        (rate(gpu="a"), rate("OnDemand", gpu="a", disk="b")),
        (rate("Spot", gpu="a"), rate("Spot", gpu="a")),
    ],
)
def test_a_rate_that_matches_no_node_is_a_problem(first: Json, second: Json) -> None:
    what = "has rate 2, which matches no node: rate 1 matches all of its nodes before it"
    other = rate("OnDemand", other="x")
    assert prices_problems([other, first, second]) == [f"prices.rates: {what}; move rate 2 up, or remove it"]


def test_a_rate_with_a_problem_hides_no_other_problem_and_makes_none() -> None:
    wrong = {"match": {"capacity": "spot"}, "perHour": {"cpu": 1}}
    assert prices_problems([rate("Spot"), wrong, rate("Spot")]) == [
        'prices.rates[1].match.capacity: is "spot"; must be OnDemand or Spot (did you mean Spot?)',
        (
            "prices.rates: has rate 2, which matches no node: rate 0 matches all of its nodes before it; "
            "move rate 2 up, or remove it"
        ),
    ]


def test_all_that_is_wrong_with_prices_is_said_at_once() -> None:
    prices = "{currency: usd, rates: [{perHour: {cpu: -1, memory: much}}, {match: {}}]}"
    assert [one.partition(":")[0] for one in problems(f"{with_profile('{}')}prices: {prices}\n")] == [
        "prices.currency",
        "prices.rates[0].perHour.cpu",
        "prices.rates[0].perHour.memory",
        "prices.rates[1].perHour",
        "prices.rates",
    ]
