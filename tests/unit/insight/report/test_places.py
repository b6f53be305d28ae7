"""Suspect nodes are found where many workloads fail for no fault of their own, and luck incriminates none."""

import random
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from webhook.insight.report.places import LEAST, RISK, SeenAttempt, judge, tail

SEEDS = 100


class World(NamedTuple):
    """A week: workloads of one pod or four, each of which is tried up to four times on nodes at random.

    `rate`: of attempts that fail by luck, different for each workload if it is None. `lemon`: a node on which `bad` of
    all attempts fail. `fragile`: whether every fifth workload fails often, and runs on ten nodes of its own. `outage`:
    whether nearly everything fails in two hours.
    """

    nodes: int = 200
    workloads: int = 2000
    rate: float | None = 0.05
    lemon: int | None = None
    bad: float = 0.9
    fragile: bool = False
    outage: bool = False

    def seen(self, seed: int) -> Iterable[SeenAttempt]:
        rng = random.Random(seed)  # noqa: S311 - no secret
        for number in range(self.workloads):
            own = rng.choice([0.0, 0.0, 0.02, 0.05, 0.3]) if self.rate is None else self.rate
            fragile = self.fragile and number % 5 == 0
            luck = 1.0 if rng.random() < 0.05 else 0.3 if fragile else own  # each twentieth has a bug
            hour = rng.randrange(24 * 7)
            for _ in range(rng.choice([1, 1, 1, 4])):
                for attempt in range(4):
                    node = rng.randrange(10 if fragile else self.nodes)
                    chance = max(luck, 0.8) if self.outage and hour in {50, 51} else luck
                    failed = rng.random() < (max(chance, self.bad) if node == self.lemon else chance)
                    capacity = "Spot" if node % 2 else "OnDemand"
                    alike = "cpu,gpu" if fragile else "cpu"
                    yield SeenAttempt(
                        f"n{node}", f"z{node % 3}", f"w{number}", capacity, alike, hour + attempt // 2, failed
                    )
                    if not failed:
                        break


def by_node(seen: Iterable[SeenAttempt]) -> set[str]:
    return {place for place, one in judge([*seen], lambda one: one.node).items() if one.suspect}


def by_zone(seen: Iterable[SeenAttempt]) -> set[str]:
    return {place for place, one in judge([*seen], lambda one: one.zone).items() if one.suspect}


def seen(
    place: str, workload: str, *, failed: bool, hour: int = 0, capacity: str = "Spot", alike: str = "cpu"
) -> SeenAttempt:
    return SeenAttempt(place, "z1", workload, capacity, alike, hour, failed)


def test_a_lemon_among_two_hundred_nodes_is_found_and_no_other_node_is_named() -> None:
    found = [by_node(World(lemon=7).seen(seed)) for seed in range(10)]
    assert set().union(*found) == {"n7"}
    assert sum("n7" in one for one in found) >= 9  # in some weeks few attempts meet it


@pytest.mark.parametrize(
    "world",
    [
        World(nodes=6, workloads=60),
        World(nodes=6, workloads=120, rate=None),
        World(nodes=40, workloads=300, fragile=True),
        World(nodes=40, workloads=300, outage=True),
    ],
    ids=["small", "of different workloads", "with fragile workloads", "with an outage"],
)
def test_luck_names_a_node_or_a_zone_in_at_most_the_stated_share_of_weeks(world: World) -> None:
    weeks = [[*world.seen(seed)] for seed in range(SEEDS)]
    assert sum(bool(by_node(week)) for week in weeks) <= RISK * SEEDS
    assert sum(bool(by_zone(week)) for week in weeks) <= RISK * SEEDS


def test_workloads_that_fail_wherever_they_run_incriminate_no_node() -> None:
    buggy = [seen(f"n{node}", f"bug{number}", failed=True) for number in range(50) for node in range(3)]
    only_here = [seen("n0", f"once{number}", failed=True) for number in range(50)]
    good = [seen(f"n{node}", f"good{number}", failed=False) for number in range(50) for node in range(3)]
    assert by_node([*buggy, *only_here, *good]) == set()
    assert judge([*buggy, *only_here, *good], lambda one: one.node)["n0"].failing == 0


