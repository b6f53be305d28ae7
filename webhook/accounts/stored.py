"""The Account as the API has it: its status, its conditions, and how the account of a workload is read from it. Pure.

The fields of the structs are the OpenAPI schema of the CRD too, with their descriptions and bounds. Any bytes give an
account or raise ValueError: each number, text, list and depth has a bound. All parts at their bounds fit into LARGEST.
Lists keep their order in the API; maps do not, so there are none.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Final, get_args

import msgspec
from msgspec import Meta, Struct, field

from webhook.accounts import account, kueue, scopes
from webhook.accounts.account import (
    DETAILS,
    LONGEST_ID,
    LONGEST_REASON,
    MOST_REASONS,
    MOST_RECENT,
    MOST_RESTARTED,
    Account,
    AccountCondition,
    Attempt,
    ConditionType,
    Count,
    Left,
    Time,
)
from webhook.accounts.kueue import CountedEvictions
from webhook.accounts.scopes import Scopes
from webhook.history.record import Capacity
from webhook.history.usage import LONGEST_NAME as LONGEST_RESOURCE
from webhook.history.usage import MOST_RESOURCES, Rows, UsedRow, total
from webhook.objects.left_out import UnfitError
from webhook.objects.problem import Json
from webhook.objects.times import time_of
from webhook.policy.applied import Applied
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.causes import Cause
from webhook.policy.settings import LARGEST_COUNT
from webhook.systems import retry_history
from webhook.systems.account_object import ACCOUNT, is_of
from webhook.systems.kind_spec import KindSpec

LARGEST: Final = 68 * 1024  # bytes of a status
MOST_DECODED: Final = 500  # accounts that are kept decoded: those of the workloads that change, or that get pods, now
CAUSES: Final = len(get_args(Cause))
MOST_CAUSES: Final = CAUSES * (MOST_REASONS + 1)  # and those that are added up
MOST_ROWS: Final = (CAUSES + 1) * len(get_args(Capacity))
MOST_CONDITIONS: Final = 3

Amount = Annotated[float, Meta(ge=0, le=1e18)]
Reason = Annotated[str, Meta(max_length=LONGEST_REASON)]
Resource = Annotated[str, Meta(max_length=LONGEST_RESOURCE)]
Id = Annotated[str, Meta(max_length=LONGEST_ID)]


class SpentBudget(Struct, frozen=True, omit_defaults=True):
    """How much of a budget is spent by all attempts, and what the scope of the last one has left.

    `spent` counts attempts, `left` what the budget of one scope allows. They differ most in a JobSet, whose pods stand
    under two levels: `spent` has the retries of its Jobs too, and each of several pods that fail in one run, for which
    the set restarts once; `left` is restarts. Its status has the restarts that are spent.
    """

    spent: Annotated[
        Count, Meta(description="How many attempts have cost one since the last requested retry, in all scopes.")
    ]
    left: Annotated[
        Count | None, Meta(description="How many the scope of the last pod had left; absent if that is not known.")
    ] = None


class Costs(Struct, frozen=True, omit_defaults=True):
    """A number of attempts by what they cost."""

    retry: Annotated[Count, Meta(description="Attempts that cost a retry.")] = 0
    disruption: Annotated[Count, Meta(description="Attempts that cost a disruption.")] = 0
    free: Annotated[Count, Meta(description="Attempts that restarted for free.")] = 0
    none: Annotated[Count, Meta(description="Attempts that cost nothing, because the workload had ended.")] = 0
    fatal: Annotated[Count, Meta(description="Attempts after which no retry followed.")] = 0


class CauseCount(Struct, frozen=True, omit_defaults=True):
    """How many attempts ended by one cause."""

    cause: Annotated[Cause, Meta(description="Why they ended.")]
    reason: Annotated[Reason, Meta(description="More about it, such as a container and its exit code.")] = ""
    attempts: Annotated[Count, Meta(description="How many attempts ended so.")] = 0


class ScopeGroup(Struct, frozen=True):
    """Scopes with equally many attempts."""

    number: Annotated[Count, Meta(description="How many each of the scopes has had.")]
    scopes: Annotated[
        str, Meta(max_length=scopes.LONGEST, description="The scopes, consecutive indexes as a range, such as 0-3,7.")
    ]


class ScopeCounts(Struct, frozen=True, omit_defaults=True):
    """A number of attempts by scope: by what has a budget of its own, such as a completion index."""

    groups: Annotated[
        list[ScopeGroup],
        Meta(max_length=scopes.MOST_GROUPS, description="Scopes by their number, the highest first."),
    ] = field(default_factory=list)
    others: Annotated[Count, Meta(description="The number with which each other scope counts: at most this many.")] = 0
    exact: Annotated[
        bool, Meta(description="Whether the groups are exact although others were dropped: pods say theirs.")
    ] = False


class CountedRestarts(Struct, frozen=True):
    """How many restarts in place of a pod are counted."""

    pod: Annotated[Id, Meta(description="The id of the pod: 48 bits of its uid.")]
    restarts: Annotated[Count, Meta(description="How many of its restarts in place are counted.")]


class CountedPods(Struct, frozen=True, omit_defaults=True):
    """The pods that are counted and may still exist, so that none is counted twice."""

    pods: Annotated[
        list[Id], Meta(max_length=MOST_RECENT, description="The ids of counted pods: 48 bits of the uid of each.")
    ] = field(default_factory=list)
    restarts: Annotated[
        list[CountedRestarts], Meta(max_length=MOST_RESTARTED, description="Counted restarts in place, by pod.")
    ] = field(default_factory=list)


class UsageRow(Struct, frozen=True, omit_defaults=True):
    """What attempts of one cause and capacity used."""

    cause: Annotated[Cause, Meta(description="Why they ended.")]
    capacity: Annotated[Capacity, Meta(description="Spot or OnDemand; empty if that is not known.")] = ""
    attempts: Annotated[Count, Meta(description="How many attempts.")] = 0
    seconds: Annotated[Amount, Meta(description="How long all of them ran, in seconds.")] = 0.0
    priced: Annotated[Count, Meta(description="How many of them have a price.")] = 0
    price: Annotated[Amount, Meta(description="What those cost, in the currency of `usage`.")] = 0.0
    resources: Annotated[
        list[Amount],
        Meta(max_length=MOST_RESOURCES, description="Resource-seconds, in the order of the names in `usage`."),
    ] = field(default_factory=list)


Lines = Annotated[list[UsageRow], Meta(max_length=MOST_ROWS)]


class StoredUsage(Struct, frozen=True, omit_defaults=True):
    """What the counted attempts used."""

    currency: Annotated[str, Meta(max_length=3, description="The currency of all prices.")] = ""
    resources: Annotated[
        list[Resource], Meta(max_length=MOST_RESOURCES, description="The names of the resources in the rows.")
    ] = field(default_factory=list)
    lost: Annotated[Lines, Meta(description="What the counted attempts used, by cause and capacity.")] = field(
        default_factory=list
    )
    saved: Annotated[
        Lines, Meta(description="What the retries would have used that were left when a bug ended the workload.")
    ] = field(default_factory=list)


class Lost(Struct, frozen=True, omit_defaults=True):
    """What all counted attempts used together."""

    seconds: Annotated[Amount, Meta(description="How long the attempts ran that ended without success.")]
    price: Annotated[Amount, Meta(description="What they cost, in the currency of `usage`.")] = 0.0
    kept: Annotated[Count, Meta(description="Seconds of work of them that the next ones need not repeat.")] = 0


class EvictionCount(Struct, frozen=True):
    """How often Kueue has evicted the workload for one reason."""

    reason: Annotated[str, Meta(max_length=kueue.LONGEST_REASON, description="The reason, as Kueue names it.")]
    number: Annotated[Count, Meta(description="How often.")]


EvictionCounts = Annotated[list[EvictionCount], Meta(max_length=kueue.MOST_REASONS)]


class Evicted(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The evictions of the workload by Kueue."""

    reasons: Annotated[EvictionCounts, Meta(description="How often it was evicted, by reason.")] = field(
        default_factory=list
    )
    before: Annotated[Count, Meta(description="How many of them the limit no longer counts.")] = 0
    limit: Annotated[Count | None, Meta(description="How many it may have; absent for any number.")] = None
    deactivated: Annotated[
        bool, Meta(description="Whether its Workload is not active after the limit was exceeded.")
    ] = False
    requeues: Annotated[Count, Meta(description="The requeues of its Workload.")] = 0
    requeue_at: Annotated[Time, Meta(description="When its Workload is queued again.")] = ""
    workload: Annotated[str, Meta(max_length=kueue.ID, description="The beginning of the uid of its Workload.")] = ""
    seen: Annotated[EvictionCounts, Meta(description="The evictions of that Workload that are counted.")] = field(
        default_factory=list
    )


