"""What the records of history say of each workload: its attempts in order, and how it ended. Pure.

Times are in seconds since 1970.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from webhook.history.record import AttemptRecord, Capacity, Record, WorkloadRecord
from webhook.insight.report.known import CLOCKS
from webhook.objects.times import seconds
from webhook.pods.outcomes import NEVER_STARTED, OOM, SPOT_UNAVAILABLE, STOPPED
from webhook.systems.core import KILLED, TERMINATED

MOST_ATTEMPTS: Final = 2_000_000  # that are simulated from; of a larger history the first ones are used
MAIN: Final = "main"  # the name of a container that no record names


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended without success; `code` is 0 where there is no exit code."""

    cause: str
    reason: str
    code: int = 0
    container: str = MAIN


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """One ended attempt. `start` is None if no kubelet took the pod; `end_of` is None if it succeeded."""

    record: AttemptRecord
    created: float
    start: float | None
    end: float
    end_of: End | None
    capacity: Capacity

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return 0.0 if self.start is None else max(0.0, self.end - self.start)

    @property
    def is_disrupted(self) -> bool:
        """Whether the platform took its node or its place."""
        return self.end_of is not None and self.end_of.cause == "Disruption" and not self.waited_in_vain

    @property
    def waited_in_vain(self) -> bool:
        """Whether no spot node took it, or its containers could not start."""
        return self.record.reason == SPOT_UNAVAILABLE or self.record.cause == NEVER_STARTED

    @property
    def was_stopped(self) -> bool:
        """Whether its own workload ended it."""
        return self.record.reason == STOPPED or self.record.cost == "none"


@dataclass(slots=True)
class Story:
    """One workload that ended, with its attempts in the order of their ends."""

    record: WorkloadRecord
    created: float
    end: float
    attempts: list[PastAttempt] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether it succeeded."""
        return self.record.outcome == "Complete"

    def scopes(self) -> dict[str, list[PastAttempt]]:
        """Return the attempts of each scope, in order."""
        found: dict[str, list[PastAttempt]] = defaultdict(list)
        for one in self.attempts:
            found[one.record.scope].append(one)
        return found


@dataclass(slots=True)
class Past:
    """A whole history.

    - `stories`: the workloads that ended, oldest first. `attempts`: all attempts, also those of other workloads.
    - `unfinished`: how many workloads have attempts but no end. `unread`: records without usable times.
    - `guessed_capacity`: how many attempts say no capacity of their node, so that their placement stands for it.
    - `cut`: whether there were more than MOST_ATTEMPTS attempts.
    """

    stories: list[Story]
    attempts: list[PastAttempt]
    unfinished: int = 0
    unread: int = 0
    guessed_capacity: int = 0
    cut: bool = False

    @property
    def begin(self) -> float:
        """When the first workload was created."""
        return min((one.created for one in self.stories), default=0.0)

    @property
    def end(self) -> float:
        """When the last workload ended."""
        return max((one.end for one in self.stories), default=0.0)


def read(records: Iterable[Record], now: float = inf) -> Past:
    """Return what records say; of several about one uid the last one counts.

    Who writes a status can write any time: what ended before its creation, or after `now`, counts as unread.
    """
    attempts: dict[str, AttemptRecord] = {}
    workloads: dict[str, WorkloadRecord] = {}
    cut = False
    for record in records:
        if isinstance(record, WorkloadRecord):
            workloads[record.workload_uid] = record
        elif record.uid in attempts or len(attempts) < MOST_ATTEMPTS:
            attempts[record.uid] = record
        else:
            cut = True
    past = Past([], [], cut=cut)
    stories: dict[str, Story] = {}
    for uid, ended in workloads.items():
        created, end = seconds(ended.created), seconds(ended.end)
        if created is None or end is None or not created <= end <= now + CLOCKS:
            past.unread += 1
        else:
            stories[uid] = Story(ended, created, end)
    unfinished = set()
    for record in attempts.values():
        attempt = _attempt_of(record)
        if attempt is None or not attempt.created - CLOCKS <= attempt.end <= now + CLOCKS:
            past.unread += 1
            continue
        past.attempts.append(attempt)
        past.guessed_capacity += attempt.start is not None and not record.capacity
        if (story := stories.get(record.workload_uid)) is None:
            unfinished.add(record.workload_uid)
        else:
            story.attempts.append(attempt)
    past.unfinished = len(unfinished - workloads.keys())
    past.attempts.sort(key=lambda one: one.end)
    past.stories = sorted((one for one in stories.values() if one.attempts), key=lambda one: one.created)
    for story in past.stories:
        story.attempts.sort(key=lambda one: (one.end, one.created))
    return past


def _attempt_of(record: AttemptRecord) -> PastAttempt | None:
    """Return an attempt of its record; None if the record does not say when it ended."""
    end = seconds(record.end)
    if end is None:
        return None
    start = seconds(record.start) if record.start else None
    if start is not None and record.seconds:
        end = start + record.seconds
    created = seconds(record.created) if record.created else None
    if created is None:
        created = end if start is None else start
    return PastAttempt(record, created, start, end, _end_of(record), _capacity_of(record))


def _capacity_of(record: AttemptRecord) -> Capacity:
    """Return the capacity of an attempt's node; if that is not known, what the policy decided."""
    if record.capacity:
        return record.capacity
    return "Spot" if record.placement == "Spot" else "OnDemand" if record.placement == "OnDemand" else ""


def _end_of(record: AttemptRecord) -> End | None:
    """Return how an attempt ended; None if it succeeded."""
    if record.cause == "Succeeded":
        return None
    container, _, code = record.reason.partition(" ")
    match record.cause:
        case "ExitCode":
            return End(
                "ExitCode", "", int(code) if code.isdecimal() and len(code) < len("2147483648") else 1, container
            )
        case "OOMKilled":
            return End("OOMKilled", OOM, KILLED, container or MAIN)
        case "DeadlineExceeded":
            return End("DeadlineExceeded", "DeadlineExceeded", TERMINATED)
        case "Hardware":  # it would have crashed without the fault under no policy
            return End("Disruption", record.reason)
    return End(record.cause, record.reason)


def containers_of(attempts: Sequence[PastAttempt]) -> tuple[str, ...]:
    """Return the names of the containers that the ends of attempts name; MAIN if they name none."""
    found = {one.end_of.container for one in attempts if one.end_of is not None and one.end_of.code}
    return tuple(sorted(found)) or (MAIN,)