def failing_at(place: str, workloads: int) -> list[SeenAttempt]:
    """Return workloads that fail at a place and succeed elsewhere, among a thousand attempts that succeed."""
    good = [seen(f"n{number % 20}", f"good{number}", failed=False) for number in range(1000)]
    bad = [seen(place, f"bad{number}", failed=True) for number in range(workloads)]
    retried = [seen("n1", f"bad{number}", failed=False) for number in range(workloads)]
    return [*good, *bad, *retried]


def test_three_different_workloads_are_the_least_that_incriminate_a_node() -> None:
    assert by_node(failing_at("n0", 8)) == {"n0"}
    assert by_node(failing_at("x", LEAST)) == {"x"}
    assert by_node(failing_at("x", LEAST - 1)) == set()


def test_one_workload_that_fails_often_at_a_node_does_not_incriminate_it() -> None:
    often = [seen("n0", "job", failed=True, hour=hour) for hour in range(100)]
    assert by_node([*failing_at("n0", 0), *often, seen("n1", "job", failed=False)]) == set()


def test_a_node_is_compared_with_nodes_of_its_capacity_alone() -> None:
    """On spot the early attempts run, and on-demand the last ones: the same workload fails more often on spot."""
    good = [seen(f"d{number % 5}", f"w{number}", failed=False, capacity="OnDemand") for number in range(200)]
    spot = [seen(f"s{number % 5}", f"w{number}", failed=True) for number in range(200)]
    assert by_node([*good, *spot]) == set()


def test_workloads_that_only_ever_run_on_one_node_do_not_incriminate_it() -> None:
    pinned = [seen("n0", f"pinned{number}", failed=failed) for number in range(20) for failed in (True, False)]
    assert by_node([*failing_at("x", 0), *pinned]) == set()


@pytest.mark.parametrize(("hour", "alike", "suspects"), [(50, "cpu", set()), (70, "gpu", set()), (3, "cpu", {"n0"})])
def test_a_node_is_compared_with_attempts_in_the_same_hour_that_request_the_same(
    hour: int, alike: str, suspects: set[str]
) -> None:
    """In hour 50 a database is away, and programs with GPUs are fragile: then many fail everywhere."""
    good = [seen(f"n{number % 20}", f"good{number}", failed=False, hour=number % 40) for number in range(1000)]
    outage = [seen(f"n{number % 20}", f"out{number}", failed=number % 5 > 0, hour=50) for number in range(100)]
    fragile = [seen(f"n{number % 20}", f"gpu{number}", failed=number % 5 > 0, alike="gpu") for number in range(100)]
    later = [seen("n1", f"{kind}{number}", failed=False, hour=60) for kind in ("out", "gpu") for number in range(100)]
    here = [seen("n0", f"bad{number}", failed=True, hour=hour, alike=alike) for number in range(8)]
    retried = [seen("n1", f"bad{number}", failed=False, hour=60, alike=alike) for number in range(8)]
    others = [one for one in (*good, *outage, *fragile) if one.node != "n0"]
    assert by_node([*others, *later, *here, *retried]) == suspects


def test_the_tail_is_that_of_a_distribution() -> None:
    assert tail(0, 3.0, 5) == 1.0
    assert tail(4, 0.0, 5) == 0.0
    assert tail(3, 1.0, 10**6) == pytest.approx(1 - 2.5 * 2.718281828**-1, rel=1e-4)  # Poisson, for many failures
    assert tail(3, 1.0, 1) == pytest.approx(0.5**3)  # geometric, for one
    assert tail(5, 1.0, 3) > tail(5, 1.0, 300)  # the fewer failures the estimate is by, the wider
    assert 0 < tail(400, 100.0, 50) < 1e-6
