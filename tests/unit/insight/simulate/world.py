"""A little world with a known truth: spot machines, waves of losses, work, bugs. It shares no code with the simulator.

It knows the policy as a few plain rules, and writes the records that the ledger would write.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from webhook.history.record import VERSION, AttemptRecord, Record, WorkloadRecord
from webhook.policy.model import (
    Disruptions,
    FailurePolicy,
    Placement,
    Policy,
    Prices,
    Profile,
    Rate,
    RateMatch,
    Retries,
)

BEGIN = datetime(2026, 11, 16, tzinfo=UTC).timestamp()
WEEK = 7 * 24 * 3600.0
ZONES = ("z1", "z2", "z3")
GIB = 2.0**30
SPOT_PRICE, PRICE = 0.01, 0.03  # of a core for an hour
PRICES = Prices(
    currency="USD",
    rates=(
        Rate(match=RateMatch(capacity="Spot"), per_hour={"cpu": SPOT_PRICE}),
        Rate(match=RateMatch(capacity="OnDemand"), per_hour={"cpu": PRICE}),
    ),
)


@dataclass(frozen=True)
class Rules:
    """A policy as the world understands it."""

    limit: int = 1
    threshold: int = -1
    retries: int = 3
    retriable: frozenset[int] = frozenset({143})
    fails_beyond: bool = False

    def policy(self) -> Policy:
        """Return the same as a policy of the product."""
        return Policy(
            api_version="retry-policy.dev/v1alpha1",
            kind="RetryPolicy",
            profiles={
                "default": Profile(
                    retries=Retries(default=self.retries),
                    disruptions=Disruptions(limit=self.limit, on_exceed="Fail" if self.fails_beyond else "OnDemand"),
                    failure_policy=FailurePolicy(retriable_exit_codes=tuple(sorted(self.retriable))),
                    placement=Placement(provider="gke", interruptible_failure_threshold=self.threshold),
                )
            },
            prices=PRICES,
        )


@dataclass
class Totals:
    """What really happened."""

    attempts: int = 0
    seconds: float = 0.0
    money: float = 0.0
    complete: int = 0
    failed: int = 0
    time: float = 0.0

    @property
    def mean_time(self) -> float:
        return self.time / max(1, self.complete)


@dataclass(frozen=True)
class Program:
    """What a Job is, whatever the policy. `code` ends the first `crashes` runs after `crash_after` seconds."""

    name: str
    namespace: str
    created: float
    work: tuple[float, ...]  # of each index
    cores: float
    code: int = 0
    crashes: int = 0
    crash_after: float = 0.0


@dataclass
class World:
    """Spot machines of a zone are lost at `rate` a second, and thirty times as often in the zone's waves."""

    seed: int
    jobs: int = 300
    life: float = 4 * 3600.0  # mean of a spot machine outside of waves
    waves: int = 6
    on_demand_life: float = 400 * 3600.0
    span: float = WEEK
    on_spot: float = 0.9  # of the pods that prefer spot
    programs: list[Program] = field(default_factory=list)
    storms: list[tuple[str, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        random = Random(f"world {self.seed}")  # noqa: S311 - a simulation
        for _ in range(self.waves):
            begin = BEGIN + random.random() * self.span
            self.storms.append((random.choice(ZONES), begin, begin + 1200.0 + 2400 * random.random()))
        for number in range(self.jobs):
            kind = random.random()
            size = 1 if random.random() < 0.8 else random.randint(2, 8)
            work = tuple(random.lognormvariate(8.6, 0.9) for _ in range(size))
            code, crashes = (1, 99) if kind < 0.06 else (1, 1) if kind < 0.1 else (143, 1) if kind < 0.13 else (0, 0)
            self.programs.append(
                Program(
                    f"job-{number}",
                    random.choice(("ml", "etl")),
                    BEGIN + random.random() * self.span,
                    work,
                    float(random.choice((1, 2, 4))),
                    code,
                    crashes,
                    random.random() * min(work),
                )
            )

    def rate(self, zone: str, now: float) -> float:
        """Return how often a spot machine is lost, in a second."""
        in_storm = any(zone == one and begin <= now < end for one, begin, end in self.storms)
        return (30.0 if in_storm else 1.0) / self.life

    def loss(self, zone: str, now: float, random: Random) -> float:
        """Return when a spot machine is lost."""
        left = random.expovariate(1.0)
        borders = sorted(time for one, begin, end in self.storms if one == zone for time in (begin, end) if time > now)
        for border in borders:
            rate = self.rate(zone, now)
            if left <= rate * (border - now):
                return now + left / rate
            left -= rate * (border - now)
            now = border
        return now + left / self.rate(zone, now)

    def live(self, rules: Rules, run: int) -> tuple[list[Record], Totals]:
        """Let all Jobs run under a policy; `run`: which of all runs of the same world."""
        totals = Totals()
        records: list[Record] = []
        for program in self.programs:
            records += self.job(program, rules, luck_of(self.seed, run, program), totals)
        return records, totals

    def job(self, program: Program, rules: Rules, random: Random, totals: Totals) -> Iterator[Record]:
        """Let a Job run: all of its indexes at once; it ends when the last one has, or at the first fatal end."""
        indexed = len(program.work) > 1
        ends = [
            list(self.index(program, index, rules, random, failures=not index)) for index in range(len(program.work))
        ]
        fatal = min((one[-1].end_time for one in ends if one[-1].fatal), default=None)
        last = max(one[-1].end_time for one in ends) if fatal is None else fatal
        for index, pods in enumerate(ends):
            for pod in pods:
                if pod.start >= last and pod.end_time > last:
                    continue
                stopped = pod.end_time > last
                end = min(pod.end_time, last)
                capacity = "Spot" if pod.spot else "OnDemand"
                money = program.cores * (SPOT_PRICE if pod.spot else PRICE) * (end - pod.start) / 3600
                totals.attempts += 1
                totals.seconds += end - pod.start
                totals.money += money
                yield AttemptRecord(
                    **identity(program),
                    uid=f"{program.name}-{index}-{pod.number}",
                    pod=f"{program.name}-{index}-{pod.number}",
                    job=program.name,
                    scope=str(index) if indexed else "",
                    node=f"node-{program.name}-{index}-{pod.number}",
                    zone=pod.zone,
                    capacity=capacity,  # type: ignore[arg-type]
                    placement="Spot" if pod.wanted_spot else "OnDemand",
                    created=stamp(pod.created),
                    start=stamp(pod.start),
                    end=stamp(end),
                    seconds=end - pod.start,
                    cause="Other" if stopped else pod.cause,  # type: ignore[arg-type]
                    reason="Stopped" if stopped else pod.reason,
                    cost="none" if stopped else pod.cost,  # type: ignore[arg-type]
                    disruptions_left=pod.left,
                    retries_left=pod.retries_left,
                    resources={"cpu": program.cores, "memory": 2 * GIB},
                    price=money,
                    currency="USD",
                )
        totals.complete += fatal is None
        totals.failed += fatal is not None
        totals.time += last - program.created if fatal is None else 0.0
        yield WorkloadRecord(
            **identity(program),
            created=stamp(program.created),
            end=stamp(last),
            outcome="Complete" if fatal is None else "Failed",
            retries=rules.retries,
            indexed=indexed,
            completions=len(program.work),
            parallelism=len(program.work),
        )

    def index(self, program: Program, index: int, rules: Rules, random: Random, *, failures: bool) -> Iterator["Pod"]:
        """Yield the pods of an index, one after the other."""
        now, retries, disruptions, crashes, number = program.created + 1, 0, 0, 0, 0
        while True:
            number += 1
            last_try = (
                rules.threshold != 0
                and retries > 0
                and (
                    retries >= rules.threshold
                    if rules.threshold > 0
                    else retries >= rules.retries + 1 + rules.threshold
                )
            )
            level = (
                rules.threshold != 0
                and disruptions > 0
                and (
                    disruptions >= rules.threshold
                    if rules.threshold > 0
                    else disruptions >= rules.limit + 1 + rules.threshold
                )
            )
            wanted = not (last_try or level or (disruptions and disruptions >= rules.limit))
            spot = wanted and random.random() < self.on_spot
            zone = random.choice(ZONES)
            start = now + 20 + random.expovariate(1 / 40) * (2 if spot else 1)
            lost = self.loss(zone, start, random) if spot else start + random.expovariate(1 / self.on_demand_life)
            crashing = failures and crashes < program.crashes
            lasts = program.crash_after if crashing else program.work[index]
            pod = Pod(number, now, start, start + lasts, zone, wanted, spot, "Succeeded", "", "")
            coupled = len(program.work) > 1
            if lost < start + lasts:
                disruptions += 1
                pod.end_time, pod.cause, pod.reason, pod.cost = (
                    lost,
                    "Disruption",
                    "DeletionByTaintManager",
                    "disruption",
                )
                pod.left = max(0, rules.limit - disruptions)
                pod.fatal = rules.fails_beyond and disruptions > rules.limit
                pause = 10.0 if coupled and disruptions <= rules.limit else 10.0 * 2 ** (number - 1)
            elif crashing:
                crashes += 1
                is_bug = program.code not in rules.retriable
                pod.cause, pod.reason = "ExitCode", f"main {program.code}"
                pod.fatal = is_bug or retries >= rules.retries
                pod.cost = "fatal" if pod.fatal else "retry"
                retries += 1
                pod.retries_left = max(0, rules.retries - retries) if not is_bug else rules.retries
                if coupled and is_bug:  # the ledger waits for an echo
                    pod.cost = "retry"
                pause = 10.0 * 2 ** (number - 1)
            yield pod
            if pod.fatal or pod.cause == "Succeeded":
                return
            now = pod.end_time + min(600.0, pause) + 1


@dataclass
class Pod:
    """A pod of the world."""

    number: int
    created: float
    start: float
    end_time: float
    zone: str
    wanted_spot: bool
    spot: bool
    cause: str
    reason: str
    cost: str
    fatal: bool = False
    left: int | None = None
    retries_left: int | None = None


def luck_of(seed: int, run: int, program: Program) -> Random:
    """Return what chance is for one Job in one run."""
    return Random(f"{seed} {run} {program.name}")  # noqa: S311 - a simulation


def identity(program: Program) -> dict[str, Any]:
    """Return the fields that all records of a Job share."""
    return {
        "version": VERSION,
        "namespace": program.namespace,
        "profile": "default",
        "kind": "Job",
        "workload": program.name,
        "workload_uid": program.name,
    }


def stamp(time: float) -> str:
    """Return a time as the API writes it, to the second."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
