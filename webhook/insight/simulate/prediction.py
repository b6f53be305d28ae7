"""Predicts what another policy would have done to the workloads of a history, and how sure that is."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from random import Random
from statistics import median
from typing import Final

import msgspec

from webhook.history.record import Record
from webhook.insight.simulate import learning, market, past, pricing
from webhook.insight.simulate.decisions import Decider
from webhook.insight.simulate.learning import Learnt, LearntWorkload
from webhook.insight.simulate.market import Market, MarketPlace
from webhook.insight.simulate.past import Past, PastAttempt
from webhook.insight.simulate.pricing import Pricing
from webhook.insight.simulate.replay import (
    NOTHING_SAID,
    Policed,
    Replay,
    ReplayResult,
    Said,
    allowed_for,
    luck_of,
)
from webhook.policy.model import Policy, Prices

MOST_REPLAYS: Final = 2_000_000  # of tasks, under one policy; beyond that there are fewer replications
LEAST_REPLICATIONS: Final = 10
SURE: Final = 0.8  # the share of replications within low and high


class Figure(msgspec.Struct, frozen=True):
    """A figure over all replications: 80 of 100 lie between `low` and `high`."""

    mean: float
    low: float
    high: float


class Outlook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a policy would do to a group of workloads.

    - `attempts`: pods. `node_seconds`: from their start to their end; `spot_seconds`: those of them on spot nodes.
    - `money`: in the currency of the prices; None if any price is not known. `complete`, `failed`: workloads.
    - `mean_time_to_finish`: seconds from the creation of a workload to its end, of those that are complete.
    - `late`: those of them that took longer than a multiple of their work; None if nobody has named one.
    """

    attempts: Figure
    node_seconds: Figure
    spot_seconds: Figure
    money: Figure | None
    complete: Figure
    failed: Figure
    mean_time_to_finish: Figure
    late: Figure | None = None


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
    late: int | None = None


