"""Single workloads, replayed without chance: what each field of a policy makes of them."""

from typing import Any

import pytest

from tests.unit.insight.simulate.stories import GIB, attempt, crashed, disrupted, ended, killed, policy
from webhook.history.record import Record
from webhook.insight.simulate import past, predict
from webhook.insight.simulate.prediction import Prediction, Simulator
from webhook.insight.simulate.replay import FIRST_BACK_OFF, LONGEST_BACK_OFF
from webhook.policy.model import (
    Delay,
    Disruptions,
    Duration,
    FailurePolicy,
    FailureRule,
    Match,
    MemoryGrowth,
    Next,
    Placement,
    Policy,
    Retries,
)

A = policy()
BUG = [crashed("bug", 1, 10, 100, 1, "fatal"), ended("bug", 110, "Failed")]
RETRIED = policy(failure_policy=FailurePolicy(retriable_exit_codes=(1, 143)))


def predicted(records: list[Record], b: Policy, a: Policy = A, replications: int = 40) -> Prediction:
    return predict(records, a, b, replications=replications)


def test_a_bug_costs_one_attempt_where_it_is_fatal() -> None:
    found = predicted(BUG, A)

    assert (found.attempts.mean, found.failed.mean) == (1, 1)


def test_whether_a_bug_comes_again_is_open_if_nobody_has_seen_it() -> None:
    found = predicted(BUG, RETRIED)

    assert (found.attempts.low, found.attempts.high) == (2, 4)
    assert 0 < found.complete.mean < 1


def test_a_bug_that_came_again_in_other_workloads_comes_again() -> None:
    others: list[Record] = []
    for name in map(str, range(30)):
        others += [crashed(name, number, 100 * number, 50, 1, "retry") for number in range(1, 4)]
        others.append(ended(name, 500, "Failed"))

    found = predicted([*BUG, *others], RETRIED, RETRIED)

    assert found.complete.mean < 2


def test_a_crash_that_was_mended_by_a_retry_is_mended_again() -> None:
    flaky = [crashed("flaky", 1, 10, 100, 143, "retry"), attempt("flaky", 2, 130, 200), ended("flaky", 330)]

    found = predicted(flaky, policy(retries=Retries(default=1)))

    assert (found.attempts.mean, found.complete.mean) == (2, 1)
    assert found.node_seconds.mean == pytest.approx(300, abs=1)


def test_a_crash_fails_where_no_retry_is_allowed() -> None:
    flaky = [crashed("flaky", 1, 10, 100, 143, "retry"), attempt("flaky", 2, 130, 200), ended("flaky", 330)]

    assert predicted(flaky, policy(retries=Retries(default=0, limit=0))).failed.mean == 1


def test_the_back_off_doubles_and_a_delay_comes_on_top() -> None:
    records = [
        *(crashed("flaky", number, 100 * number, 10, 143, "retry") for number in range(1, 4)),
        attempt("flaky", 4, 1000, 100),
        ended("flaky", 1100),
    ]
    delay = (FailureRule(match=Match(exit_codes=(143,)), next=Next(delay=Delay(initial=Duration(1000)))),)

    plain, delayed = predicted(records, A), predicted(records, policy(on_failure=delay))

    assert plain.attempts.mean == delayed.attempts.mean == 4
    assert delayed.mean_time_to_finish.mean - plain.mean_time_to_finish.mean > 2500
    assert (FIRST_BACK_OFF, LONGEST_BACK_OFF) == (10, 600)


def test_more_memory_mends_a_kill_for_memory_and_costs_more() -> None:
    grown = policy(
        on_failure=(FailureRule(match=Match(cause="OOMKilled"), next=Next(memory=MemoryGrowth(limit="8Gi"))),)
    )
    records = [
        killed("hungry", 1, 10, 100, "retry"),
        attempt("hungry", 2, 150, 200, resources={"cpu": 1.0, "memory": 2 * GIB}),
        ended("hungry", 350),
        killed("poor", 1, 10, 100, "fatal"),
        ended("poor", 110, "Failed"),
    ]

    before, after = predicted(records, A, grown), predicted(records, grown, grown)

    assert before.failed.mean == 2
    assert after.complete.mean == 2
    assert after.attempts.mean == 4


def test_an_attempt_that_takes_longer_than_the_timeout_ends_then() -> None:
    found = predicted([attempt("long", 1, 10, 5000), ended("long", 5010)], policy(attempt_timeout=Duration(1000)))

    assert (found.failed.mean, found.attempts.mean) == (1, 4)
    assert found.node_seconds.mean == pytest.approx(4000, abs=1)


def test_a_workload_that_asks_for_more_than_is_allowed_is_denied() -> None:
    records = [attempt("greedy", 1, 10, 100), ended("greedy", 110, retries=8)]

    simulator = Simulator(past.read(records), A)
    played = simulator.play(policy(retries=Retries(limit=5)), 2)

    assert played.prediction().attempts.mean == 0
    assert set(played.tallies[0].why) == {"it is denied: 8 retries exceed the limit of 5 in profile 'default'"}


