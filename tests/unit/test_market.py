"""The draw and the figures of the market bench; the bench itself needs a control plane."""

import math
from itertools import islice

import pytest

from tests.bench.market.draw import LONGEST, SHORTEST, Market
from tests.bench.market.figures import KINDS, ON_DEMAND, Cell, Kind, lines, slowest_on_demand, table
from tests.bench.market.ideal import FIRST_WAIT, outcome
from tests.bench.market.policies import PROFILES, policy_file
from tests.bench.market.witness import JOB_NAME, Witness
from tests.bench.simulation import name_of
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.parse import parse

MARKET = Market(seed=1, life=2)


def test_the_same_seed_draws_the_same_market() -> None:
    again = Market(seed=1, life=2)
    assert again.jobs(24, 6) == MARKET.jobs(24, 6)
    assert again.life_of_pod("job", 3) == MARKET.life_of_pod("job", 3)
    assert [*islice(again.losses(2), 9)] == [*islice(MARKET.losses(2), 9)]


def test_another_seed_draws_another_market() -> None:
    other = Market(seed=2, life=2)
    assert other.jobs(24, 6) != MARKET.jobs(24, 6)
    assert other.life_of_pod("job", 3) != MARKET.life_of_pod("job", 3)


def test_doubling_the_life_of_machines_doubles_all_their_times() -> None:
    longer = Market(seed=1, life=4)
    assert longer.jobs(24, 6) == MARKET.jobs(24, 6)
    assert longer.life_of_pod("job", 3) == pytest.approx(2 * MARKET.life_of_pod("job", 3))
    assert [*islice(longer.losses(2), 9)] == pytest.approx([2 * time for time in islice(MARKET.losses(2), 9)])


def test_the_average_life_of_machines_is_that_of_the_market() -> None:
    lives = [MARKET.life_of_pod("job", number) for number in range(10_000)]
    assert sum(lives) / len(lives) == pytest.approx(20, rel=0.03)


def test_every_fifth_job_has_a_bug_and_run_times_are_between_the_shortest_and_the_longest() -> None:
    jobs = MARKET.jobs(24, 6)
    assert [number for number, job in enumerate(jobs) if job.bug] == [4, 9, 14, 19, 24, 29]
    assert all(SHORTEST <= minutes <= LONGEST for job in jobs for minutes in job.minutes)
    (many,) = MARKET.jobs(1, 0, pods=20)
    assert len(set(many.minutes)) == 20


def test_the_policies_that_are_compared_are_accepted() -> None:
    policy = parse(policy_file())
    assert isinstance(policy, Policy)
    assert {name_of(one) for one in PROFILES} < policy.profiles.keys()


def cell(policy: str, seed: int, *finished: float, minutes: float = 100, bug_pods: int = 7) -> Cell:
    one, many = Kind(2, 0, [*finished], minutes), Kind(1, 0, [finished[0]], 2 * minutes)
    kinds = dict(zip(KINDS, (one, many), strict=True))
    return Cell(
        life=2,
        seed=seed,
        policy=policy,
        kinds=kinds,
        bug_pods=bug_pods,
        bugs_over=1,
        minutes=3 * minutes,
        disruptions=0,
        load=1,
    )


CELLS = [
    cell("limit 1", 1, 10, 18, minutes=60, bug_pods=2),
    cell(ON_DEMAND, 1, 8, 16),
    cell("limit 1", 2, 10, 33, minutes=50, bug_pods=2),
    cell(ON_DEMAND, 2, 10, 16),
]


def test_a_policy_is_compared_with_on_demand_of_the_same_seed() -> None:
    limited, _ = lines(CELLS)
    assert limited.slowest("one pod") == [18 / 16, 33 / 16]
    assert limited.slowest("20 pods") == [10 / 8, 1]
    assert limited.costs("one pod") == [0.6, 0.5]
    assert (limited.in_time, limited.jobs) == (5, 6)


def test_a_job_that_did_not_finish_has_no_time() -> None:
    (line, _) = lines([cell("limit 20", 1, 10), cell(ON_DEMAND, 1, 8, 16)])
    assert line.slowest("one pod") == [None]
    assert line.in_time == 2


def test_a_limit_of_one_at_most_doubles_the_time_of_a_job_and_a_limit_of_two_can_exceed_that() -> None:
    markets = [Market(seed, 2) for seed in range(20)]
    wait = FIRST_WAIT / SHORTEST
    assert all(outcome(market, 1)[0] <= 2 + wait for market in markets)
    assert any(outcome(market, 2)[0] > 2 + wait for market in markets)


def test_the_duration_of_a_round_is_that_of_its_slowest_job_on_demand() -> None:
    assert slowest_on_demand(CELLS[:2]) == 16
    assert slowest_on_demand([cell(ON_DEMAND, 1, 8)]) == math.inf


def test_the_table_has_a_line_for_each_policy() -> None:
    limited, on_demand = table(CELLS).splitlines()[2:]
    assert limited == (
        "| 2 | limit 1 | 5 of 6 | 0 | 1.12, 2.06 | 1.25, 1.00 | 0.55 | 0.60, 0.50 | 0.60, 0.50 | 0 | 4 | 330 |"
    )
    assert on_demand.startswith("| 2 | on-demand, no webhook | 6 of 6 | 0 | 1.00, 1.00 | 1.00, 1.00 |")


def pod(uid: str, phase: str, node: str = "limit-1-spot-alone") -> Json:
    metadata = {"uid": uid, "name": uid, "labels": {JOB_NAME: "job"}}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


def test_a_pod_has_the_cost_of_its_machine_while_it_runs_and_its_disruption_counts_once() -> None:
    seen = Witness({})
    assert seen.see_pod(pod("first", "Pending"), 0, deleted=False) is None
    begun = seen.see_pod(pod("first", "Running"), 1, deleted=False)
    assert begun is not None
    assert begun.number == 0
    disrupted = pod("first", "Failed")
    disrupted["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    seen.see_pod(disrupted, 5, deleted=False)
    seen.see_pod(disrupted, 6, deleted=True)
    assert begun.cost(9) == pytest.approx(0.3 * 4)
    assert seen.disruptions == 1
    assert seen.see_pod(pod("second", "Running", "limit-1-on-demand-alone"), 6, deleted=False) is None
    assert [one.cost(9) for one in seen.of({"job"})] == pytest.approx([1.2, 3])
