"""In a world with a known truth, what is predicted of another policy is what then happens."""

from dataclasses import replace
from statistics import mean

import pytest
from msgspec.structs import replace as changed

from tests.unit.insight.simulate.stories import attempt, disrupted, ended, paid, policy, without_prices
from tests.unit.insight.simulate.world import PRICES, Rules, World
from webhook.history.record import AttemptRecord, Record
from webhook.insight.simulate import past, predict
from webhook.insight.simulate.market import MarketPlace
from webhook.insight.simulate.prediction import LEAST_REPLICATIONS, MOST_REPLAYS, Figure, Simulator, figure
from webhook.policy.model import Disruptions, Prices, Rate

A = Rules()
RUNS = 4  # of the truth, of which the first has the luck of the history
WITHIN = 0.1
REPLICATIONS = 20
WORLD = World(1)


@pytest.mark.parametrize(
    "b",
    [
        A,
        Rules(limit=3),
        Rules(limit=20),
        Rules(retriable=frozenset({1, 143})),
        Rules(limit=1, fails_beyond=True),
        Rules(limit=3, retries=1, threshold=-2),
    ],
)
def test_attempts_time_and_money_are_predicted_within_a_tenth(b: Rules) -> None:
    truths = [WORLD.live(b, run)[1] for run in range(RUNS)]

    predicted = predict(WORLD.live(A, run=0)[0], A.policy(), b.policy(), seed=1, replications=REPLICATIONS)

    assert predicted.money is not None
    assert predicted.attempts.mean == pytest.approx(mean(one.attempts for one in truths), rel=WITHIN)
    assert predicted.node_seconds.mean == pytest.approx(mean(one.seconds for one in truths), rel=WITHIN)
    assert predicted.money.mean == pytest.approx(mean(one.money for one in truths), rel=WITHIN)
    assert predicted.complete.mean == pytest.approx(mean(one.complete for one in truths), rel=WITHIN / 2)
    assert predicted.failed.mean + predicted.complete.mean == pytest.approx(len(WORLD.programs))
    assert predicted.mean_time_to_finish.mean == pytest.approx(mean(one.mean_time for one in truths), rel=WITHIN)


def test_a_lower_limit_is_predicted_from_a_higher_one() -> None:
    world = World(4)
    records, _ = world.live(Rules(limit=3), run=0)
    truth = mean(world.live(A, run)[1].money for run in range(1, RUNS + 1))

    predicted = predict(records, Rules(limit=3).policy(), A.policy(), replications=REPLICATIONS)

    assert predicted.money is not None
    assert predicted.money.mean == pytest.approx(truth, rel=WITHIN)


def test_a_world_without_losses_has_none_under_any_policy() -> None:
    world = World(5, jobs=60, life=1e12, on_demand_life=1e12)
    records, truth = world.live(A, run=0)

    predicted = predict(records, A.policy(), Rules(limit=20).policy(), replications=5)

    assert predicted.attempts == Figure(truth.attempts, truth.attempts, truth.attempts)
    assert predicted.complete.mean == truth.complete


def test_replaying_the_policy_in_force_gives_what_was_seen() -> None:
    records, truth = World(6).live(A, run=0)
    simulator = Simulator(past.read(records), A.policy())

    seen = simulator.seen()[""]
    now = simulator.play(A.policy(), 40, anew=True).prediction()
    again = simulator.play(A.policy(), 2).prediction()

    assert (seen.attempts, seen.complete, seen.failed) == (truth.attempts, truth.complete, truth.failed)
    assert seen.money == pytest.approx(truth.money, rel=0.01)
    assert now.attempts.mean == pytest.approx(truth.attempts, rel=0.05)
    assert now.attempts.low < now.attempts.high
    assert again.attempts.mean == truth.attempts


def test_equal_seeds_give_equal_figures_and_other_seeds_others() -> None:
    records, _ = World(7, jobs=60).live(A, run=0)
    b = Rules(limit=5).policy()

    first, again, other = (predict(records, A.policy(), b, seed=seed, replications=5) for seed in (1, 1, 2))

    assert first == again
    assert first.node_seconds != other.node_seconds


def test_the_figures_of_the_namespaces_add_up_to_the_whole() -> None:
    records, _ = World(8, jobs=60).live(A, run=0)

    predicted = predict(records, A.policy(), A.policy(), replications=5)

    assert set(predicted.namespaces) == {"ml", "etl"}
    assert sum(one.attempts.mean for one in predicted.namespaces.values()) == pytest.approx(predicted.attempts.mean)


def test_without_prices_there_is_no_money() -> None:
    records, _ = World(9, jobs=20).live(A, run=0)
    plain = [without_price(one) for one in records]
    policy = A.policy()
    policy = type(policy)(api_version=policy.api_version, kind=policy.kind, profiles=policy.profiles)

    assert predict(plain, policy, policy, replications=2).money is None


