"""What is learnt of machines: how often they are lost, when, where, and which pods fall together."""

from math import inf
from random import Random
from statistics import mean

import pytest

from tests.unit.insight.simulate.stories import attempt, disrupted
from tests.unit.insight.simulate.world import BEGIN
from webhook.history.record import Record
from webhook.insight.simulate import market, past
from webhook.insight.simulate.market import STRENGTHS, Hazard, Market

HOUR = 3600.0


def learnt(*records: Record) -> Market:
    return market.learn(past.read(records).attempts, {})


def test_the_rate_is_losses_over_the_time_in_which_they_could_happen() -> None:
    pods = [disrupted("a", number, number * HOUR, HOUR / 2) for number in range(50)]
    pods += [attempt("b", number, number * HOUR, HOUR) for number in range(50)]

    rates = learnt(*pods).rates["Spot", "z1"]

    assert rates.mean == pytest.approx(50 / (75 * HOUR), rel=0.05)


def test_steady_losses_make_one_rate_for_all_hours() -> None:
    pods = [disrupted("a", number, 2 * number * HOUR, HOUR) for number in range(60)]
    pods += [attempt("b", number, number * HOUR / 2, HOUR) for number in range(240)]

    assert learnt(*pods).rates["Spot", "z1"].strength == STRENGTHS[-1]


def test_a_wave_is_found_at_its_time_and_in_its_zone() -> None:
    pods = [attempt("b", number, number * HOUR, HOUR, zone=zone) for number in range(96) for zone in ("z1", "z2")]
    pods += [disrupted("a", number, 40 * HOUR, 600 + 20 * number, zone="z1") for number in range(30)]
    pods += [disrupted("c", number, number * 9 * HOUR, HOUR, zone="z2") for number in range(10)]

    found = learnt(*pods)
    hazard = found.rates["Spot", "z1"].draw(Random(1))  # noqa: S311
    calm, stormy = hazard.loss(BEGIN + 5 * HOUR, 0.5), hazard.loss(BEGIN + 40 * HOUR, 0.5)

    assert stormy - (BEGIN + 40 * HOUR) < (calm - (BEGIN + 5 * HOUR)) / 5
    assert found.rates["Spot", "z2"].strength > found.rates["Spot", "z1"].strength


def test_few_losses_leave_the_rate_open() -> None:
    few = [disrupted("a", number, number * HOUR, HOUR) for number in range(2)]
    many = [disrupted("b", number, number * HOUR, HOUR) for number in range(200)]

    def spread(*records: Record) -> float:
        drawn = [learnt(*records).rates["Spot", "z1"].draw(Random(seed)).later for seed in range(50)]  # noqa: S311
        return (max(drawn) - min(drawn)) / mean(drawn)

    assert spread(*few) > 3 * spread(*many)


def test_the_pods_of_a_lost_node_are_one_loss() -> None:
    together = [
        disrupted("a", number, hour * HOUR, 600, node=f"n{hour}")
        for hour in range(10)
        for number in (3 * hour, 3 * hour + 1)
    ]
    found = learnt(*together)

    assert found.together["Spot"]
    assert found.losses["Spot"] == 10


def test_pods_that_are_preempted_one_by_one_are_as_many_losses() -> None:
    pods = []
    for hour in range(10):
        pods.append(disrupted("a", hour, hour * HOUR, 600, node=f"n{hour}"))
        pods.append(attempt("b", hour, hour * HOUR, 1800, node=f"n{hour}"))

    assert not learnt(*pods).together["Spot"]


def test_a_loss_comes_when_the_expected_losses_have_added_up_to_the_luck() -> None:
    hazard = Hazard(begin=0.0, width=10.0, sums=[0.0, 1.0, 1.0, 3.0], later=0.5)

    assert hazard.loss(0.0, 0.5) == 5.0
    assert hazard.loss(5.0, 0.4) == pytest.approx(9.0)
    assert hazard.loss(5.0, 1.5) == pytest.approx(25.0)
    assert hazard.loss(29.0, 0.2 + 1.0) == pytest.approx(32.0)
    assert hazard.loss(40.0, 1.0) == 42.0
    assert Hazard(0.0, 10.0, [0.0, 0.0], 0.0).loss(3.0, 1.0) == inf


def test_pods_on_spot_nodes_are_counted_by_what_their_placement_asked_for() -> None:
    pods = past.read([attempt("a", 1, 0, 60), attempt("a", 2, 0, 60, capacity="OnDemand")]).attempts

    found = market.learn(pods, {"a//1": "Prefer", "a//2": "Prefer"})

    assert found.landed == {"Prefer": (1, 2)}


def test_a_pod_runs_where_others_did_that_began_at_about_the_same_time() -> None:
    early = [attempt("a", number, number, 60, zone="z1") for number in range(40)]
    late = [attempt("b", number, 10 * HOUR + number, 60, zone="z2") for number in range(40)]

    found = learnt(*early, *late)

    assert {found.place("Spot", BEGIN, luck / 10).zone for luck in range(10)} == {"z1"}
    assert {found.place("Spot", BEGIN + 11 * HOUR, luck / 10).zone for luck in range(10)} == {"z2"}
    assert found.place("OnDemand", BEGIN, 0.5).zone == ""
