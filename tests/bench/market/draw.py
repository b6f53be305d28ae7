"""What chance decides, by a seed: how long each pod runs, which Jobs have a bug, when spot machines are taken away.

All times are minutes of simulated time. Each draw has a generator of its own, so that one pod's fate is the same under
every policy, and a market of longer lives is the same market, stretched.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORTEST, MEAN, LONGEST = 4, 10, 16
PODS = 20  # of an Indexed Job


@dataclass(frozen=True)
class DrawnJob:
    """A Job: how long each of its pods runs until it ends, well or with the bug."""

    name: str
    minutes: tuple[float, ...]
    bug: bool = False

    @property
    def indexed(self) -> bool:
        return len(self.minutes) > 1


@dataclass(frozen=True)
class Market:
    """One market: `life` is the mean life of a spot machine, in units of the mean Job."""

    seed: int
    life: float

    def jobs(self, good: int, bugs: int, *, pods: int = 1) -> list[DrawnJob]:
        """Return so many Jobs of so many pods, those with a bug spread among them."""
        drawn = []
        for number in range(good + bugs):
            name = f"job-{pods}-{number}"
            chance = self.chance(name)
            minutes = tuple(chance.uniform(SHORTEST, LONGEST) for _ in range(pods))
            drawn.append(DrawnJob(name, minutes, bug=_is_chosen(number, bugs, good + bugs)))
        return drawn

    def life_of_pod(self, job: str, number: int) -> float:
        """Return how long the machine lives on which a Job's spot pod of that number runs alone, from its start."""
        return self.lives(self.chance("pod", job, number))

    def losses(self, machine: int) -> Iterator[float]:
        """Yield when a shared spot machine is lost, again and again."""
        chance, time = self.chance("machine", machine), 0.0
        for _ in count():
            time += self.lives(chance)
            yield time

    def lives(self, chance: random.Random) -> float:
        return chance.expovariate(1) * self.life * MEAN

    def chance(self, *of: object) -> random.Random:
        return random.Random(f"{self.seed} {of}")  # noqa: S311 - no secret


def _is_chosen(number: int, chosen: int, of: int) -> bool:
    """Whether a number is one of those chosen at equal distances."""
    return (number + 1) * chosen // of > number * chosen // of
