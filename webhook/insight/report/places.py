"""Finds "lemons": nodes and zones where more workloads fail than chance explains, for no fault of their own.

The test, for each place (a node or a zone):

- Disruptions are not failures, and attempts that their Job stopped are neither. Jobs of one owner, such as a CronJob,
  are one workload.
- Only workloads that succeeded somewhere are looked at. One that failed at the place counts if it succeeded at another
  place. A workload that fails wherever it runs incriminates no place.
- The probability that an attempt fails follows from attempts at other places of the same capacity: it is the highest
  share of failures among all of them, those that request the same resources, those of these in the same hour, and the
  workload's own. A group of few attempts is filled up with all, as if these were WEIGHT attempts. So neither an hour in
  which a database is away nor nodes whose programs are fragile look like a bad place.
- The number of workloads that failed there is compared with the expected number by the tail of the Poisson
  distribution, which is wider than the true one (a sum of independent events of different probability). The expected
  number is itself an estimate, by some failures elsewhere. So the mean has the Gamma distribution that so many failures
  leave, and the tail is that of the negative binomial distribution.
- As many places are tested, the limit is divided by their number (Bonferroni): in at most RISK of all reports does luck
  alone name any place. A suspect also has at least LEAST workloads that failed there.

Zones are tested without the attempts on nodes that are suspects already.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from math import exp, lgamma, log
from typing import Final, NamedTuple

RISK: Final = 0.01
LEAST: Final = 3  # workloads
WEIGHT: Final = 10.0  # attempts
ENOUGH: Final = 1e-15  # share of a sum from which on further terms do not change it


class SeenAttempt(NamedTuple):
    """An attempt that failed or succeeded at a node.

    `workload`: its owner, if it has one. `alike`: what attempts that request the same resources have in common.
    `hour`: of its end.
    """

    node: str
    zone: str
    workload: str
    capacity: str
    alike: str
    hour: int
    failed: bool


class PlaceJudgement(NamedTuple):
    """How many workloads failed at a place although they succeed elsewhere, how many would by luck, and the verdict."""

    failing: int = 0
    expected: float = 0.0
    suspect: bool = False


class AttemptCounts:
    """Numbers of attempts and failures by key, in all and by place."""

    def __init__(self) -> None:
        self.all: dict[object, list[int]] = defaultdict(lambda: [0, 0])
        self.at: dict[tuple[object, str], list[int]] = defaultdict(lambda: [0, 0])

    def add(self, key: object, place: str, *, failed: bool) -> None:
        """Count an attempt at a place under a key."""
        for numbers in (self.all[key], self.at[key, place]):
            numbers[0] += 1
            numbers[1] += failed

    def elsewhere(self, key: object, place: str) -> tuple[int, int]:
        """Return the attempts and the failures under a key at other places."""
        (attempts, failures), (here, failed_here) = self.all[key], self.at[key, place]
        return attempts - here, failures - failed_here


def judge(seen: Sequence[SeenAttempt], place_of: Callable[[SeenAttempt], str]) -> dict[str, PlaceJudgement]:
    """Return the judgement of each place."""
    good: dict[str, set[str]] = defaultdict(set)  # workloads, and the places where they succeeded
    for one in seen:
        if not one.failed:
            good[one.workload].add(place_of(one))
    sound = [one for one in seen if one.workload in good]
    counts = AttemptCounts()
    for one in sound:
        for key in _keys_of(one):
            counts.add(key, place_of(one), failed=one.failed)
    luck: dict[str, dict[str, float]] = defaultdict(dict)  # by place and workload: probability of no failure
    failing: dict[str, set[str]] = defaultdict(set)
    for one in sound:
        place = place_of(one)
        workloads = luck[place]
        workloads[one.workload] = workloads.get(one.workload, 1.0) * (1 - _rate_of(counts, one, place))
        if one.failed and good[one.workload] - {place}:
            failing[place].add(one.workload)
    failures = Counter(place_of(one) for one in sound if one.failed)
    tested = sum(len(workloads) >= LEAST for workloads in luck.values())
    found = {}
    for place, workloads in luck.items():
        expected = sum(1 - probability for probability in workloads.values())
        number = len(failing[place])
        elsewhere = failures.total() - failures[place]
        suspect = number >= LEAST and tail(number, expected, elsewhere + 1) * tested <= RISK
        found[place] = PlaceJudgement(number, expected, suspect)
    return found


def _keys_of(one: SeenAttempt) -> tuple[object, ...]:
    """Return under what an attempt is counted: all of its capacity, those alike, those of its hour, its workload's."""
    return (
        one.capacity,
        (one.capacity, one.alike),
        (one.capacity, one.alike, one.hour),
        (one.capacity, "workload", one.workload),
    )


def _rate_of(counts: AttemptCounts, one: SeenAttempt, place: str) -> float:
    """Return the probability that an attempt fails, by what happened at other places."""
    of_all, *others = _keys_of(one)
    attempts, failures = counts.elsewhere(of_all, place)
    rate = (failures + 1) / (attempts + 2)
    found = [counts.elsewhere(key, place) for key in others]
    return max(rate, *((failures + WEIGHT * rate) / (attempts + WEIGHT) for attempts, failures in found))


def tail(number: int, expected: float, failures: int) -> float:
    """Return the probability of at least `number` events, if `expected` is an estimate by so many failures, at least 1.

    That is the tail of the negative binomial distribution; of the Poisson distribution, if there are many failures.
    """
    if number <= expected:
        return 1.0
    if expected <= 0:
        return 0.0
    share = expected / (expected + failures)
    term = exp(
        lgamma(number + failures)
        - lgamma(failures)
        - lgamma(number + 1)
        + number * log(share)
        + failures * log(1 - share)
    )
    total = 0.0
    while term > ENOUGH * total:
        total += term
        term *= share * (number + failures) / (number + 1)
        number += 1
    return min(1.0, total)
