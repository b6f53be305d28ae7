"""What a report is made of: workloads with their attempts, of records here, of a live cluster in live.py. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from webhook.history.reading import History
from webhook.history.record import AttemptRecord, Capacity, Record, WorkloadRecord
from webhook.history.usage import UsedRow
from webhook.objects.times import seconds
from webhook.policy.causes import Cause, Loss

DAY: Final = 86400.0
CLOCKS: Final = DAY  # seconds by which clocks may differ
OLDEST: Final = 2 * 365 * DAY  # seconds since the end of an attempt of which nothing says when it was created

State = Literal["Running", "Complete", "Failed", "Suspended", "Unknown"]


class Window(NamedTuple):
    """The time that a report covers, in seconds since 1970; None if it has no such bound. `until` is outside."""

    since: float | None = None
    until: float | None = None

    def has(self, time: str) -> bool:
        """Return True if a time, RFC 3339, is in the window; a text that is no time is only in an unbounded one."""
        if self.since is None and self.until is None:
            return True
        at = seconds(time)
        return at is not None and (self.since or 0.0) <= at and (self.until is None or at < self.until)


class Price(NamedTuple):
    """What an attempt cost, and what the same would have cost on-demand; None if that is not known."""

    paid: float | None
    on_demand: float | None


PriceOf = Callable[[AttemptRecord], Price]
# The price of a row of an account, whose names of resources and currency are given.
RowPrice = Callable[[UsedRow, Capacity, list[str], str], Price]
NOTHING: Final = Price(0.0, 0.0)  # of what did not run
UNKNOWN: Final = Price(None, None)


class Counted(NamedTuple):
    """Ended attempts that are only known as a sum. Resources are in units times seconds, memory in GiB-seconds.

    `kept`: which share of them the attempts after them need not repeat.
    """

    number: int
    cause: Cause
    loss: Loss | None
    capacity: Capacity = ""
    seconds: float = 0.0
    resources: Mapping[str, float] = {}
    price: Price = UNKNOWN
    kept: float = 0.0


@dataclass(slots=True, kw_only=True)
class Known:
    """One workload.

    - `attempts`: those that ended, and those that run, which have no `end` and whose cause says nothing.
    - `counted`: attempts that are not among them; of these, `told` are those of which more is known than the sums.
    - `saved`: what retries that a bug did not have would have used, beside those that follow from `attempts`.
    - `rules`: what decided about an attempt, by the name of its pod.
    - `per_index`: whether each index has retries of its own.
    """

    namespace: str
    kind: str
    name: str
    uid: str
    profile: str = ""
    owner: str = ""
    state: State = "Unknown"
    reason: str = ""
    created: str = ""
    end: str = ""
    per_index: bool = False
    attempts: list[AttemptRecord] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    told: list[AttemptRecord] = field(default_factory=list)
    saved: list[Counted] = field(default_factory=list)
    rules: dict[str, str] = field(default_factory=dict)


def lifetime(known: Known, attempt: AttemptRecord, now: float) -> tuple[float, float]:
    """Return the time in which an attempt can have run: from the creation of its pod, or else of its workload, to now.

    In seconds since 1970. Users may write any other time of a pod; creation times are the API server's.
    """
    created = seconds(attempt.created)
    if created is None:
        created = seconds(known.created)
    return (now - OLDEST if created is None else created) - CLOCKS, now + CLOCKS


def has_unknown_requests(attempt: AttemptRecord) -> bool:
    """Return True if nothing says what an attempt requested: its pod, and so its uid, is gone from the cluster."""
    return not attempt.uid and not attempt.resources


def wanted(window: Window, namespace: str | None, profile: str | None) -> Callable[[Record], bool]:
    """Return whether a record is for the report.

    Of workloads also those that ended outside the window, because their attempts may be in it.
    """

    def is_wanted(record: Record) -> bool:
        if namespace not in {None, record.namespace} or profile not in {None, record.profile}:
            return False
        return isinstance(record, WorkloadRecord) or window.has(record.end)

    return is_wanted


def recorded(history: History, window: Window) -> list[Known]:
    """Return the workloads that have attempts, or ended, in the window."""
    found: dict[str, Known] = {}
    for attempt in history.attempts.values():
        # A JobSet that was gone when the record was written has no uid.
        key = attempt.workload_uid or f"{attempt.namespace}/{attempt.kind}/{attempt.workload}"
        known = found.get(key)
        if known is None:
            known = found[key] = Known(
                namespace=attempt.namespace,
                kind=attempt.kind,
                name=attempt.workload,
                uid=key,
                profile=attempt.profile,
                owner=attempt.owner,
            )
        known.attempts.append(attempt)
    for uid, record in history.workloads.items():
        if uid not in found and window.has(record.end):
            found[uid] = Known(namespace=record.namespace, kind=record.kind, name=record.workload, uid=uid)
        if (known := found.get(uid)) is not None:
            known.profile, known.owner = record.profile, record.owner
            known.state, known.reason = record.outcome, record.reason
            known.created, known.end, known.per_index = record.created, record.end, record.per_index
    return list(found.values())
