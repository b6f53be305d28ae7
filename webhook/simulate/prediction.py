"""Predicts what another policy would have done to the workloads of a history, and how sure that is."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

import msgspec

from webhook.history import prices
from webhook.history.record import Record
from webhook.policy.model import Policy, Prices
from webhook.simulate import learning, market, past
from webhook.simulate.decisions import Decider
from webhook.simulate.learning import Learnt, Workload
from webhook.simulate.market import Market, Place
from webhook.simulate.past import Past
from webhook.simulate.replay import Policed, Price, Replay, Result, luck_of

MOST_REPLAYS: Final = 2_000_000  # of tasks, under one policy; beyond that there are fewer replications
LEAST_REPLICATIONS: Final = 10
ALL: Final = "*"  # any capacity, or any zone
SURE: Final = 0.8  # the share of replications within low and high


class Figure(msgspec.Struct, frozen=True):
    """A figure over all replications: 80 of 100 lie between `low` and `high`."""

    mean: float
    low: float
    high: float


class Outlook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a policy would do to a group of workloads.

    - `attempts`: pods. `node_seconds`: from their start to their end; `spot_seconds`: those of them on spot nodes.
    - `money`: in the currency of the prices; None without prices. `complete`, `failed`: workloads.
    - `mean_time_to_finish`: seconds from the creation of a workload to its end, of those that are complete.
    """

    attempts: Figure
    node_seconds: Figure
    spot_seconds: Figure
    money: Figure | None
    complete: Figure
    failed: Figure
    mean_time_to_finish: Figure


class Prediction(Outlook, frozen=True, kw_only=True, rename="camel"):
    """What a policy would do in all; `namespaces`: by namespace. `replications`: how many were made."""

    namespaces: dict[str, Outlook]
    replications: int


