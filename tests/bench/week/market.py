"""The market, by a seed: when each spot node is lost and is back, and what an hour costs. It has hours and US dollars.

It is the same under every policy: each has nodes of its own, and the nodes of one name are lost at the same times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from tests.bench.week.draw import DAY, chance_of

ZONES = ("a", "b", "c")
SPOT_IN_ZONE = 4  # nodes
LIFE = 36  # mean hours of a spot node outside of waves
REPLACED = 0.3  # hours after which there is another node in its place
WAVES = 0.7  # of a zone each day, on average
SHORTEST_WAVE, LONGEST_WAVE = 1, 4
LOST, LOST_WITHIN = 0.85, 0.5  # the share of a zone's nodes that a wave takes, and the hours in which it does

PER_HOUR = {"cpu": 0.04, "memory": 0.005}  # on-demand: a core, a GiB
SPOT = {"a": 0.28, "b": 0.31, "c": 0.35}  # of that, on average outside of waves
STEP = 0.25  # hours for which a spot price holds
DAILY, WALK, KEPT, IN_WAVE = 0.15, 0.04, 0.9, 0.2  # how it changes: with the hour, by chance, and in a wave
CHEAPEST, DEAREST = 0.15, 0.95


@dataclass(frozen=True)
class Span:
    """From when to when: a wave, or the absence of a node."""

    start: float
    end: float


@dataclass(frozen=True)
class Market:
    """A market of so many hours."""

    seed: int
    hours: int

    def waves(self, zone: str) -> list[Span]:
        """Return the waves of interruptions in a zone, in the order of time; they do not overlap."""
        chance, time = chance_of(self.seed, "waves", zone), 0.0
        found: list[Span] = []
        while True:
            time += chance.expovariate(WAVES / DAY)
            if time >= self.hours:
                return found
            found.append(Span(time, time + chance.uniform(SHORTEST_WAVE, LONGEST_WAVE)))
            time = found[-1].end

    def losses(self, zone: str, number: int) -> list[Span]:
        """Return when a spot node is not there, in the order of time; the spans do not overlap."""
        chance, time = chance_of(self.seed, "node", zone, number), 0.0
        found = [
            Span(wave.start + chance.uniform(0, LOST_WITHIN), wave.end)
            for wave in self.waves(zone)
            if chance.random() < LOST
        ]
        while time < self.hours:
            time += chance.expovariate(1 / LIFE)
            alone = Span(time, time + REPLACED)
            if all(alone.end < other.start or other.end < alone.start for other in found):
                found.append(alone)
        return sorted(found, key=lambda span: span.start)

    def spot_hours(self, zone: str, start: float, end: float) -> float:
        """Return the on-demand hours that cost as much as a spot node does from one time to another."""
        sums = _sums(self, zone)
        return _until(sums, end) - _until(sums, start)

    def mean_share(self, zone: str) -> float:
        """Return the mean spot price of a zone, as a share of on-demand's."""
        return self.spot_hours(zone, 0, self.hours) / self.hours

    def money(self, zone: str, *, spot: bool, start: float, end: float, resources: dict[str, float]) -> float:
        """Return what resources cost from one time to another; memory is in bytes."""
        hours = self.spot_hours(zone, start, end) if spot else end - start
        return hours * (PER_HOUR["cpu"] * resources["cpu"] + PER_HOUR["memory"] * resources["memory"] / 2**30)

    def shares(self, zone: str) -> list[float]:
        """Return the spot price of each step, as a share of on-demand's."""
        chance, drift, waves, found = chance_of(self.seed, "price", zone), 0.0, self.waves(zone), []
        for step in range(math.ceil(self.hours / STEP)):
            hour = step * STEP
            drift = KEPT * drift + chance.gauss(0, WALK)
            share = SPOT[zone] * (1 + DAILY * math.sin(2 * math.pi * (hour % DAY - DAY / 4) / DAY) + drift)
            share += IN_WAVE * any(wave.start - STEP <= hour <= wave.end for wave in waves)
            found.append(min(DEAREST, max(CHEAPEST, share)))
        return found


@cache
def _sums(market: Market, zone: str) -> list[float]:
    """Return the sum of the prices until each step; the last price holds for ever."""
    return [0.0, *accumulate(share * STEP for share in market.shares(zone))]


def _until(sums: list[float], hour: float) -> float:
    step = min(int(hour / STEP), len(sums) - 2)
    return sums[step] + (sums[step + 1] - sums[step]) * (hour / STEP - step)
