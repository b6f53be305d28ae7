"""What history says of the machines: how often they are lost, where pods land, how long pods wait for them.

The rate of losses is learnt for spot and on-demand nodes, by zone and over time: windows in which it is constant, each
drawn towards the mean of its zone as far as the losses themselves do not say otherwise. The width of the windows and
that strength are the ones under which the losses seen are the most likely. How sure a rate is follows from how many
losses were seen: each replication draws its rates anew.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf, lgamma, log
from random import Random
from typing import Final, NamedTuple

from webhook.history.record import Capacity
from webhook.insight.simulate.past import PastAttempt

TOGETHER: Final = 60.0  # seconds: pods of a node that are lost within this time are lost by one event
MOST_ZONES: Final = 30  # the others are one
MOST_WINDOWS: Final = 64  # of a zone
STRENGTHS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 1e6)  # losses that the mean counts for in each window
MARGIN: Final = 1.0  # by which a finer picture must be more likely, as a logarithm
FEW: Final = 0.5  # of losses, of which a rate is drawn where none was seen
MOST_SAMPLES: Final = 20_000  # of places
NEAREST: Final = 20

Spell = tuple[float, float]


class MarketPlace(NamedTuple):
    """Where a pod may run: capacity, zone, and the labels by which prices choose."""

    capacity: Capacity
    zone: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Rates:
    """How often nodes of a capacity and zone are lost.

    `begin`: of the first window, `width`: of each, in seconds. `losses` and `exposed`: losses and node-seconds in each.
    `mean`: losses in a second, over all. `strength`: as in STRENGTHS.
    """

    begin: float
    width: float
    losses: tuple[int, ...]
    exposed: tuple[float, ...]
    mean: float
    strength: float

    def draw(self, random: Random) -> "Hazard":
        """Draw the rate of each window, and the rate after the last one."""
        seen = sum(self.losses)
        spread = random.gammavariate(seen + FEW, 1) / (seen + FEW)  # how sure the mean itself is
        if self.strength >= STRENGTHS[-1]:
            rates = [self.mean * spread] * len(self.losses)
        else:
            prior = self.strength / self.mean if self.mean else inf
            rates = [
                random.gammavariate(self.strength + lost, 1 / (prior + time)) if self.mean else 0.0
                for lost, time in zip(self.losses, self.exposed, strict=True)
            ]
        sums = [0.0, *accumulate(rate * self.width for rate in rates)]
        return Hazard(self.begin, self.width, sums, self.mean * spread)


@dataclass(frozen=True, slots=True)
class Hazard:
    """The rates of one replication: `sums` of the expected losses up to each border of windows; `later`: afterwards."""

    begin: float
    width: float
    sums: list[float]
    later: float

    def loss(self, now: float, luck: float) -> float:
        """Return when a node is lost that is there now; `luck` is exponentially distributed with mean 1."""
        place = (now - self.begin) / self.width
        last = len(self.sums) - 1
        if place >= last:
            return now + luck / self.later if self.later else inf
        if place < 0:
            place = 0.0
        index = int(place)
        rate = self.sums[index + 1] - self.sums[index]
        wanted = self.sums[index] + rate * (place - index) + luck
        if wanted >= self.sums[-1]:
            end = self.begin + last * self.width
            return max(now, end) + ((wanted - self.sums[-1]) / self.later if self.later else inf)
        at = bisect_right(self.sums, wanted) - 1
        part = (wanted - self.sums[at]) / (self.sums[at + 1] - self.sums[at])
        return max(now, self.begin + (at + part) * self.width)


@dataclass(slots=True)
class Market:
    """All of it.

    - `rates`: by capacity and zone. `together`: by capacity, whether the pods of a node are lost together.
    - `places`: where pods ran, by capacity, and `begun`: when, in this order.
    - `landed`: by what placement asked (Require, Prefer, Allow, OnDemand): pods on spot nodes, and pods in all.
    - `reasons`: of disruptions, by capacity. `losses` and `exposed`: how many there were, and in how many node-seconds.
    """

    rates: dict[tuple[Capacity, str], Rates]
    together: dict[Capacity, bool]
    places: dict[Capacity, list[MarketPlace]]
    begun: dict[Capacity, list[float]]
    landed: dict[str, tuple[int, int]]
    reasons: dict[Capacity, list[str]]
    losses: dict[Capacity, int] = field(default_factory=lambda: defaultdict(int))
    exposed: dict[Capacity, float] = field(default_factory=lambda: defaultdict(float))

    def place(self, capacity: Capacity, now: float, luck: float) -> MarketPlace:
        """Return where a pod runs: where one of the NEAREST pods did that began at about this time.

        Where nodes are being lost there are none for new pods. `luck`: 0 to less than 1.
        """
        begun = self.begun.get(capacity)
        if not begun:
            return MarketPlace(capacity, "", ())
        first = max(0, min(bisect_right(begun, now) - NEAREST // 2, len(begun) - NEAREST))
        return self.places[capacity][first + int(luck * min(NEAREST, len(begun)))]


def learn(attempts: Sequence[PastAttempt], asked: Mapping[str, str]) -> Market:
    """Learn from attempts; `asked`: by uid, what the placement of a pod asked for; a pod is left out if unknown."""
    ran = [one for one in attempts if one.start is not None and one.capacity]
    zones = {zone for zone, _ in Counter(one.record.zone for one in ran).most_common(MOST_ZONES)}
    market = Market({}, {}, {}, {}, {}, {})
    for capacity in ("Spot", "OnDemand"):
        own = [one for one in ran if one.capacity == capacity]
        if not own:
            continue
        _learn_losses(market, capacity, own, zones)
        latest = sorted(own[-MOST_SAMPLES:], key=lambda one: one.start or one.end)
        market.places[capacity] = [_place_of(one, zones) for one in latest]
        market.begun[capacity] = [one.start or one.end for one in latest]
        market.reasons[capacity] = [one.record.reason for one in own if one.is_disrupted][:MOST_SAMPLES]
    landed: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in ran:
        if (wish := asked.get(one.record.uid)) is not None:
            landed[wish][0] += one.capacity == "Spot"
            landed[wish][1] += 1
    market.landed = {wish: (spot, total) for wish, (spot, total) in landed.items()}
    return market


def _place_of(attempt: PastAttempt, zones: set[str]) -> MarketPlace:
    zone = attempt.record.zone if attempt.record.zone in zones else ""
    return MarketPlace(attempt.capacity, zone, tuple(sorted(attempt.record.labels.items())))


def _learn_losses(market: Market, capacity: Capacity, own: Sequence[PastAttempt], zones: set[str]) -> None:
    """Learn how often nodes of a capacity are lost, in each zone."""
    by_node: dict[str, list[PastAttempt]] = defaultdict(list)
    for number, one in enumerate(own):
        by_node[one.record.node or f" {number}"].append(one)
    market.together[capacity] = _fall_together(by_node.values())
    spells: dict[str, list[Spell]] = defaultdict(list)
    events: dict[str, list[float]] = defaultdict(list)
    for pods in by_node.values():
        zone = pods[0].record.zone if pods[0].record.zone in zones else ""
        ends = sorted(one.end for one in pods if one.is_disrupted)
        own_spells = [(one.start or one.end, one.end) for one in pods]
        if market.together[capacity]:
            ends = [end for index, end in enumerate(ends) if not index or end - ends[index - 1] > TOGETHER]
            own_spells = _merged(own_spells)
        spells[zone] += own_spells
        events[zone] += ends
    losses = sum(map(len, events.values()))
    time = sum(end - begin for some in spells.values() for begin, end in some)
    market.losses[capacity], market.exposed[capacity] = losses, time
    for zone, some in spells.items():
        market.rates[capacity, zone] = _rates_of(some, events[zone], losses / time if time else 0.0)


def _fall_together(nodes: Iterable[Sequence[PastAttempt]]) -> bool:
    """Return True if most pods that run beside a pod which is lost are lost with it."""
    beside = with_it = 0
    for pods in nodes:
        if len(pods) < 2:  # noqa: PLR2004 - nothing is beside it
            continue
        for lost in [one for one in pods if one.is_disrupted][:10]:
            others = [
                one for one in pods if one is not lost and (one.start or one.end) < lost.end <= one.end + TOGETHER
            ]
            beside += len(others)
            with_it += sum(one.is_disrupted and abs(one.end - lost.end) <= TOGETHER for one in others)
    return beside > 0 and with_it * 2 >= beside


def _merged(spells: Iterable[Spell]) -> list[Spell]:
    found: list[Spell] = []
    for begin, end in sorted(spells):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _rates_of(spells: Sequence[Spell], events: Sequence[float], overall: float) -> Rates:
    """Return the rates of a zone; `overall`: losses in a second in all zones, which a zone without many is near to."""
    begin, end = min(one[0] for one in spells), max(one[1] for one in spells)
    time = sum(last - first for first, last in spells)
    mean = (len(events) + 1) / (time + 1 / overall) if overall else 0.0
    span = max(end - begin, 1.0)
    chosen = Rates(begin, span, (len(events),), (time,), mean, STRENGTHS[-1])
    best = _likelihood(chosen.losses, chosen.exposed, mean, STRENGTHS[-1]) if mean else 0.0
    number = 2
    while mean and number <= MOST_WINDOWS and number <= max(1, len(events)):
        width = span / number
        exposed = _exposure(spells, begin, width, number)
        losses = [0] * number
        for event in events:
            losses[min(number - 1, int((event - begin) / width))] += 1
        for strength in STRENGTHS:
            likely = _likelihood(losses, exposed, mean, strength)
            if likely > best + MARGIN:
                best, chosen = likely, Rates(begin, width, tuple(losses), tuple(exposed), mean, strength)
        number *= 2
    return chosen


def _exposure(spells: Iterable[Spell], begin: float, width: float, number: int) -> list[float]:
    found = [0.0] * number
    for first, last in spells:
        low, high = int((first - begin) / width), min(number - 1, int((last - begin) / width))
        for index in range(min(low, high), high + 1):
            left = begin + index * width
            found[index] += max(0.0, min(last, left + width) - max(first, left))
    return found


def _likelihood(losses: Sequence[int], exposed: Sequence[float], mean: float, strength: float) -> float:
    """Return the logarithm of the density of losses, if the rate of each window is drawn from a gamma distribution."""
    prior = strength / mean
    each = strength * log(prior) - lgamma(strength)
    return sum(
        each + lgamma(strength + lost) - (strength + lost) * log(prior + time)
        for lost, time in zip(losses, exposed, strict=True)
    )
