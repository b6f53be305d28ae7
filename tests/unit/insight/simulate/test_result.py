"""What is printed: figures, workloads that would fare worse and why, and what is assumed."""

import re
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from tests.unit.insight.simulate.stories import attempt, crashed, disrupted, ended, killed, paid, policy, without_prices
from tests.unit.insight.simulate.world import PRICES, Rules, World
from tools.generate.docs import fields
from webhook.history.record import Record
from webhook.insight.simulate import past, render, result, sweep
from webhook.insight.simulate.prediction import Simulator
from webhook.insight.simulate.result import Simulation
from webhook.objects import columns
from webhook.policy.model import (
    Disruptions,
    Duration,
    Evictions,
    FailureRule,
    Kueue,
    Match,
    Next,
    Placement,
    Policy,
    Prices,
    Profile,
    Wave,
)


def simulated(records: list[Record], after: Policy, before: Policy | None = None, times: int = 10) -> Simulation:
    simulator = Simulator(past.read(records), before or policy())
    now, then = (simulator.play(one, times) for one in (simulator.policy, after))
    return result.simulation(simulator, after, now, then)


def text(simulation: Simulation) -> str:
    return "\n".join(columns.lines(render.parts(simulation)))


LONG: list[Any] = [attempt("long", 1, 10, 5000), ended("long", 5010)]


def test_a_workload_that_would_fail_is_named_with_the_rule() -> None:
    (worse,) = simulated(LONG, policy(attempt_timeout=Duration(1000))).worse

    assert (worse.workload, worse.fails) == ("long", 1.0)
    assert worse.why == "an exceeded deadline after its last retry (3 allowed)"


def lost_then_on_demand(name: str) -> list[Record]:
    """Return a workload that lost a spot node, and was complete on an on-demand one after 3000 s."""
    moved = attempt(name, 2, 1000, 2000, capacity="OnDemand", placement="OnDemand")
    return [disrupted(name, 1, 10, 900), moved, ended(name, 3000)]


def test_a_workload_that_would_take_twice_as_long_is_named_with_what_slows_it() -> None:
    records = [record for number in range(5) for record in lost_then_on_demand(f"slow-{number}")]

    found = simulated(records, policy(disruptions=Disruptions(limit=50)), times=60)

    assert {one.workload for one in found.worse} == {f"slow-{number}" for number in range(5)}
    assert all(one.slower >= 2 for one in found.worse)
    assert all(re.fullmatch(r"it is disrupted \d+\.\d times instead of 1", one.why) for one in found.worse)


def test_a_workload_is_compared_with_what_was_seen_and_not_with_a_draw() -> None:
    after = policy(attempt_timeout=Duration(1000))
    simulator = Simulator(past.read(LONG), policy())
    unlucky = then = simulator.play(after, 5)

    assert [one.workload for one in result.simulation(simulator, after, unlucky, then).worse] == ["long"]


@pytest.mark.parametrize("seed", range(1, 5))
def test_no_workload_fares_worse_under_a_policy_that_decides_the_same(seed: int) -> None:
    records, _ = World(seed).live(Rules(limit=3), run=0)
    before = Rules(limit=3).policy()
    same = msgspec.structs.replace(before.profiles["default"], start_timeout=Duration(10**6))
    after = msgspec.structs.replace(before, profiles={"default": same})
    simulator = Simulator(past.read(records), before, seed)
    now, then = simulator.play(before, 5, anew=True), simulator.play(after, 5)

    assert result.simulation(simulator, after, now, then).worse == []


def test_no_workload_fares_worse_under_its_own_profile_even_if_the_replay_misses_what_happened() -> None:
    too_short = policy(attempt_timeout=Duration(1000))

    found = simulated(LONG, too_short, too_short)

    assert (found.total.seen.complete, found.total.then.complete.mean) == (1, 0)
    assert found.worse == []


def test_it_is_said_how_many_attempts_and_places_have_no_price() -> None:
    on_demand_only = msgspec.structs.replace(policy(), prices=Prices(currency="USD", rates=PRICES.rates[1:]))

    found = simulated(LONG, on_demand_only, on_demand_only)

    assert (found.total.seen.money, found.total.then.money) == (None, None)
    said = " | ".join(found.assumptions)
    assert "1 attempt without a known price: no money" in said
    assert "1 place (capacity, zone and node labels) without a known price: no money" in said
    assert "money" not in text(found).partition("this assumes")[0]


def test_it_is_said_how_many_prices_in_other_currencies_are_ignored() -> None:
    records = [
        paid("a", 0.5, "USD"),
        ended("a", 160),
        paid("b", 0.5, "USD"),
        ended("b", 160),
        paid("running", 9, "EUR"),
    ]

    found = simulated(records, without_prices(), without_prices())

    assert (found.currency, found.total.seen.money) == ("USD", 1.0)
    assert "1 attempt priced in another currency than USD: these prices are ignored" in found.assumptions


def test_a_workload_that_failed_anyway_does_not_fare_worse() -> None:
    bug = [crashed("bug", 1, 10, 100, 1, "fatal"), ended("bug", 110, "Failed")]

    assert simulated(bug, policy(attempt_timeout=Duration(10))).worse == []


def test_figures_stand_beside_what_was_seen_and_what_the_policy_in_force_gives() -> None:
    records, _ = World(1, jobs=60).live(Rules(), run=0)

    found = simulated(records, Rules(limit=5).policy(), Rules().policy())

    assert found.total.seen.attempts == sum(one.seen.attempts for one in found.namespaces)
    assert found.total.now.attempts.low <= found.total.now.attempts.mean <= found.total.now.attempts.high
    said = text(found)
    assert "replaying the policy that was in force gives" in said
    assert "NAMESPACE   FIGURE" in said
    assert "money, USD" in said
    assert "\netl " in said


