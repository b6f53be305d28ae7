"""Makes a report of workloads and their attempts. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal, NamedTuple, Self

from msgspec.structs import replace

from webhook.accounts import words
from webhook.history.record import AttemptRecord, Capacity
from webhook.insight.report import places
from webhook.insight.report.known import Known, Price, PriceOf, Window, lifetime
from webhook.insight.report.model import (
    MOST_ATTEMPTS,
    VERSION,
    AttemptRow,
    Bucket,
    Figures,
    GroupRow,
    PlaceRow,
    Report,
    Usage,
    WorkloadRow,
)
from webhook.insight.report.places import PlaceJudgement, SeenAttempt
from webhook.insight.report.sums import Sum, Tally, importance_by, resource_seconds
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.times import seconds, written
from webhook.pods.hardware import is_of_machine
from webhook.pods.outcomes import STOPPED
from webhook.policy.causes import CAUSES

MOST_BUCKETS: Final = 200
MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86400
# Seconds of a bucket: the smallest of these with which at most MOST_BUCKETS are needed, else as many days as it takes.
WIDTHS: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY)
# The causes of attempts in which no program failed.
NO_FAILURES: Final = {cause for cause, row in CAUSES.items() if not row.is_failure}


class About(NamedTuple):
    """What a report says of itself; `now`, in seconds since 1970; `priced`: whether prices are known at all."""

    source: Literal["cluster", "history"]
    scope: str
    window: Window
    now: float
    priced: bool = False
    currency: str = ""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class PlaceSums:
    """What ended at a node or in a zone."""

    zone: str = ""
    capacity: set[Capacity] = field(default_factory=set)
    attempts: int = 0
    failures: int = 0
    disruptions: int = 0
    faults: int = 0
    workloads: set[str] = field(default_factory=set)
    lost: Sum = field(default_factory=Sum)


class PricedAttempt(NamedTuple):
    """An attempt with its resource-seconds and its price.

    `end`: in seconds since 1970; None if it runs, or says for its end a time at which it cannot have been.
    """

    record: AttemptRecord
    resources: dict[str, float]
    price: Price
    end: float | None


def build(known: Sequence[Known], about: About, price_of: PriceOf, left_out: LeftOut = RAISING) -> Report:
    """Return the report of these workloads.

    Attempts and workloads are those of the window already. `price_of` returns the price of an attempt.
    """
    ends = (_end_of(one, record, about.now) for one in known for record in (*one.attempts, *one.told))
    builder = Builder(about, price_of, Timeline.of([end for end in ends if end is not None], about.window))
    for one in known:
        with left_out.around(one.kind, one):
            builder.add(one)
    return builder.report()


class Timeline:
    """The parts of the time: the start of the first, the seconds of each, and the sums of each, without gaps."""

    def __init__(self, first: float, last: float) -> None:
        self.width = _width_of(first, last)
        self.begin = int(first // self.width)
        self.tallies = [Tally() for _ in range(self.begin, int(last // self.width) + 1)]

    @classmethod
    def of(cls, ends: Sequence[float], window: Window) -> Self | None:
        """Return the parts of a window, where it is bounded, else of the time from the first end to the last.

        None if nothing ended.
        """
        if not ends:
            return None
        first = min(ends) if window.since is None else window.since
        last = max(ends)
        return cls(first, last if window.until is None else max(first, last, window.until - 1))

    def add(self, attempt: PricedAttempt) -> None:
        """Add an attempt that ended."""
        if attempt.end is not None:
            self.tallies[int(attempt.end // self.width) - self.begin].add(*attempt[:3])

    def buckets(self, *, priced: bool) -> Iterator[Bucket]:
        """Yield the parts as a report has them."""
        for number, tally in enumerate(self.tallies, start=self.begin):
            figures = tally.figures(priced=priced)
            yield Bucket(
                start=written(number * self.width),
                causes=figures.causes,
                spot=figures.spot,
                on_demand=figures.on_demand,
                lost=figures.lost,
                lost_to=figures.lost_to,
            )


class Builder:
    """Adds up workloads one by one."""

    def __init__(self, about: About, price_of: PriceOf, series: Timeline | None) -> None:
        self.about = about
        self.price_of = price_of
        self.series = series
        self.total = Tally()
        self.namespaces: dict[str, Tally] = defaultdict(Tally)
        self.profiles: dict[str, Tally] = defaultdict(Tally)
        self.rows: list[WorkloadRow] = []
        self.nodes: dict[str, PlaceSums] = defaultdict(PlaceSums)
        self.zones: dict[str, PlaceSums] = defaultdict(PlaceSums)
        self.seen: list[SeenAttempt] = []
        self.unpriced = 0  # attempts
        self.impossible = 0  # ends

    def add(self, one: Known) -> None:
        """Add a workload."""
        tally = Tally(workloads=1, complete=int(one.state == "Complete"), failed=int(one.state == "Failed"))
        attempts = sorted((self.attempt_of(one, record) for record in one.attempts), key=_order)
        told = [self.attempt_of(one, record) for record in one.told]
        for attempt in attempts:
            tally.add(*attempt[:3])
            self.unpriced += attempt.price.paid is None
        for attempt in (*attempts, *told):
            self.impossible += attempt.end is None and bool(attempt.record.end)
            if self.series is not None:
                self.series.add(attempt)
            self.add_places(one, attempt)
        for counted in one.counted:
            tally.add_counted(counted)
            self.unpriced += counted.number if counted.price.paid is None else 0
        for counted in one.saved:
            tally.saved_retries.add(counted.number, counted.seconds, counted.resources, counted.price.paid)
        for attempt in _last_fatal(attempts, per_index=one.per_index):
            spared, paid = attempt.record.retries_left or 0, attempt.price.paid
            used = {name: amount * spared for name, amount in attempt.resources.items()}
            spared_price = None if paid is None else paid * spared
            tally.saved_retries.add(spared, attempt.record.seconds * spared, used, spared_price)
        self.total.merge(tally)
        self.namespaces[one.namespace].merge(tally)
        self.profiles[one.profile].merge(tally)
        self.rows.append(_row_of(one, sorted([*told, *attempts], key=_order), tally.figures(priced=self.about.priced)))

    def attempt_of(self, known: Known, record: AttemptRecord) -> PricedAttempt:
        """Return an attempt with what it used; one that runs has used what it requests until now."""
        first, last = lifetime(known, record, self.about.now)
        took = record.seconds
        if not record.end:
            started = seconds(record.start)
            took = 0.0 if started is None else max(0.0, self.about.now - started)
        record = replace(record, seconds=min(took, last - first))
        used = resource_seconds(record.resources, record.seconds)
        return PricedAttempt(record, used, self.price_of(record), _end_of(known, record, self.about.now))

    def add_places(self, one: Known, attempt: PricedAttempt) -> None:
        """Add an ended attempt to its node and its zone."""
        record = attempt.record
        if not record.node or not record.end:
            return
        workload = f"{one.namespace}/{one.owner or f'{one.kind}/{one.name}'}"
        is_disruption = CAUSES[record.cause].loss == "Disruptions"
        is_failure = record.cause not in NO_FAILURES and record.reason != STOPPED
        for name, found in ((record.node, self.nodes), (record.zone, self.zones)):
            if name:
                place = found[name]
                place.zone = record.zone
                place.capacity.add(record.capacity)
                place.attempts += 1
                place.failures += is_failure
                place.disruptions += is_disruption
                place.faults += record.cause == "Hardware" and is_of_machine(record.reason)
                place.workloads.add(workload)
                if CAUSES[record.cause].loss:
                    place.lost.add(1, record.seconds, attempt.resources, attempt.price.paid)
        if is_failure or record.cause == "Succeeded":
            alike, hour = ",".join(sorted(record.resources)), int((attempt.end or 0.0) // HOUR)
            self.seen.append(SeenAttempt(record.node, record.zone, workload, record.capacity, alike, hour, is_failure))

    def report(self) -> Report:
        """Return the report."""
        about = self.about
        of_nodes = places.judge(self.seen, lambda one: one.node)
        suspects = {name for name, judgement in of_nodes.items() if judgement.suspect}
        others = [one for one in self.seen if one.zone and one.node not in suspects]
        of_zones = places.judge(others, lambda one: one.zone)
        total = self.total.figures(priced=about.priced)
        importance = importance_by(total.used)
        self.rows.sort(key=lambda row: (-importance(row.figures.lost), row.namespace, row.name))
        return Report(
            version=VERSION,
            written=written(about.now),
            source=about.source,
            scope=about.scope,
            since="" if about.window.since is None else written(about.window.since),
            until="" if about.window.until is None else written(about.window.until),
            currency=about.currency,
            notes=[*about.notes, *self.notes()],
            total=total,
            namespaces=self.groups(self.namespaces, importance),
            profiles=self.groups(self.profiles, importance),
            workloads=self.rows,
            nodes=self.places(self.nodes, of_nodes, importance),
            zones=self.places(self.zones, of_zones, importance),
            near_limit=[
                row.uid
                for row in self.rows
                if row.state in {"Running", "Suspended"} and 0 in {row.retries_left, row.disruptions_left}
            ],
            bucket=HOUR if self.series is None else self.series.width,
            series=[] if self.series is None else [*self.series.buckets(priced=about.priced)],
        )

    def notes(self) -> Iterator[str]:
        """Yield what the sums, or the parts of the time, leave out."""
        if self.impossible:
            number = words.counted(self.impossible, "attempt")
            yield f"an end before the creation or after now cannot be: {number} with one in the sums alone"
        if self.about.priced and self.unpriced:
            remedy = ": name a policy with prices with --policy" if self.about.source == "history" else ""
            number = words.counted(self.unpriced, "attempt")
            yield f"the price of {number} is not known; sums with them have no price{remedy}"

    def groups(self, tallies: dict[str, Tally], importance: Callable[[Usage], float]) -> list[GroupRow]:
        """Return the rows of namespaces or profiles, those that lost most first."""
        rows = [GroupRow(name=name, figures=one.figures(priced=self.about.priced)) for name, one in tallies.items()]
        return sorted(rows, key=lambda row: (-importance(row.figures.lost), row.name))

    def places(
        self, found: dict[str, PlaceSums], judged: dict[str, PlaceJudgement], importance: Callable[[Usage], float]
    ) -> list[PlaceRow]:
        """Return the rows of nodes or zones, suspects first, then those where most was lost."""
        rows = []
        for name, place in found.items():
            judgement = judged.get(name, PlaceJudgement())
            rows.append(
                PlaceRow(
                    name=name,
                    zone=place.zone if found is self.nodes else "",
                    capacity=next(iter(place.capacity)) if len(place.capacity) == 1 else "",
                    attempts=place.attempts,
                    failures=place.failures,
                    disruptions=place.disruptions,
                    workloads=len(place.workloads),
                    failing=judgement.failing,
                    expected=round(judgement.expected, 3),
                    suspect=judgement.suspect,
                    lost=place.lost.usage(priced=self.about.priced),
                    faults=place.faults,
                )
            )
        return sorted(rows, key=lambda row: (not row.suspect, -importance(row.lost), row.name))


def _end_of(known: Known, record: AttemptRecord, now: float) -> float | None:
    """Return when an attempt ended, in seconds since 1970; None if it runs, or cannot have ended then."""
    end = seconds(record.end)
    first, last = lifetime(known, record, now)
    return end if end is not None and first <= end <= last else None


def _order(one: PricedAttempt) -> tuple[bool, float, str]:
    """Return by what attempts are sorted: their ends; those that run are last, by their starts."""
    return one.end is None, one.end or seconds(one.record.start) or 0.0, one.record.pod


def _width_of(first: float, last: float) -> int:
    """Return the seconds of a bucket with which at most MOST_BUCKETS reach from one time to another."""
    for width in WIDTHS:
        if last // width - first // width < MOST_BUCKETS:
            return width
    days = 2
    while last // (days * DAY) - first // (days * DAY) >= MOST_BUCKETS:
        days += 1
    return days * DAY


def _last_fatal(attempts: list[PricedAttempt], *, per_index: bool) -> Iterator[PricedAttempt]:
    """Yield the last attempts that ended a workload although retries were left; with `per_index` one for each index."""
    fatal = [one for one in attempts if one.record.cost == "fatal" and one.record.retries_left]
    scope = attrgetter("record.scope")
    for _, found in groupby(sorted(fatal, key=scope), key=scope if per_index else lambda _: ""):
        *_, last = sorted(found, key=_order)
        yield last


def _row_of(one: Known, attempts: list[PricedAttempt], figures: Figures) -> WorkloadRow:
    ended = [attempt.record for attempt in attempts if attempt.end is not None]
    last = next((record for record in reversed(ended) if record.retries_left is not None), None)
    listed = attempts[-MOST_ATTEMPTS:]
    return WorkloadRow(
        namespace=one.namespace,
        profile=one.profile,
        kind=one.kind,
        name=one.name,
        uid=one.uid,
        owner=one.owner,
        state=one.state,
        reason=one.reason,
        created=one.created,
        end=one.end,
        retries_left=None if last is None else last.retries_left,
        disruptions_left=None if last is None else last.disruptions_left,
        figures=figures,
        attempts=[_attempt_row(attempt, one.rules) for attempt in listed],
        attempts_not_listed=max(0, figures.used.attempts - len(listed)),
    )


def _attempt_row(attempt: PricedAttempt, rules: dict[str, str]) -> AttemptRow:
    record = attempt.record
    rule = "" if record.on_failure is None else f"onFailure rule {record.on_failure}"
    return AttemptRow(
        pod=record.pod,
        scope=record.scope,
        attempt=record.attempt,
        node=record.node,
        zone=record.zone,
        capacity=record.capacity,
        placement=record.placement,
        start=record.start,
        end=record.end,
        seconds=round(record.seconds, 3),
        cause=record.cause if record.end else None,
        reason=record.reason,
        cost=record.cost,
        settled=record.settled,
        rule=rules.get(record.pod, rule),
        retries_left=record.retries_left,
        disruptions_left=record.disruptions_left,
        price=attempt.price.paid,
    )