def test_prices_are_those_of_the_records_if_no_policy_has_any() -> None:
    records, _ = World(9, jobs=60).live(A, run=0)
    policy = A.policy()
    unpriced = type(policy)(api_version=policy.api_version, kind=policy.kind, profiles=policy.profiles)

    by_records = predict(records, unpriced, unpriced, replications=3).money
    by_table = predict(records, policy, policy, replications=3).money

    assert by_records is not None
    assert by_table is not None
    assert by_records.mean == pytest.approx(by_table.mean, rel=0.01)


def test_an_attempt_whose_record_has_no_price_is_not_taken_to_cost_what_others_do() -> None:
    records = [paid("a", 0.5, "USD"), ended("a", 160), attempt("b", 1, 10, 150), ended("b", 160)]

    simulator = Simulator(past.read(records), without_prices())
    played = simulator.play(without_prices(), 2)

    assert simulator.unpriced == 1
    assert simulator.seen()[""].money is None
    assert (played.has_prices, played.prediction().money) == (False, None)


def test_money_in_two_currencies_is_not_added_up() -> None:
    records = [paid("a", 0.5, "USD"), ended("a", 160), paid("b", 0.5, "USD"), ended("b", 160)]
    records += [paid("c", 100.0, "JPY"), ended("c", 160)]

    simulator = Simulator(past.read(records), without_prices())

    assert (simulator.currency, simulator.pricing.others, simulator.unpriced) == ("USD", 1, 1)
    assert simulator.seen()[""].money is None


def test_an_attempt_that_ran_where_no_rate_applies_has_no_price() -> None:
    on_demand_only = Prices(currency="USD", rates=PRICES.rates[1:])
    records = [attempt("a", 1, 10, 150), ended("a", 160)]

    simulator = Simulator(past.read(records), without_prices(), 0, on_demand_only)
    played = simulator.play(without_prices(), 2)

    assert simulator.unpriced == 1
    assert [one.capacity for one in played.unpriced] == ["Spot"]
    assert played.prediction().money is None


def test_a_policy_that_sends_pods_where_no_rate_applies_has_no_money() -> None:
    spot_only = Prices(currency="USD", rates=PRICES.rates[:1])
    before, after = (policy(disruptions=Disruptions(limit=limit)) for limit in (20, 1))
    records = [disrupted("a", 1, 10, 100), attempt("a", 2, 130, 150), ended("a", 280)]

    simulator = Simulator(past.read(records), before, 0, spot_only)

    assert simulator.seen()[""].money is not None
    assert simulator.play(before, 2).prediction().money is not None
    assert simulator.play(after, 2).prediction().money is None


def test_capacity_that_ran_without_prices_does_not_cost_what_other_capacity_does() -> None:
    records = [paid("a", 0.5, "USD"), ended("a", 160)]
    running = attempt("running", 1, 10, 150, capacity="OnDemand", placement="OnDemand")

    alone = Simulator(past.read(records), without_prices()).pricing.price
    beside = Simulator(past.read([*records, running]), without_prices()).pricing.price

    assert alone is not None
    assert beside is not None
    on_demand = MarketPlace("OnDemand", "z1", ())
    assert alone({"cpu": 1.0}, on_demand) == pytest.approx(12.0)
    assert beside({"cpu": 1.0}, on_demand) is None


def test_a_large_history_is_replayed_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    records, _ = World(10, jobs=40).live(A, run=0)
    simulator = Simulator(past.read(records), A.policy())

    assert simulator.replications(200) == 200
    monkeypatch.setattr("webhook.insight.simulate.prediction.MOST_REPLAYS", 20)
    assert simulator.replications(200) == LEAST_REPLICATIONS
    assert MOST_REPLAYS >= 100 * 10_000


def test_a_figure_has_eight_of_ten_replications_between_low_and_high() -> None:
    assert figure(range(101)) == Figure(50.0, 10, 90)


def without_price(record: Record) -> Record:
    """Return a record without its price."""
    return changed(record, price=None, currency="") if isinstance(record, AttemptRecord) else record


def test_the_world_has_what_the_predictions_are_tested_on() -> None:
    """Interruptions, bugs, flaky programs: else the comparison would say little."""
    _, few = WORLD.live(A, run=0)
    _, many = WORLD.live(replace(A, limit=20), run=0)

    assert many.attempts > few.attempts * 1.2
    assert few.failed > 10


def test_history_and_prediction_have_the_same_prices() -> None:
    records, truth = World(9, jobs=60).live(A, run=0)
    dear = Prices(currency="EUR", rates=(Rate(per_hour={"cpu": 1.0}),))

    simulator = Simulator(past.read(records), A.policy(), 0, dear)
    seen, again = simulator.seen()[""].money, simulator.play(A.policy(), 1).prediction().money

    assert simulator.currency == "EUR"
    assert again is not None
    assert seen == pytest.approx(again.mean, rel=0.01)
    assert again.mean > 10 * truth.money