@dataclass(slots=True)
class Sums:
    """The sums of a group of workloads in one replication."""

    attempts: int = 0
    spot: float = 0.0
    on_demand: float = 0.0
    money: float = 0.0
    complete: int = 0
    failed: int = 0
    late: int = 0
    time: float = 0.0  # until they finished, of those that are complete

    def add(self, result: ReplayResult) -> None:
        """Add one workload."""
        self.attempts += result.attempts
        self.spot += result.spot_seconds
        self.on_demand += result.on_demand_seconds
        self.money += result.money
        if result.complete:
            self.complete += 1
            self.late += result.late
            self.time += result.end
        else:
            self.failed += 1

    def add_sums(self, other: "Sums") -> None:
        """Add the sums of another group."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(slots=True)
class ReplayTally:
    """What all replications say of one workload."""

    complete: int = 0
    time: float = 0.0
    disruptions: int = 0
    failures: int = 0
    why: Counter[str] = field(default_factory=Counter)

    def add(self, result: ReplayResult) -> None:
        """Add a replay of the workload."""
        if result.complete:
            self.complete += 1
            self.time += result.end
        else:
            self.why[result.why] += 1
        self.disruptions += result.disruptions
        self.failures += result.failures


@dataclass(slots=True)
class Played:
    """All replications under one policy: sums by namespace, one for each replication, and a tally of each workload.

    `asked`: how many replications were asked for. `unpriced`: places where pods ran, of which no price is known.
    `has_prices`: whether all prices are known; else there is no money. `has_late`: whether it is known what is late.
    """

    sums: dict[str, list[Sums]]
    tallies: list[ReplayTally]
    replications: int
    asked: int
    unpriced: frozenset[MarketPlace]
    has_prices: bool
    has_late: bool = False

    def prediction(self) -> Prediction:
        """Return the figures."""
        total = [Sums() for _ in range(self.replications)]
        for some in self.sums.values():
            for one, other in zip(total, some, strict=True):
                one.add_sums(other)
        whole = msgspec.structs.asdict(self.outlook(total))
        namespaces = {name: self.outlook(some) for name, some in sorted(self.sums.items())}
        return Prediction(**whole, namespaces=namespaces, replications=self.replications)

    def outlook(self, sums: list[Sums]) -> Outlook:
        """Return the figures of a group, given its sums in each replication."""
        return Outlook(
            attempts=figure(one.attempts for one in sums),
            node_seconds=figure(one.spot + one.on_demand for one in sums),
            spot_seconds=figure(one.spot for one in sums),
            money=figure(one.money for one in sums) if self.has_prices else None,
            complete=figure(one.complete for one in sums),
            failed=figure(one.failed for one in sums),
            mean_time_to_finish=figure([one.time / one.complete for one in sums if one.complete] or [0.0]),
            late=figure(one.late for one in sums) if self.has_late else None,
        )


class Simulator:
    """A history that is learnt from once, and replayed under as many policies as wanted.

    `policy`: the one that was in force. `seed`: equal seeds give equal figures. `table`: what nodes cost, under any
    policy; by default the prices of the policy in force, else those that the records have. `said`: what a user says of
    all workloads.
    """

    def __init__(
        self, history: Past, policy: Policy, seed: int = 0, table: Prices | None = None, said: Said = NOTHING_SAID
    ) -> None:
        self.history = history
        self.said = said
        self.policy = policy
        self.seed = seed
        self.learnt: Learnt = learning.learn(history, policy)
        self.market: Market = market.learn(history.attempts, self.learnt.asked)
        self.pause = median(self.learnt.pauses or [0.0])
        table = table or policy.prices
        self.pricing: Pricing = pricing.by_records(history) if table is None else pricing.by_table(table)
        self.allowed = [
            allowed_for(one, policy.profiles[one.shape.profile].deadline.start, said) for one in self.workloads
        ]
        self.unpriced = sum(self.pricing.paid(attempt) is None for attempt in self.attempts())

    @property
    def workloads(self) -> list[LearntWorkload]:
        """The workloads that are replayed."""
        return self.learnt.workloads

    @property
    def currency(self) -> str:
        """The currency of the figures; empty if there are no prices."""
        return self.pricing.currency

    @property
    def has_prices(self) -> bool:
        """Whether there are prices, and one of each attempt that is replayed."""
        return self.pricing.price is not None and not self.unpriced

    def attempts(self) -> Iterator[PastAttempt]:
        """Yield the attempts of the workloads that are replayed."""
        for one in self.workloads:
            yield from one.story.attempts

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
        number, price = self.replications(asked), self.pricing.price or (lambda _resources, _place: None)
        policed = Policed(Decider(policy), self.learnt, self.market, price, self.pause, self.said, anew=anew)
        known = [(place, one) for place, one in enumerate(self.workloads) if one.shape.profile in policy.profiles]
        tallies = [ReplayTally() for _ in self.workloads]
        sums: dict[str, list[Sums]] = defaultdict(list)
        for replication in range(number):
            luck = luck_of(self.market, self.learnt, Random(f"{self.seed}/{replication}"))  # noqa: S311 - a simulation
            random = Random()  # noqa: S311
            now: dict[str, Sums] = {one.story.record.namespace: Sums() for _, one in known}
            for place, one in known:
                random.seed((self.seed * 1_000_003 + replication) * 10_000_019 + place)
                result = Replay(policed, one, luck, random, self.allowed[place]).go()
                now[one.story.record.namespace].add(result)
                tallies[place].add(result)
            for namespace, some in now.items():
                sums[namespace].append(some)
            if on_progress is not None:
                on_progress(replication + 1, number)
        unpriced = frozenset(policed.unpriced)
        has_prices = self.has_prices and not unpriced
        return Played(dict(sums), tallies, number, asked, unpriced, has_prices, self.said.late is not None)

    def seen(self) -> dict[str, Seen]:
        """Return what history shows, by namespace; the empty name is all of them."""
        sums: dict[str, Sums] = defaultdict(Sums)
        for one, allowed in zip(self.workloads, self.allowed, strict=True):
            some = sums[one.story.record.namespace]
            for attempt in one.story.attempts:
                if attempt.start is None and attempt.was_stopped:
                    continue
                some.attempts += 1
                if attempt.capacity == "Spot":
                    some.spot += attempt.seconds
                else:
                    some.on_demand += attempt.seconds
                some.money += self.pricing.paid(attempt) or 0.0
            if one.story.is_complete:
                some.complete += 1
                took = one.story.end - one.story.created
                some.time += took
                some.late += took > allowed
            else:
                some.failed += 1
        total = Sums()
        for some in sums.values():
            total.add_sums(some)
        named = [("", total), *sorted(sums.items())]
        return {
            name: Seen(
                attempts=some.attempts,
                node_seconds=some.spot + some.on_demand,
                spot_seconds=some.spot,
                money=some.money if self.has_prices else None,
                complete=some.complete,
                failed=some.failed,
                mean_time_to_finish=some.time / some.complete if some.complete else 0.0,
                late=some.late if self.said.late is not None else None,
            )
            for name, some in named
        }


def predict(
    records: Iterable[Record], policy_a: Policy, policy_b: Policy, *, seed: int = 0, replications: int = 200
) -> Prediction:
    """Return what `policy_b` would have done to the workloads of records that were made under `policy_a`."""
    return Simulator(past.read(records), policy_a, seed, policy_b.prices).play(policy_b, replications).prediction()


def figure(values: Iterable[float]) -> Figure:
    """Return mean, and the values between which SURE of them are."""
    ordered = sorted(values)
    last = len(ordered) - 1
    low, high = round((1 - SURE) / 2 * last), round((1 + SURE) / 2 * last)
    return Figure(sum(ordered) / len(ordered), ordered[low], ordered[high])