# Parts that are not written, because they say nothing.
NONE_SPENT: Final = SpentBudget(0)
NO_COSTS: Final = Costs()
NO_SCOPES: Final = ScopeCounts()
NO_USAGE: Final = StoredUsage()
NONE_COUNTED: Final = CountedPods()
NONE_LOST: Final = Lost(0.0)


class AccountStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What the attempts of a workload cost that ended without success."""

    attempts: Annotated[
        Count, Meta(description="How many attempts ended without success: pods, and restarts of containers in them.")
    ]
    retries: Annotated[SpentBudget, Meta(description="The retries of the workload.")] = NONE_SPENT
    disruptions: Annotated[
        SpentBudget, Meta(description="The disruptions of the workload: preemptions, evictions, lost nodes.")
    ] = NONE_SPENT
    last_cause: Annotated[
        str, Meta(max_length=2 * LONGEST_REASON, description="Why the last attempt ended: cause and reason.")
    ] = ""
    last_node: Annotated[str, Meta(max_length=account.LONGEST_NODE, description="The node of the last attempt.")] = ""
    lost: Annotated[Lost, Meta(description="What all counted attempts used together.")] = NONE_LOST
    conditions: Annotated[
        list[AccountCondition],
        Meta(max_length=MOST_CONDITIONS, description="For kubectl wait: Failed, RetriesExhausted, Suspended."),
    ] = field(default_factory=list)
    causes: Annotated[
        list[CauseCount], Meta(max_length=MOST_CAUSES, description="The attempts by cause and reason.")
    ] = field(default_factory=list)
    ended: Annotated[Count, Meta(description="How many pods ended without success.")] = 0
    spot: Annotated[Count, Meta(description="How many of them were placed on spot nodes.")] = 0
    costs: Annotated[Costs, Meta(description="How many pods ended, by what that cost.")] = NO_COSTS
    in_place: Annotated[Costs, Meta(description="How many attempts ended in pods that ran on, by what that cost.")] = (
        NO_COSTS
    )
    before: Annotated[Costs, Meta(description="`costs` at the last requested retry.")] = NO_COSTS
    requested_at: Annotated[Time, Meta(description="The last requested retry after which the budgets began anew.")] = ""
    last: Annotated[
        list[Attempt],
        Meta(max_length=DETAILS, description="The last attempts in detail; older ones are in the sums alone."),
    ] = field(default_factory=list)
    scopes: Annotated[ScopeCounts, Meta(description="Disruptions by scope.")] = NO_SCOPES
    window_start: Annotated[
        Time, Meta(description="When the first disruption of `scopes` happened, if `disruptions.per` is set.")
    ] = ""
    work: Annotated[
        ScopeCounts,
        Meta(description="Seconds of work that its attempts have saved, by scope, if the workload has a deadline."),
    ] = NO_SCOPES
    free: Annotated[ScopeCounts, Meta(description="Free restarts by scope.")] = NO_SCOPES
    scope_retries: Annotated[
        ScopeCounts | None,
        Meta(description="Retries by scope; absent for a JobSet, and for a Job whose retries count for life."),
    ] = None
    retry_window_start: Annotated[
        Time, Meta(description="When the first retry of `scopeRetries` happened, if `retries.per` is set.")
    ] = ""
    reached: Annotated[
        ScopeCounts,
        Meta(description="Thousandths of its work that a scope has saved, if `retries.renewOnProgress` is set."),
    ] = NO_SCOPES
    renewed: Annotated[Count, Meta(description="How many retries count no more.")] = 0
    grants: Annotated[
        Count, Meta(description="How often it was resumed after a suspension, which allows as many disruptions again.")
    ] = 0
    suspending: Annotated[bool, Meta(description="Whether the ledger is about to suspend the workload.")] = False
    suspended: Annotated[bool, Meta(description="Whether the ledger has suspended the workload.")] = False
    returned: Annotated[
        Count,
        Meta(description="Failures in the status of the Job that a fault of their node explains: they cost none."),
    ] = 0
    backoff_limit: Annotated[
        Count | None,
        Meta(description="The backoffLimit that the leader is about to give the Job for these, and for `renewed`."),
    ] = None
    applied: Annotated[
        Applied | None, Meta(description="The fields of the profile by which the last attempt was counted.")
    ] = None
    evictions: Annotated[Evicted | None, Meta(description="The evictions by Kueue; absent if there were none.")] = None
    usage: Annotated[StoredUsage, Meta(description="What the counted attempts used.")] = NO_USAGE
    counted: Annotated[CountedPods, Meta(description="The pods that are counted and may still exist.")] = NONE_COUNTED


def encode(found: Account) -> str:
    """Return the status of an account as JSON, of at most LARGEST bytes."""
    return encoder.encode(status_of(found)).decode()


def decode(text: str | bytes | msgspec.Raw | None) -> Account:
    """Return the account in a status, an empty one for None; raise ValueError if it is malformed or too long."""
    if text is None:
        return Account()
    if len(text) > LARGEST:
        raise ValueError(f"longer than {LARGEST} bytes")
    try:
        status = decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    found = _decoded(status)
    if any(number > found.spent(cost) for cost, number in found.before.items()):
        raise ValueError("more was spent before the last requested retry than in all")
    return found


@lru_cache(maxsize=MOST_DECODED)
def shared(text: str | None) -> Account:
    """Return what `decode` does: the same object for each caller, which must not change it.

    So an account is not decoded again for each pod.
    """
    return decode(text)


def status_of(found: Account) -> AccountStatus:
    """Return the status of an account."""
    last = [_bounded(one) for one in found.last[-DETAILS:]]
    newest, left = (last[-1] if last else None), found.left
    rows, work = _rows_of(found.lost), _counts_of(found.work)  # which drops scopes that do not fit
    return AccountStatus(
        attempts=_at_most(found.ended + sum(found.in_place.values())),
        retries=SpentBudget(found.spent_now("retry"), None if left is None else _at_most(left.retries)),
        disruptions=SpentBudget(found.spent_now("disruption"), None if left is None else _at_most(left.disruptions)),
        last_cause="" if newest is None else f"{newest.cause} {newest.reason}".rstrip(),
        last_node="" if newest is None else newest.node,
        lost=_lost_of(rows, found.work.total()),
        conditions=found.conditions[:MOST_CONDITIONS],
        causes=[
            CauseCount(cause, _fitted(reason, LONGEST_REASON), number)
            for cause, reasons in found.causes.items()
            for reason, number in reasons.items()
        ],
        ended=found.ended,
        spot=found.spot,
        costs=_costs_of(found.cost),
        in_place=_costs_of(found.in_place),
        before=_costs_of(found.before),
        requested_at=found.requested_at,
        last=last,
        scopes=_counts_of(found.scopes, can_be_exact=True),
        window_start=known_time(found.window_start),
        work=work,
        free=_counts_of(found.free),
        scope_retries=None if found.retries is None else _counts_of(found.retries),
        retry_window_start=known_time(found.retry_window_start),
        reached=_counts_of(found.reached),
        renewed=_at_most(found.renewed),
        grants=found.grants,
        suspending=found.suspending,
        suspended=found.suspended,
        returned=_at_most(found.returned),
        backoff_limit=None if found.backoff_limit is None else _at_most(found.backoff_limit),
        applied=found.applied,
        evictions=_evicted_of(found.evictions),
        usage=StoredUsage(found.currency, found.resources, rows, _rows_of(found.saved))
        if found.resources or rows
        else NO_USAGE,
        counted=_counted_of(found),
    )


def _lost_of(rows: list[UsageRow], kept: int) -> Lost:
    seconds, price = total(*(row.seconds for row in rows)), total(*(row.price for row in rows))
    known = {"price": price, "kept": _at_most(kept)}  # a sum of floats is no default, even if it is 0
    return Lost(seconds, **{name: one for name, one in known.items() if one})  # type: ignore[arg-type]


def _counted_of(found: Account) -> CountedPods:
    if not found.recent and not found.restarted:
        return NONE_COUNTED
    restarts = [CountedRestarts(pod, number) for pod, number in found.restarted.items()]
    return CountedPods(found.recent[-MOST_RECENT:], restarts[-MOST_RESTARTED:])


def _decoded(status: AccountStatus) -> Account:
    causes: dict[Cause, dict[str, int]] = {}
    for one in status.causes:
        reasons = causes.setdefault(one.cause, {})
        reasons[one.reason] = _at_most(reasons.get(one.reason, 0) + one.attempts)
    known, usage = [status.retries.left, status.disruptions.left], status.usage
    return Account(
        ended=status.ended,
        cost=_by_cost(status.costs),
        in_place=_by_cost(status.in_place),
        restarted={one.pod: one.restarts for one in status.counted.restarts},
        causes=causes,
        spot=status.spot,
        scopes=_scopes_of(status.scopes, can_be_exact=True),
        window_start=known_time(status.window_start),
        work=_scopes_of(status.work),
        free=_scopes_of(status.free),
        retries=None if status.scope_retries is None else _scopes_of(status.scope_retries),
        retry_window_start=known_time(status.retry_window_start),
        reached=_scopes_of(status.reached),
        renewed=status.renewed,
        before=_by_cost(status.before),
        requested_at=known_time(status.requested_at),
        grants=status.grants,
        suspending=status.suspending,
        suspended=status.suspended,
        returned=status.returned,
        backoff_limit=status.backoff_limit,
        left=None if known[0] is None or known[1] is None else Left(retries=known[0], disruptions=known[1]),
        applied=status.applied,
        last=[_with_known_times(one) for one in status.last],
        recent=list(status.counted.pods),
        evictions=_evictions_of(status.evictions),
        resources=list(usage.resources),
        currency=usage.currency,
        lost=_rows_in(usage.lost),
        saved=_rows_in(usage.saved),
        conditions=list(status.conditions),
    )


def _bounded(detail: Attempt) -> Attempt:
    texts = {name: _fitted(getattr(detail, name), longest) for name, longest in account.LONGEST_OF_ATTEMPT.items()}
    texts |= {name: known_time(getattr(detail, name)) for name in ("start", "end")}
    changed = {name: text for name, text in texts.items() if text != getattr(detail, name)}
    return msgspec.structs.replace(detail, **changed) if changed else detail


def _fitted(text: str, longest: int) -> str:
    if text.isascii() and text.isprintable() and len(text) <= longest and '"' not in text and "\\" not in text:
        return text
    found = "".join(one if one.isprintable() else " " for one in text[:longest])
    while len(msgspec.json.encode(found)) - 2 > longest:
        found = found[: -max(1, (len(msgspec.json.encode(found)) - 2 - longest) // 4)]
    return found


def _with_known_times(detail: Attempt) -> Attempt:
    start, end = known_time(detail.start), known_time(detail.end)
    if (start, end) == (detail.start, detail.end):
        return detail
    return msgspec.structs.replace(detail, start=start, end=end)


def known_time(text: str) -> str:
    """Return a time, RFC 3339; empty if the text is none, has no zone, or is in no year that a cluster can have."""
    return "" if time_of(text) is None else text


def _costs_of(found: dict[AttemptCost, int]) -> Costs:
    return Costs(**{cost: _at_most(number) for cost, number in found.items()}) if any(found.values()) else NO_COSTS


def _by_cost(found: Costs) -> dict[AttemptCost, int]:
    return {cost: number for cost in get_args(AttemptCost) if (number := getattr(found, cost))}


def _counts_of(found: Scopes, *, can_be_exact: bool = False) -> ScopeCounts:
    groups = [ScopeGroup(number, text) for number, text in found.written()]
    if not groups and not found.others:
        return NO_SCOPES
    return ScopeCounts(groups, found.others, can_be_exact and found.exact and found.others > 0)


def _scopes_of(found: ScopeCounts, *, can_be_exact: bool = False) -> Scopes:
    read = scopes.read([(one.number, one.scopes) for one in found.groups], found.others)
    read.exact = not found.others or (can_be_exact and found.exact)
    return read


def _rows_of(found: Rows) -> list[UsageRow]:
    return [
        UsageRow(cause, capacity, row.attempts, row.seconds, row.priced, row.price, row.resources)  # type: ignore[arg-type]
        for cause, by_capacity in found.items()
        for capacity, row in by_capacity.items()
        if row.attempts or row.seconds
    ]


def _rows_in(found: Iterable[UsageRow]) -> Rows:
    rows: Rows = {}
    for one in found:
        row = UsedRow(one.attempts, one.seconds, one.priced, one.price, list(one.resources))
        rows.setdefault(one.cause, {}).setdefault(one.capacity, UsedRow()).add(row)
    return rows


def _evicted_of(found: CountedEvictions | None) -> Evicted | None:
    if found is None:
        return None
    fields = {name: getattr(found, name) for name in Evicted.__struct_fields__}
    fields["requeue_at"] = known_time(found.requeue_at)
    fields |= {name: [EvictionCount(*one) for one in sorted(fields[name].items())] for name in ("reasons", "seen")}
    return Evicted(**fields)


def _evictions_of(found: Evicted | None) -> CountedEvictions | None:
    if found is None:
        return None
    fields = {name: getattr(found, name) for name in Evicted.__struct_fields__}
    fields |= {name: {one.reason: one.number for one in fields[name]} for name in ("reasons", "seen")}
    fields["requeue_at"] = known_time(found.requeue_at)
    return CountedEvictions(**fields)


def _at_most(number: int) -> int:
    return min(max(0, number), LARGEST_COUNT)


decoder: Final = msgspec.json.Decoder(AccountStatus)  # its ValidationError is a ValueError
encoder: Final = msgspec.json.Encoder()


def is_account(found: Json) -> bool:
    """Return True if an object is an Account."""
    api_version = found.get("apiVersion")
    of_ours = isinstance(api_version, str) and api_version.partition("/")[0] == ACCOUNT.group
    return of_ours and found.get("kind") == ACCOUNT.kind


def account_of(kind: KindSpec, root: Json, found: Iterable[Json]) -> Account:
    """Return the account of a workload by its Account among some objects; an empty one if it has none.

    Raise UnfitError if its status cannot be read.
    """
    of_it = (one for one in found if is_account(one) and is_of(one, kind, root))
    try:
        return account_in(next(of_it, None), root)
    except ValueError as error:
        remedy = "a new one starts when the next attempt ends"
        raise UnfitError(f"its account cannot be read: {error}; {remedy}") from None


def account_in(found: Json | None, root: Json) -> Account:
    """Return the account of a workload, given its Account; an empty one without. Raise ValueError if it is malformed.

    After a requested retry the budgets have begun anew.
    """
    if found is None or found.get("status") is None:
        return Account()
    text = encode(decode(msgspec.json.encode(found["status"])))
    return decode(begun(text, retry_history.last_at(root)))


@lru_cache(maxsize=MOST_DECODED)
def begun(text: str, requested_at: str) -> str:
    """Return the text of an account as it is after the last requested retry; `requested_at`: its time, empty without.

    The account says for which retry its budgets have begun anew, so that they do once for each.
    """
    known = known_time(requested_at)
    if not text or not known:
        return text
    found = decode(text)
    if found.requested_at == known:
        return text
    found.begin_anew(known)
    return encode(found)


# For each condition the reason if it is true, if it is not, and a sentence about it.
TOLD: Final[dict[ConditionType, tuple[str, str, str]]] = {
    "Failed": ("FatalEnd", "NoFatalEnd", "the end of an attempt was fatal: no retry followed it"),
    "RetriesExhausted": ("NoneLeft", "SomeLeft", "the scope of the last attempt has no retry left"),
    "Suspended": ("DisruptionLimitExceeded", "NotSuspended", "disruptions exceeded their limit; resume it to go on"),
}


def updated(found: Account, now: str) -> list[AccountCondition]:
    """Return the conditions of an account; one that has not changed keeps its time, others have changed `now`."""
    states: dict[ConditionType, bool] = {
        "Failed": found.spent_now("fatal") > 0,
        "RetriesExhausted": found.left is not None and found.left.retries == 0,
        "Suspended": found.suspended,
    }
    before = {one.type: one for one in found.conditions}
    conditions = []
    for kind, (reason, otherwise, sentence) in TOLD.items():
        is_true = states[kind]
        known = before.get(kind)
        same = known is not None and (known.status == "True") == is_true
        conditions.append(
            AccountCondition(
                type=kind,
                status="True" if is_true else "False",
                last_transition_time=known.last_transition_time if known is not None and same else now,
                reason=reason if is_true else otherwise,
                message=sentence if is_true else "",
            )
        )
    return conditions