def test_what_is_assumed_is_said() -> None:
    records = [
        disrupted("a", 1, 10, 70),
        attempt("a", 2, 100, 60),
        ended("a", 160),
        crashed("bug", 1, 10, 100, 9, "fatal"),
        ended("bug", 110, "Failed"),
        killed("hungry", 1, 10, 100, "fatal"),
        ended("hungry", 110, "Failed"),
        attempt("running", 1, 10, 100),
    ]

    said = " | ".join(simulated(records, policy()).assumptions)

    assert "spot nodes are lost as often as in this history, whatever the policy: 1 losses" in said
    assert "fewer than 10, so that little is known" in said
    assert "no attempt ran on on-demand nodes" in said
    assert "1 workload had an interrupted attempt that took longer" in said
    assert "2 of 3 pods never succeeded" in said
    assert "nothing was retried after exit code 9" in said
    assert "1 pod killed for memory" in said
    assert "1 workload had not ended" in said


def test_fields_that_are_not_simulated_are_named() -> None:
    after = policy(
        placement=Placement(provider="gke", wave=Wave()),
        on_failure=(FailureRule(match=Match(same_node=2), next=Next(avoid="Node")),),
        kueue=Kueue(evictions=Evictions(limit=3)),
    )

    said = simulated(LONG, after).assumptions

    ignored = "placement.wave, avoid: Node, match.sameNode, kueue.evictions.limit"
    assert f"profile default: {ignored} are not simulated" in said


# What `simulate` obeys: it asks the functions that read these fields in a cluster, or reads them itself.
OBEYED = {
    "actions",
    *("retries.limit", "retries.total", "retries.onExceed", "retries.default"),
    *(
        "failurePolicy.inject",
        "failurePolicy.retriableExitCodes",
        "failurePolicy.coupled",
        "failurePolicy.settleWithin",
    ),
    *("failurePolicy.unknownExit", "failurePolicy.manyPods", "failurePolicy.jobWide"),
    *("disruptions.action", "disruptions.limit", "disruptions.onExceed", "disruptions.per"),
    *("backOff.perIndex", "backOff.disruptions", "backOff.singlePod"),
    *("placement.interruptibleFailureThreshold", "placement.spot", "placement.spotWait"),
    *("deadline.factor", "deadline.limit", "deadline.start"),
    *("onFailure", "attemptTimeout", "startTimeout"),
}
# What could change nothing of what `simulate` knows: docs/how-to/simulate.md says what it takes as given.
WITHOUT_EFFECT = {
    *("failurePolicy.onFailureRestartPolicy", "failurePolicy.absentRestartPolicy"),  # history has no restartPolicy
    *("failurePolicy.hardware", "unreachableTimeout"),  # nodes fail as they did
    *("placement.provider", "placement.custom", "placement.protect"),  # so does the market
    "kueue.evictions.onExceed",  # has an effect with kueue.evictions.limit alone
    *("requestedRetry.retryable", "requestedRetry.placement"),  # nobody requests a retry
    *("environment", "diagnostics.lastWords", "allowSkip", "message"),
}


def test_each_field_of_a_profile_is_simulated_or_said_not_to_be() -> None:
    said = {re.split(r": | ", what)[0] for what in result.NOT_SIMULATED}
    paths = [path for path, _ in fields(inspect.type_info(Profile), "")]
    for path in paths:
        assert path in OBEYED | WITHOUT_EFFECT | said, (
            f"{path}: if simulate does not obey it, add it to NOT_SIMULATED in webhook/insight/simulate/result.py, "
            "else to a set above this test"
        )
    assert (OBEYED | WITHOUT_EFFECT) - {*paths} == set()


def swept(*limits: int, problem: str = "") -> str:
    """Return what a sweep of the disruption limit prints; `problem`: that of one more value."""
    records, _ = World(1, jobs=60).live(Rules(), run=0)
    simulator = Simulator(past.read(records), Rules().policy())
    points = [
        sweep.point(limit, result.plain(simulator.play(Rules(limit=limit).policy(), 5).prediction()))
        for limit in limits
    ]
    points += [sweep.Point(value=None, problems=[problem])] if problem else []
    drawn = sweep.Curve(
        field="disruptions.limit",
        since="",
        until="",
        workloads=60,
        replications=5,
        seed=0,
        currency="USD",
        measure="time",
        points=points,
        best=sweep.best_of(points, "time"),
        assumptions=["all is well"],
    )
    return "\n".join(columns.lines(render.curve(drawn)))


def test_a_sweep_is_drawn_with_its_best_value_marked() -> None:
    said = swept(1, 20, problem="no policy")

    assert "\n1 * " in said
    assert "best by time to finish" in said
    assert "disruptions.limit=null is no policy: no policy" in said
    assert "- all is well" in said
    assert said.count("#") > 24


def test_a_sweep_without_any_difference_has_no_best_value() -> None:
    said = swept(20, 20, 20)

    assert "disruptions.limit makes no difference here: all values are as good" in said
    assert "best by" not in said


def test_figures_that_differ_are_not_printed_alike() -> None:
    assert (render.lasting(65), render.lasting(80)) == ("1m05s", "1m20s")


def test_the_workloads_that_fare_worse_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(result, "LISTED", 2)
    records: list[Record] = []
    for number in range(5):
        records += [attempt(f"long-{number}", 1, 10, 5000), ended(f"long-{number}", 5010)]

    found = simulated(records, policy(attempt_timeout=Duration(1000)))

    assert (len(found.worse), found.worse_in_all) == (2, 5)
    assert "5 workloads would fare worse:" in text(found)
