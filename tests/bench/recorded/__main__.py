"""Replays recorded attempts of batch jobs under policies, and prints what each policy would have lost and saved.

`python -m tests.bench.recorded FOLDER [POLICY …]`: FOLDER has borg_attempts.csv.gz, attempts of whole jobs of Google's
cluster trace of 2011: job, task, life, attempt, start, end, outcome, hours. POLICY: files whose profile `default` is
replayed beside Kubernetes' own rules, the packaged policy, and that with manyPods and unknownExit.

Each job is a Job, each life of a task an index of it. Where a task has failed and others of the job went on for longer
than its failed attempt had run, they did not need it: the author of such a job would say so (`independent-pods`).

At each recorded end the product's own what-if is asked (webhook/insight/simulate/decisions.py). A policy can only stop
what was recorded: of an attempt that it would have added nothing is known.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.admission import policy
from tests.bench.week.market import PER_HOUR
from webhook.accounts.counting import OUTLIVED
from webhook.history.usage import per_hour, rate_of
from webhook.insight.simulate.decisions import Decider, Shape, SpentBefore
from webhook.insight.simulate.past import End
from webhook.pods import on_failure
from webhook.pods.on_failure import FailureState
from webhook.policy.model import FailurePolicy, Profile, Retries
from webhook.policy.parse import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webhook.policy.model import Policy

BUG: Final = End("ExitCode", "Error", 1)
EVICTED: Final = End("Disruption", "PreemptionByScheduler", 137)
ENDS: Final = {"FAIL": BUG, "EVICT": EVICTED}
HEADINGS: Final = (
    "Policy",
    "Completions lost",
    "Share",
    "Hopeless attempts saved",
    "Hours run",
    "of which failed",
    "hopeless",
    "USD for 1,000 completions",
)
HOPELESS: Final = 2  # failures after which a task rarely finishes


class Recorded(NamedTuple):
    """An attempt of a task; times in seconds."""

    life: tuple[str, str]  # a task, and how often its user has started it again
    start: float
    end: float
    outcome: str
    hours: float


@dataclass(slots=True)
class Index:
    """What is known of an index while its job is replayed."""

    failures: int = 0  # recorded ones
    counted: int = 0
    ignored: int = 0
    disruptions: int = 0
    is_lost: bool = False
    after: FailureState = on_failure.NONE


@dataclass(slots=True)
class Result:
    """What a policy has lost and saved: recorded completions, attempts after a second failure, hours, money."""

    completions: int = 0
    lost: int = 0
    hopeless: int = 0
    saved: int = 0
    hours: float = 0.0
    wasted: float = 0.0  # hours of attempts that failed
    in_vain: float = 0.0  # of those, hours of hopeless ones

    def row(self, price: float) -> str:
        """Return the cells of the table; `price`: of an hour of a task."""
        kept = self.completions - self.lost
        lost = f"{self.lost:,} of {self.completions:,} | {self.lost / self.completions:.1%}"
        hours = f"{self.hours:,.0f} | {self.wasted:,.0f} | {self.in_vain:,.1f}"
        return f"{lost} | {self.saved} of {self.hopeless} | {hours} | {self.hours * price / kept * 1000:,.2f}"


def policies(files: Iterable[str]) -> Iterator[tuple[str, Policy]]:
    """Yield the policies that are compared, by name."""
    never = FailurePolicy(inject="Never")
    yield "Kubernetes' own", policy(default=Profile(failure_policy=never, retries=Retries(default=6)))
    yield "packaged", policy(default=Profile())
    ways = {
        "unknownExit: Confirm": FailurePolicy(unknown_exit="Confirm"),
        "manyPods: Auto": FailurePolicy(many_pods="Auto"),
        "manyPods: Auto, unknownExit: Confirm": FailurePolicy(many_pods="Auto", unknown_exit="Confirm"),
        "manyPods: Index": FailurePolicy(many_pods="Index"),
        "manyPods: Index, unknownExit: Confirm": FailurePolicy(many_pods="Index", unknown_exit="Confirm"),
    }
    for name, way in ways.items():
        yield name, policy(default=Profile(failure_policy=way))
    for file in files:
        read = parse(Path(file).read_text(encoding="utf-8"))
        if isinstance(read, list):
            sys.exit("\n".join(f"{file}: {problem}" for problem in read))
        yield file, read


def price_of(under: Policy) -> float:
    """Return the price of an hour of a task, as one core on-demand: by the policy, or else by the week's market."""
    rate = None if under.prices is None else rate_of(under.prices.rates, "OnDemand", {})
    return PER_HOUR["cpu"] if rate is None else per_hour(rate, {"cpu": 1.0})


