"""The first rate that matches a node decides what an attempt on it costs."""

import pytest

from webhook.history.usage import GIB, price
from webhook.policy.model import Rate, RateMatch

GPU = {"node.kubernetes.io/instance-type": "p4d.24xlarge"}
RATES = (
    Rate(match=RateMatch(capacity="Spot", node_labels=GPU), per_hour={"cpu": 0.01, "nvidia.com/gpu": 1.0}),
    Rate(match=RateMatch(capacity="Spot"), per_hour={"cpu": 0.02}),
    Rate(match=RateMatch(capacity="OnDemand"), per_hour={"cpu": 0.03, "memory": 0.004}),
)
POD = {"cpu": 4.0, "memory": 8.0 * GIB, "nvidia.com/gpu": 2.0}


@pytest.mark.parametrize(
    ("capacity", "labels", "hourly"),
    [
        ("Spot", GPU, 4 * 0.01 + 2 * 1.0),
        ("Spot", {}, 4 * 0.02),
        ("OnDemand", GPU, 4 * 0.03 + 8 * 0.004),
        ("", {}, None),
    ],
)
def test_an_hour_costs_what_the_first_matching_rate_says(
    capacity: str, labels: dict[str, str], hourly: float | None
) -> None:
    expected = None if hourly is None else pytest.approx(hourly)
    assert price(RATES, capacity, labels, POD, 3600.0) == expected


def test_half_an_hour_costs_half() -> None:
    assert price(RATES, "Spot", {}, POD, 1800.0) == pytest.approx(0.04)