def test_a_pod_that_never_starts_fails_by_the_start_timeout_or_waits_for_ever() -> None:
    records = [
        attempt("broken", 1, 10, 0, "NeverStarted", cost="fatal"),
        ended("broken", 900, "Failed"),
    ]
    simulator = Simulator(past.read(records), policy(start_timeout=Duration(900)))

    with_timeout = simulator.play(policy(start_timeout=Duration(60)), 1)
    without = simulator.play(policy(), 1)

    assert set(with_timeout.tallies[0].why) == {"its containers do not start within startTimeout"}
    assert set(without.tallies[0].why) == {"its pods wait for ever"}


def test_pods_that_must_run_on_spot_wait_no_longer_than_spot_wait() -> None:
    placement = Placement(provider="gke", spot="Require", spot_wait=Duration(10))
    records = [
        attempt("short", 1, 610, 0, "Disruption", reason="SpotUnavailable", cost="disruption", capacity=""),
        attempt("short", 2, 640, 100, placement="OnDemand", capacity="OnDemand"),
        ended("short", 740),
    ]

    found = predicted(records, policy(placement=placement), policy(placement=placement))

    assert found.complete.mean == 1
    assert found.spot_seconds.mean < found.node_seconds.mean


def test_with_a_time_for_disruptions_a_long_job_goes_back_to_spot_nodes() -> None:
    hour = 3600.0
    records = [disrupted("a", number, 10 + number * hour, hour - 60) for number in range(6)]
    records += [attempt("a", 7, 10 + 6 * hour, hour), ended("a", 7 * hour)]
    simulator = Simulator(past.read(records), A)
    spot = {
        per: simulator.play(policy(disruptions=Disruptions(limit=2, per=per)), 30, anew=True).prediction().spot_seconds
        for per in (None, Duration(600))
    }
    assert spot[Duration(600)].mean > spot[None].mean


@pytest.mark.parametrize(
    "end",
    [
        pytest.param({"reason": "", "cost": "fatal"}, id="of an attempt"),
        pytest.param({"reason": "Stopped", "cost": "none"}, id="of the Job"),
    ],
)
def test_a_deadline_that_ended_a_job_ends_it_again(end: dict[str, str]) -> None:
    cause = "DeadlineExceeded" if end["cost"] == "fatal" else "Other"
    why = "PodFailurePolicy" if end["cost"] == "fatal" else "DeadlineExceeded"
    records = [attempt("a", 1, 10, 500, cause, **end), ended("a", 510, "Failed", reason=why)]
    found = predicted(records, A)
    assert (found.attempts.mean, found.failed.mean, found.complete.mean) == (1, 1, 0)


def test_the_loss_of_a_pod_restarts_its_job_set() -> None:
    def pods(number: int, begin: float, how: Any) -> list[Record]:
        return [
            how("set", number, begin, 1000, kind="JobSet", scope=f"workers-0/{index}", node=f"n{number}")
            for index in range(4)
        ]

    records = [*pods(1, 10, disrupted), *pods(2, 1100, attempt), ended("set", 2100, kind="JobSet", retries=0)]
    simulator = Simulator(past.read(records), A)
    (workload,) = simulator.workloads

    found = simulator.play(policy(disruptions=Disruptions(limit=20)), 30).prediction()

    assert workload.shape.parts[0] == ("workers", 1, 4)
    assert workload.per_node == 4
    assert found.complete.mean == 1
    assert found.attempts.mean > 4


def test_pods_that_depend_on_each_other_crash_with_one_that_is_lost() -> None:
    def index(number: int, which: int, begin: float, how: Any, *rest: Any) -> Record:
        made: Record = how("gang", number, begin, 500, *rest, scope=str(which), node=f"g{number}-{which}")
        return made

    records = [
        index(1, 0, 10, disrupted),
        *(crashed("gang", 1, 10, 503, 1, "retry", scope=str(which), node=f"g1-{which}") for which in (1, 2)),
        *(attempt("gang", 2, 600, 1000, scope=str(which), node=f"g2-{which}") for which in range(3)),
        ended("gang", 1600, indexed=True, completions=3, parallelism=3),
    ]
    (workload,) = Simulator(past.read(records), A).workloads

    assert workload.echo is not None
    assert workload.echoes == 1.0
    assert predicted(records, A).complete.mean > 0.5
    assert predicted(records, A).failed.mean > 0  # each crash costs one of three retries


def test_until_the_policy_decides_otherwise_everything_happens_as_it_did() -> None:
    records = [disrupted("a", 1, 10, 1000), attempt("a", 2, 1030, 500, placement="OnDemand", capacity="OnDemand")]
    records += [ended("a", 1530)]
    simulator = Simulator(past.read(records), A)

    as_it_was = simulator.play(A, 20).prediction()
    anew = simulator.play(A, 20, anew=True).prediction()
    other = simulator.play(policy(disruptions=Disruptions(limit=5)), 20).prediction()

    assert (as_it_was.node_seconds.low, as_it_was.node_seconds.high) == (1500, 1500)
    assert anew.node_seconds.low < anew.node_seconds.high
    assert other.attempts.low >= 2  # the first loss comes in any case, and the second pod stays on spot nodes
    assert other.spot_seconds.mean > as_it_was.spot_seconds.mean