def recorded(folder: Path) -> dict[str, list[Recorded]]:
    """Return the attempts of each job, in the order of their ends."""
    jobs: dict[str, list[Recorded]] = defaultdict(list)
    with gzip.open(folder / "borg_attempts.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            life, times = (row["task"], row["life"]), (float(row["start"]), float(row["end"]))
            jobs[row["job"]].append(Recorded(life, *times, row["outcome"], float(row["hours"])))
    for attempts in jobs.values():
        attempts.sort(key=lambda one: one.end)
    return jobs


def shape_of(attempts: list[Recorded]) -> Shape:
    """Return the Job that has run these attempts: as many indexes as there are, as many pods as ran at once."""
    steps = sorted([(one.start, 1) for one in attempts] + [(one.end, -1) for one in attempts])
    at_once = max(accumulate(step for _, step in steps))
    indexes = len({one.life for one in attempts})
    return Shape(
        "default",
        ("main",),
        indexed=True,
        completions=indexes,
        parallelism=min(at_once, indexes),
        independent=are_independent(attempts),
    )


def are_independent(attempts: list[Recorded]) -> bool:
    """Return True if a task of a job was seen to go on without another one that had failed.

    For as long as the failed attempt had run: pods that need a peer crash, or wait for it, soon after they lose it.
    """
    failed = [one for one in attempts if one.outcome == "FAIL"]
    return any(
        other.start < one.end and other.end > 2 * one.end - one.start and other.life != one.life
        for one in failed
        for other in attempts
    )


def replay(decider: Decider, attempts: list[Recorded], result: Result) -> None:
    """Add to the result what the policy makes of one job."""
    shape, indexes = shape_of(attempts), defaultdict[Any, Index](Index)
    evictions = [one.end for one in attempts if one.outcome == "EVICT"]
    failures = lost = 0
    longest, over, has_finished = 0.0, float("inf"), False
    for one in attempts:
        index = indexes[one.life]
        is_run = not index.is_lost and one.end <= over
        is_hopeless = index.failures >= HOPELESS
        result.completions += one.outcome == "FINISH"
        result.lost += one.outcome == "FINISH" and not is_run
        result.hopeless += is_hopeless
        result.saved += is_hopeless and not is_run
        index.failures += one.outcome == "FAIL"
        if not is_run:
            continue
        result.hours += one.hours
        has_finished = has_finished or one.outcome == "FINISH"
        if one.outcome not in ENDS:
            continue
        result.wasted += one.hours
        result.in_vain += one.hours * is_hopeless
        longest = max(longest, one.end - one.start)
        proven = has_finished or any(
            other.start < one.end < other.end and one.end - other.start > OUTLIVED * longest for other in attempts
        )
        spent = SpentBefore(failures, index.counted, index.ignored, index.disruptions, 0, 0, lost, proven)
        verdict = decider.decide(shape, ENDS[one.outcome], spent, index.after, "")
        index.after = decider.after(shape, ENDS[one.outcome], spent, index.after, "", "")
        is_explained = verdict.within > 0 and any(abs(time - one.end) <= verdict.within for time in evictions)
        if verdict.ends == "Job" and not is_explained:
            over = one.end
        elif verdict.ends == "index":
            index.is_lost = True
            lost += 1
        if verdict.cost == "disruption":
            index.disruptions += 1
        else:
            failures += 1
            index.counted += 1
        index.ignored = verdict.ignored


def main(folder: str, *files: str) -> None:
    jobs = recorded(Path(folder))
    print(f"{sum(map(len, jobs.values()))} attempts of {len(jobs)} jobs\n")
    print(f"| {' | '.join(HEADINGS)} |")
    print("| --- " * len(HEADINGS) + "|")
    for name, under in policies(files):
        result, decider = Result(), Decider(under)
        for attempts in jobs.values():
            replay(decider, attempts, result)
        print(f"| {name} | {result.row(price_of(under))} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