class Seen(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What history shows of a group of workloads; the fields are those of `Outlook`."""

    attempts: int
    node_seconds: float
    spot_seconds: float
    money: float | None
    complete: int
    failed: int
    mean_time_to_finish: float


@dataclass(slots=True)
class Sums:
    """The sums of a group of workloads in one replication."""

    attempts: int = 0
    spot: float = 0.0
    on_demand: float = 0.0
    money: float = 0.0
    complete: int = 0
    failed: int = 0
    time: float = 0.0  # until they finished, of those that are complete

    def add(self, result: Result) -> None:
        """Add one workload."""
        self.attempts += result.attempts
        self.spot += result.spot_seconds
        self.on_demand += result.on_demand_seconds
        self.money += result.money
        if result.complete:
            self.complete += 1
            self.time += result.end
        else:
            self.failed += 1

    def add_sums(self, other: "Sums") -> None:
        """Add the sums of another group."""
        self.attempts += other.attempts
        self.spot += other.spot
        self.on_demand += other.on_demand
        self.money += other.money
        self.complete += other.complete
        self.failed += other.failed
        self.time += other.time


@dataclass(slots=True)
class Tally:
    """What all replications say of one workload."""

    complete: int = 0
    time: float = 0.0
    disruptions: int = 0
    failures: int = 0
    why: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Played:
    """All replications under one policy: sums by namespace, one for each replication, and a tally of each workload.

    `asked`: how many replications were asked for. `profiles`: of the policy.
    """

    sums: dict[str, list[Sums]]
    tallies: list[Tally]
    replications: int
    asked: int
    profiles: frozenset[str]
    has_prices: bool

    def prediction(self) -> Prediction:
        """Return the figures."""
        total = [Sums() for _ in range(self.replications)]
        for some in self.sums.values():
            for one, other in zip(total, some, strict=True):
                one.add_sums(other)
        whole = msgspec.structs.asdict(outlook(total, has_prices=self.has_prices))
        namespaces = {name: outlook(some, has_prices=self.has_prices) for name, some in sorted(self.sums.items())}
        return Prediction(**whole, namespaces=namespaces, replications=self.replications)


class Simulator:
    """A history that is learnt from once, and replayed under as many policies as wanted.

    `policy`: the one that was in force. `seed`: equal seeds give equal figures. `table`: what nodes cost, under any
    policy; by default the prices of the policy in force, else those that the records have.
    """

    def __init__(self, history: Past, policy: Policy, seed: int = 0, table: Prices | None = None) -> None:
        self.history = history
        self.policy = policy
        self.seed = seed
        self.learnt: Learnt = learning.learn(history, policy)
        self.market: Market = market.learn(history.attempts, self.learnt.asked)
        self.pause = market.middle(self.learnt.pauses)
        self.table = table or policy.prices
        self.price: Price | None = learnt_prices(history) if self.table is None else priced_by(self.table)

    @property
    def workloads(self) -> list[Workload]:
        """The workloads that are replayed."""
        return self.learnt.workloads

    @property
    def currency(self) -> str:
        """The currency of the figures; empty if there are no prices."""
        if self.table is not None:
            return self.table.currency
        return next((one.record.currency for one in self.history.attempts if one.record.currency), "")

    def replications(self, asked: int) -> int:
        """Return how many replications are made: fewer than asked for if the history is large."""
        tasks = sum(len(one.tasks) for one in self.workloads)
        return max(1, min(asked, max(LEAST_REPLICATIONS, MOST_REPLAYS // max(1, tasks))))

    def play(
        self,
        policy: Policy,
        asked: int,
        on_progress: Callable[[int, int], None] | None = None,
        *,
        anew: bool = False,
    ) -> Played:
        """Replay all workloads under a policy; `asked`: for how many replications.

        All happens as in history until the policy decides otherwise, and from then on by chance; with `anew` all by
        chance, which shows how well the simulation knows the world.
        """
        price, number = self.price, self.replications(asked)
        policed = Policed(Decider(policy), self.learnt, self.market, price or free_of_charge, self.pause, anew=anew)
        known = [(place, one) for place, one in enumerate(self.workloads) if one.shape.profile in policy.profiles]
        tallies = [Tally() for _ in self.workloads]
        sums: dict[str, list[Sums]] = defaultdict(list)
        for replication in range(number):
            luck = luck_of(self.market, self.learnt, Random(f"{self.seed}/{replication}"))  # noqa: S311 - a simulation
            random = Random()  # noqa: S311
            now: dict[str, Sums] = {one.story.record.namespace: Sums() for _, one in known}
            for place, one in known:
                random.seed((self.seed * 1_000_003 + replication) * 10_000_019 + place)
                result = Replay(policed, one, luck, random).go()
                now[one.story.record.namespace].add(result)
                note(tallies[place], result)
            for namespace, some in now.items():
                sums[namespace].append(some)
            if on_progress is not None:
                on_progress(replication + 1, number)
        return Played(dict(sums), tallies, number, asked, frozenset(policy.profiles), price is not None)

    def money_of(self, attempt: past.Attempt) -> float:
        """Return what an attempt cost; 0 if that is not known."""
        if self.table is None and attempt.record.price is not None:
            return attempt.record.price
        if self.price is None:
            return 0.0
        place = Place(attempt.capacity, attempt.record.zone, tuple(sorted(attempt.record.labels.items())))
        return (self.price(attempt.record.resources, place) or 0.0) * attempt.seconds / prices.HOUR

    def seen(self) -> dict[str, Seen]:
        """Return what history shows, by namespace; the empty name is all of them."""
        sums: dict[str, Sums] = defaultdict(Sums)
        for one in self.workloads:
            some = sums[one.story.record.namespace]
            for attempt in one.story.attempts:
                if attempt.start is None and attempt.was_stopped:
                    continue
                some.attempts += 1
                if attempt.capacity == "Spot":
                    some.spot += attempt.seconds
                else:
                    some.on_demand += attempt.seconds
                some.money += self.money_of(attempt)
            if one.story.is_complete:
                some.complete += 1
                some.time += one.story.end - one.story.created
            else:
                some.failed += 1
        total = Sums()
        for some in sums.values():
            total.add_sums(some)
        return {
            name: seen_of(some, has_prices=self.price is not None)
            for name, some in [("", total), *sorted(sums.items())]
        }


def predict(
    records: Iterable[Record], policy_a: Policy, policy_b: Policy, *, seed: int = 0, replications: int = 200
) -> Prediction:
    """Return what `policy_b` would have done to the workloads of records that were made under `policy_a`."""
    return Simulator(past.read(records), policy_a, seed, policy_b.prices).play(policy_b, replications).prediction()


def priced_by(table: Prices) -> Price:
    """Return what an hour of a pod costs by a table."""
    rates = table.rates

    def by_table(resources: Mapping[str, float], place: Place) -> float | None:
        rate = prices.rate_of(rates, place.capacity, dict(place.labels))
        return None if rate is None else prices.per_hour(rate, resources)

    return by_table


def free_of_charge(_resources: Mapping[str, float], _place: Place) -> float | None:
    """Return that no price is known."""
    return None


def learnt_prices(history: Past) -> Price | None:
    """Return what an hour of a core costs by the records, on average for each capacity and zone; None without prices.

    A pod without cpu counts as one of a core.
    """
    money: defaultdict[tuple[str, str], float] = defaultdict(float)
    hours: defaultdict[tuple[str, str], float] = defaultdict(float)
    for one in history.attempts:
        if one.record.price is not None and one.seconds:
            for key in ((one.capacity, one.record.zone), (one.capacity, ALL), (ALL, ALL)):
                money[key] += one.record.price
                hours[key] += cores(one.record.resources) * one.seconds / prices.HOUR
    if not hours:
        return None
    hourly = {key: money[key] / hours[key] for key in hours}

    def by_records(resources: Mapping[str, float], place: Place) -> float | None:
        keys = ((place.capacity, place.zone), (place.capacity, ALL), (ALL, ALL))
        return next(hourly[key] for key in keys if key in hourly) * cores(resources)

    return by_records


def cores(resources: Mapping[str, float]) -> float:
    """Return the cores of a pod, 1 if it asks for none."""
    return resources.get("cpu") or 1.0


def note(tally: Tally, result: Result) -> None:
    """Add a replay of a workload to its tally."""
    if result.complete:
        tally.complete += 1
        tally.time += result.end
    else:
        tally.why[result.why] += 1
    tally.disruptions += result.disruptions
    tally.failures += result.failures


def outlook(sums: list[Sums], *, has_prices: bool) -> Outlook:
    """Return the figures of a group, given its sums in each replication."""
    return Outlook(
        attempts=figure(one.attempts for one in sums),
        node_seconds=figure(one.spot + one.on_demand for one in sums),
        spot_seconds=figure(one.spot for one in sums),
        money=figure(one.money for one in sums) if has_prices else None,
        complete=figure(one.complete for one in sums),
        failed=figure(one.failed for one in sums),
        mean_time_to_finish=figure([one.time / one.complete for one in sums if one.complete] or [0.0]),
    )


def figure(values: Iterable[float]) -> Figure:
    """Return mean, and the values between which SURE of them are."""
    ordered = sorted(values)
    last = len(ordered) - 1
    low, high = round((1 - SURE) / 2 * last), round((1 + SURE) / 2 * last)
    return Figure(sum(ordered) / len(ordered), ordered[low], ordered[high])


def seen_of(sums: Sums, *, has_prices: bool) -> Seen:
    """Return what was seen of a group."""
    return Seen(
        attempts=sums.attempts,
        node_seconds=sums.spot + sums.on_demand,
        spot_seconds=sums.spot,
        money=sums.money if has_prices else None,
        complete=sums.complete,
        failed=sums.failed,
        mean_time_to_finish=sums.time / sums.complete if sums.complete else 0.0,
    )
