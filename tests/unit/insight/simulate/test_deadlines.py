"""Deadlines in a replay: nobody is late under them where on-demand nodes would not be, and they are cheaper."""

from typing import Final

import msgspec
import pytest

from tests.unit.insight.simulate.stories import attempt, disrupted, ended, policy
from tests.unit.insight.simulate.world import BEGIN, stamp
from webhook.history.record import AttemptRecord, Record
from webhook.insight.simulate import past, result, sweep
from webhook.insight.simulate.prediction import Figure, Outlook, Simulator
from webhook.insight.simulate.replay import Said
from webhook.policy.model import Deadlines, Disruptions, Duration, Placement, Policy

HOUR: Final = 3600.0
WORK: Final = 6 * HOUR
SAID: Final = Said(checkpoint=1800, late=2.0)
START: Final = Duration(60)
LIMIT_ONE: Final = policy()


def history() -> list[Record]:
    """Return fifty Jobs of six hours; each was disrupted once, after two hours, and then ran on-demand."""
    found: list[Record] = []
    for number in range(50):
        name = f"job-{number}"
        found.append(disrupted(name, 1, 10, 2 * HOUR))
        found.append(attempt(name, 2, 2 * HOUR + 40, WORK, capacity="OnDemand", placement="OnDemand"))
        found.append(ended(name, 2 * HOUR + WORK + 50))
    return found


def with_deadline(factor: float) -> Policy:
    return policy(placement=Placement(provider="gke"), deadline=Deadlines(factor=factor, start=START))


def outlook(under: Policy, said: Said = SAID) -> Outlook:
    return result.plain(Simulator(past.read(history()), LIMIT_ONE, said=said).play(under, 20).prediction())


def late(found: Outlook) -> float:
    assert found.late is not None
    return found.late.high


@pytest.mark.parametrize("factor", [1.0, 1.25, 1.5, 2.0])
def test_no_workload_is_late_under_a_deadline_that_is_not_later(factor: float) -> None:
    assert late(outlook(with_deadline(factor))) == 0


def test_more_time_is_cheaper_and_without_a_deadline_spot_nodes_alone_make_workloads_late() -> None:
    some, more = (outlook(with_deadline(factor)) for factor in (1.25, 2.0))
    spot_alone = policy(
        placement=Placement(provider="gke", spot="Require", interruptible_failure_threshold=0),
        disruptions=Disruptions(limit=1000),
    )
    alone = outlook(spot_alone, Said(late=2.0))
    assert some.spot_seconds.mean < more.spot_seconds.mean
    assert some.money is not None
    assert more.money is not None
    assert more.money.mean < some.money.mean
    assert late(alone) > 0


def test_a_program_with_checkpoints_does_not_begin_anew() -> None:
    anew, continued = (outlook(LIMIT_ONE, Said(checkpoint=checkpoint)).node_seconds.mean for checkpoint in (None, 1800))
    assert anew == pytest.approx(50 * (2 * HOUR + WORK), rel=0.01)
    assert continued == pytest.approx(50 * (WORK + 1800), rel=0.01)


def test_a_sweep_proposes_the_cheapest_deadline_under_which_nothing_is_late() -> None:
    simulator = Simulator(past.read(history()), LIMIT_ONE, said=SAID)
    tried = sweep.policies(sweep.read("deadline.factor=null,1,1.5,2,4"), with_deadline(1.0), None)
    points = [
        sweep.point(value, result.plain(simulator.play(changed, 10).prediction()))
        for value, changed, _ in tried
        if changed is not None
    ]
    best = sweep.best_of(points, "money")
    assert best is not None
    assert points[best].value == 2
    cheaper = points[-1]
    assert cheaper.outlook is not None
    assert cheaper.outlook.late is not None
    assert cheaper.outlook.late.mean > 0


def test_a_program_that_has_continued_in_history_has_the_work_of_all_its_attempts() -> None:
    records: list[Record] = []
    for name in map(str, range(10)):
        records += [disrupted(name, 1, 10, 10 * HOUR), attempt(name, 2, 10 * HOUR + 40, 2 * HOUR)]
        records.append(ended(name, 12 * HOUR + 50))
    simulator = Simulator(past.read(records), LIMIT_ONE, said=Said(checkpoint=1800, late=2.0))
    found = result.plain(simulator.play(LIMIT_ONE, 10).prediction())
    assert found.node_seconds.mean == pytest.approx(10 * 12 * HOUR, rel=0.01)
    assert simulator.seen()[""].late == 0


def test_a_deadline_ends_the_wait_for_a_spot_node_that_history_shows() -> None:
    required = Placement(provider="gke", spot="Require")
    records: list[Record] = []
    for name in map(str, range(10)):
        waits = attempt(name, 1, 10 * HOUR, HOUR)
        assert isinstance(waits, AttemptRecord)
        records += [msgspec.structs.replace(waits, created=stamp(BEGIN)), ended(name, 11 * HOUR + 10)]
        soon = attempt(f"on-demand-{name}", 1, 60, HOUR, capacity="OnDemand", placement="OnDemand")
        records += [soon, ended(f"on-demand-{name}", HOUR + 70)]
    simulator = Simulator(past.read(records), policy(placement=required), said=Said(late=2.0))
    assert simulator.seen()[""].late == 10
    in_time = policy(placement=required, deadline=Deadlines(factor=2.0, start=START))
    assert late(result.plain(simulator.play(in_time, 10).prediction())) == 0


def test_what_is_late_does_not_depend_on_the_policy_that_is_tried() -> None:
    simulator = Simulator(past.read(history()), LIMIT_ONE, said=Said(late=1.2))
    early, late_start = (
        simulator.play(policy(deadline=Deadlines(start=Duration(start))), 3).prediction().late for start in (60, 3600)
    )
    assert early == late_start


def test_jobs_that_a_deadline_has_sent_on_demand_are_not_pinned_there() -> None:
    found: list[Record] = []
    for name in map(str, range(20)):
        found += [attempt(name, 1, 10, HOUR, capacity="OnDemand", placement="OnDemand"), ended(name, HOUR + 20)]
    found += history()
    simulator = Simulator(past.read(found), with_deadline(1.0), said=SAID)
    assert not any(task.fixed for one in simulator.workloads for task in one.tasks)


def test_the_best_value_fails_nothing_to_be_in_time_and_takes_no_notice_of_one_in_a_thousand() -> None:
    def point(value: int, complete: float, missed: float, money: float) -> sweep.Point:
        known = {"complete": complete, "failed": 1000 - complete, "late": missed}
        names = Outlook.__struct_fields__
        figures = Outlook(**{name: Figure(one, one, one) for name in names for one in [known.get(name, 0.0)]})
        return sweep.Point(value=value, outlook=figures, money_per_complete=money)

    assert sweep.best_of([point(1, 1000, 5, 40), point(2, 992, 0, 41)], "money") == 0
    assert sweep.best_of([point(1, 1000, 3.02, 62), point(2, 1000, 3.04, 39)], "money") == 1
    assert sweep.best_of([point(1, 1000, 0, 62), point(2, 1000, 30, 39)], "money") == 0


def test_the_assumptions_say_what_an_author_would_have_to_write() -> None:
    simulator = Simulator(past.read(history()), LIMIT_ONE, said=SAID)
    played = simulator.play(with_deadline(2.0), 1)
    said = result.assumptions(simulator, with_deadline(2.0), played)
    assert any("deadline.factor names it" in one for one in said)
    assert any("an end costs it 1800 s of its work at most" in one for one in said)
