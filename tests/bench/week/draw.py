"""What chance decides of the Jobs, by a seed: when each is created, how long its pods run, and what is wrong with it.

All times are hours of simulated time. Each draw has a generator of its own, so that the n-th attempt of a pod is the
same under every policy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, get_args

from tests.bench.kubelet import OUT_OF_MEMORY, SUCCESS, End

DAY = 24
DAYS = 7
JOBS_A_DAY = 60
MEDIAN, SIGMA = 1.5, 1.0  # hours of a pod that succeeds, log-normal
SHORTEST, LONGEST = 0.2, 12
INDEXED, PODS = 0.08, 6  # the share of Indexed Jobs, and the pods of each
STRAGGLERS, SLOWER = 0.04, 2  # the share of attempts that take so many times as long

# Arrival: the share of Jobs that are created in working hours, and in a burst each night; the others at any time.
WORKING, NIGHTLY = 0.5, 0.3
MORNING, EVENING = 8, 18
NIGHT, BURST = 1, 1  # when the burst begins, and how long it takes
WORKDAYS = 5

CPU, MEMORY = 16, 32  # cores and GiB that each pod asks for
NEEDED = (48, 96)  # GiB that a program needs if that is more than it asks for
CRASHES = 0.5  # the share of attempts that crash, of Jobs that do so now and then

Kind = Literal["good", "bug", "short of memory", "flaky", "temporary"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SHARES: dict[Kind, float] = {"good": 0.72, "bug": 0.1, "short of memory": 0.05, "flaky": 0.08, "temporary": 0.05}
CODES: dict[Kind, End] = {"bug": End(1, "Error"), "flaky": End(143, "Error"), "temporary": End(75, "Error")}


@dataclass(frozen=True)
class DrawnJob:
    """A Job of one pod, or an Indexed Job of several at once.

    `created`: when. `hours`: how long an attempt of each pod takes that succeeds. `needs`: GiB of memory. `crash`: the
    share of its time after which each attempt with a bug crashes.
    """

    seed: int
    name: str
    kind: Kind
    created: float
    hours: tuple[float, ...]
    needs: float
    crash: float

    @property
    def indexed(self) -> bool:
        return len(self.hours) > 1

    def attempt(self, index: int, number: int, memory: float) -> tuple[float, End]:
        """Return how many hours the attempt of a pod takes that has so many GiB, and how it ends."""
        chance = chance_of(self.seed, self.name, index, number)
        slower = SLOWER if chance.random() < STRAGGLERS else 1
        crashes, share = chance.random() < CRASHES, chance.random()
        hours = self.hours[index] * slower
        if memory < self.needs:
            return hours * (0.3 + 0.6 * share), OUT_OF_MEMORY
        if self.kind == "bug" and index == 0:
            return hours * self.crash, CODES["bug"]
        if self.kind in {"flaky", "temporary"} and index == 0 and crashes:
            return hours * share, CODES[self.kind]
        return hours, SUCCESS


def jobs(seed: int, days: int = DAYS) -> list[DrawnJob]:
    """Return the Jobs of so many days, the first of which is a Monday, in the order of their creation."""
    found = [drawn(seed, number, days) for number in range(days * JOBS_A_DAY)]
    return sorted(found, key=lambda job: job.created)


def drawn(seed: int, number: int, days: int) -> DrawnJob:
    name = f"job-{number}"
    chance = chance_of(seed, name)
    (kind,) = chance.choices(KINDS, [SHARES[kind] for kind in KINDS])
    created = arrival(chance, days)
    length = chance.lognormvariate(0, SIGMA) * MEDIAN
    pods = PODS if chance.random() < INDEXED else 1
    hours = tuple(min(LONGEST, max(SHORTEST, length * chance.uniform(0.8, 1.25))) for _ in range(pods))
    needs = chance.choice(NEEDED) if kind == "short of memory" else MEMORY
    return DrawnJob(seed, name, kind, created, hours, needs, crash=chance.random() ** 2)


def arrival(chance: random.Random, days: int) -> float:
    """Return when a Job is created: in working hours, in a burst at night, or at any time."""
    how = chance.random()
    if how < WORKING:
        return chance.randrange(min(days, WORKDAYS)) * DAY + chance.uniform(MORNING, EVENING)
    day = chance.randrange(days) * DAY
    if how < WORKING + NIGHTLY:
        return day + NIGHT + chance.uniform(0, BURST)
    return day + chance.uniform(0, DAY)


def chance_of(*of: object) -> random.Random:
    return random.Random(f"{of}")  # noqa: S311 - no secret
