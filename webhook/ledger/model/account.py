"""A workload's account: every pod that ended without success, counted once, in at most 4 KiB.

Counts are kept as long as the workload exists; of single attempts only the last ones, as many as fit.
"""

from base64 import b64encode
from collections.abc import Container
from functools import lru_cache
from typing import Annotated, Any, Final, Self
from uuid import UUID

import msgspec

from webhook.history import usage
from webhook.history.usage import Rows, Used
from webhook.ledger.model import scopes
from webhook.ledger.model.kueue.evictions import Evictions
from webhook.ledger.model.outcomes import UNSEEN, Cost, Outcome
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.scopes import Scopes
from webhook.policy.applied import Applied
from webhook.policy.settings import LARGEST_COUNT

LARGEST: Final = 4096  # bytes of the annotation
DETAILS: Final = 10
MOST_REASONS: Final = 6  # of one cause: the API does not bound the reasons in the status of pods
LONGEST_REASON: Final = 64  # characters: enough for a container's name and an exit code
KEPT: Final = 30  # ids of pods that are kept longer than needed: another replica may not have seen them counted yet
MOST_RESTARTED: Final = 48  # ids of pods whose restarts in place are counted and that may have no mark
KEPT_RESTARTED: Final = 16  # of those, the ones that are kept longer than needed, as KEPT
MOST_RECENT: Final = 60  # ids of counted pods that may still exist without a mark, beside every other part at its bound
MOST_AT_ONCE: Final = 160  # the same where other parts leave room for them
ROOM_OF_ID: Final = 11  # bytes of an id in the text
SPARED: Final = 1200  # bytes for the last attempts, and for what the other parts grow by while the pods are counted
ID: Final = 8  # characters of a pod's id: 48 of the 122 random bits of its uid
OTHER: Final = "Other"
MENDED: Final = ("retry", "disruption")  # what an end cost that the ledger finds fatal afterwards
MOST_DECODED: Final = 500  # accounts that are kept decoded: those of the workloads that change, or that get pods, now
MOST_MESSAGES: Final = 3  # attempts whose last words are kept

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Names = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=usage.LONGEST_NAME)]], msgspec.Meta(max_length=usage.MOST_RESOURCES)
]


class Left(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the scope of an attempt had left after it: retries (restarts, in a JobSet) and disruptions."""

    retries: int
    disruptions: int


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One ended pod in detail.

    - `attempt`: the retries that were spent when the pod was created, as its annotation says.
    - `restart`: how often the pod had restarted in place when this attempt ended so; 0 for the end of the pod.
    - `cost`: as in `Outcome`. `rule`: the index of the failure policy's rule that matched; `action`: its action.
    - `on_failure`: the index of the rule of `onFailure` that decided; None if none matched.
    - `settled`: whether the ledger, and not a rule of a failure policy, found that the crash ends the workload.
    - `left`: what its scope had left after it; None if that is not known.
    - `message`: its last words; empty if it left none, or if they are not kept.
    - Times are RFC 3339.
    """

    attempt: Count
    restart: Count = 0
    scope: str = msgspec.field(default="", name="unit")
    pod: str
    node: str = ""
    placement: str = ""
    start: str = ""
    end: str = ""
    cause: str
    reason: str = ""
    rule: int | None = None
    action: str = ""
    cost: Cost
    on_failure: int | None = msgspec.field(default=None, name="onFailure")
    settled: bool = False
    left: Left | None = None
    message: str = ""

    def __deepcopy__(self, _: object) -> Self:
        """Return the attempt itself, which cannot change: a forecast copies an account for each way to fail."""
        return self


class Account(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The content of the annotation; docs/reference/account.md shows it.

    - `ended`: the number of pods that ended. `cost`: how many of them by cost. `spot`: how many of them were placed on
      spot. `in_place`: by cost, the attempts that ended in a pod that ran on. `causes`: both, by cause and reason.
    - `restarted`: by the id of a pod, how many of its restarts in place are counted, the newest last.
    - `scopes`, stored as `units`: disruptions by scope since the limits were last reset. `in_pods`: whether their
      numbers are exact although some were dropped, because the pods of those say theirs. `free`: free restarts alike.
      `retries`: retries alike; None in Jobs and JobSets.
    - `before`: `cost` as it was at the last requested retry.
    - `grants`: how often the Job was resumed after the ledger had suspended it. `suspended`: whether it is so now.
    - `left`: what the scope of the last pod had left.
    - `applied`: the fields of the profile with which the last pod was counted.
    - `last`: the last attempts in detail. `recent`: ids of counted pods that may exist without a mark.
    - `evictions`: those of its Workload by Kueue; None if there were none.
    - `lost`: what the counted pods used, by cause and capacity. `saved`: what the retries that were left when a bug
      ended the workload would have used, if each were like that attempt. `resources`: the names of what the rows of
      both list. `currency`: of their prices; empty if there are none.
    """

    ended: Count = 0
    cost: dict[Cost, Count] = msgspec.field(default_factory=dict)
    in_place: dict[Cost, Count] = msgspec.field(default_factory=dict, name="inPlace")
    restarted: dict[str, Count] = msgspec.field(default_factory=dict)
    causes: dict[str, dict[str, Count]] = msgspec.field(default_factory=dict)
    spot: Count = 0
    scopes: Scopes = msgspec.field(default_factory=Scopes, name="units")
    in_pods: bool = msgspec.field(default=False, name="inPods")
    free: Scopes = msgspec.field(default_factory=Scopes)
    retries: Scopes | None = None
    before: dict[Cost, Count] = msgspec.field(default_factory=dict)
    grants: Count = 0
    suspended: bool = False
    left: Left | None = None
    applied: Applied | None = None
    last: list[Attempt] = msgspec.field(default_factory=list)
    recent: list[str] = msgspec.field(default_factory=list)
    evictions: Evictions | None = None
    resources: Names = msgspec.field(default_factory=list)
    currency: Annotated[str, msgspec.Meta(max_length=3)] = ""
    lost: Rows = msgspec.field(default_factory=dict)
    saved: Rows = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Pass on what was read about the scopes."""
        self.scopes.exact = self.scopes.exact or self.in_pods

    def has(self, pod: Pod) -> bool:
        """Return True if a pod is counted."""
        return pod.counted or id_of(pod) in self.recent

    @property
    def room(self) -> int:
        """How many more pods can be counted before counted ones must be marked."""
        spare = LARGEST - SPARED - len(encoder.encode(msgspec.structs.replace(self, last=[])))
        return max(MOST_RECENT - len(self.recent), min(MOST_AT_ONCE - len(self.recent), spare // ROOM_OF_ID))

    def spent(self, cost: Cost) -> int:
        """Return how many ended pods had this cost."""
        return self.cost.get(cost, 0)

    def retries_of(self, scope: str) -> int:
        """Return how many retries a scope of a workload of another kind has had: at least as many as there were."""
        return 0 if self.retries is None else self.retries.of(scope)

    def sure_retries_of(self, scope: str) -> int:
        """Return how many retries a scope of a workload of another kind has had: at most as many as there were."""
        return 0 if self.retries is None else self.retries.at_least(scope)

    def spend_retry(self, scope: str) -> None:
        """Count a retry of a scope of a workload of another kind."""
        if self.retries is None:
            self.retries = Scopes()
        self.retries.add(scope)

    def spent_now(self, cost: Cost) -> int:
        """Return how many ended pods had this cost since the last requested retry."""
        return self.spent(cost) - self.before.get(cost, 0)

    @property
    def ended_now(self) -> int:
        """How many pods have ended since the last requested retry."""
        return self.ended - sum(self.before.values())

    @property
    def last_now(self) -> list[Attempt]:
        """The last pods in detail, of those that have ended since the last requested retry."""
        ends = [detail for detail in self.last if not detail.restart]
        return ends[max(0, len(ends) - self.ended_now) :]

    def begin_anew(self) -> None:
        """Reset every budget, and keep the counts: for a requested retry."""
        self.before = dict(self.cost)
        self.scopes = Scopes()
        self.free = Scopes()
        self.retries = None
        self.suspended = False
        self.left = None
        self.applied = None
        if self.evictions is not None:
            self.evictions.begin_anew()

    def count(  # noqa: PLR0913 - what is known of an ended pod
        self,
        outcome: Outcome,
        scope: str,
        attempt: int,
        *,
        message: str = "",
        used: Used | None = None,
        disruptions: int | None = None,
    ) -> Attempt:
        """Count an ended pod that is not counted yet; return its Attempt.

        `message`: its last words. `used`: what it used; None if that is not known. `disruptions`: those of its scope
        before it, as it says itself; None if that is not known.
        """
        pod = outcome.pod
        self.recent.append(id_of(pod))
        self.spot += pod.placement == "Spot"
        return self.add(
            Attempt(
                attempt=attempt,
                scope=scope,
                pod=pod.name,
                node=pod.node,
                placement=pod.placement,
                start=pod.started,
                end=pod.ended,
                cause=outcome.cause,
                reason=outcome.reason[:LONGEST_REASON],
                rule=None if outcome.rule is None else outcome.rule.index,
                action="" if outcome.rule is None else outcome.rule.action,
                cost=outcome.cost,
                on_failure=outcome.on_failure,
                message=message,
            ),
            used,
            disruptions,
        )

    def count_unseen(self, failures: int) -> None:
        """Count failures that are in the Job's status but of which no pod was seen."""
        if failures > DETAILS:
            self.add_to_counts("Other", UNSEEN, "retry", failures - DETAILS)
        for _ in range(min(failures, DETAILS)):
            self.add(Attempt(attempt=self.spent_now("retry"), pod="", cause="Other", reason=UNSEEN, cost="retry"))

    def add_to_counts(self, cause: str, reason: str, cost: Cost, number: int) -> None:
        """Add attempts of one cause, reason and cost to the counts."""
        self.ended += number
        self.cost[cost] = self.spent(cost) + number
        self.add_cause(cause, reason, number)

    def add_cause(self, cause: str, reason: str, number: int) -> None:
        """Add attempts of one cause and reason."""
        reasons = self.causes.setdefault(cause, {})
        known = reason if reason in reasons or len(reasons) < MOST_REASONS else OTHER
        reasons[known] = min(reasons.get(known, 0) + number, LARGEST_COUNT)

    def add(self, detail: Attempt, used: Used | None = None, disruptions: int | None = None) -> Attempt:
        """Add an attempt to the counts, to the details, and to what was lost; `disruptions`: as in `count`."""
        self.add_to_counts(detail.cause, detail.reason, detail.cost, 1)
        self.add_lost(detail.cause, used)
        if detail.cost == "disruption":
            self.scopes.add(detail.scope, disruptions)
        elif detail.cost == "free":
            self.free.add(detail.scope)
        self.last = [*self.last, detail][-DETAILS:]
        return detail

    def add_restart(self, detail: Attempt, used: Used | None = None) -> Attempt:
        """Add an attempt that ended in place to the counts, to the details, and to what was lost."""
        self.add_restarts(detail.cause, detail.reason, detail.cost, detail.scope, 1)
        self.add_lost(detail.cause, used)
        self.last = [*self.last, detail][-DETAILS:]
        return detail

    def add_restarts(self, cause: str, reason: str, cost: Cost, scope: str, number: int) -> None:
        """Add attempts of one cause, reason, cost and scope that ended in place to the counts."""
        self.in_place[cost] = min(self.in_place.get(cost, 0) + number, LARGEST_COUNT)
        self.add_cause(cause, reason, number)
        if cost == "free":
            self.free.put(scope, min(self.free.of(scope) + number, LARGEST_COUNT))

    def add_lost(self, cause: str, used: Used | None) -> None:
        """Add what an attempt used; None if that is not known."""
        if used is not None:
            self.price_in(used.currency)
            usage.add(self.lost, cause, used, self.resources)

    def save(self, cause: str, used: Used, retries: int) -> None:
        """Record that a bug left so many retries unused; `used`: what its attempt used."""
        if retries:
            self.price_in(used.currency)
            usage.add(self.saved, cause, used, self.resources, retries)

    def price_in(self, currency: str) -> None:
        """Forget the prices of attempts in another currency: the policy has another one now."""
        if currency and currency != self.currency:
            if self.currency:
                usage.forget_prices(self.lost)
                usage.forget_prices(self.saved)
            self.currency = currency

    def note_left(self, left: Left) -> Attempt:
        """Record what is left after the attempt that was counted last; return that attempt."""
        self.left = left
        self.last[-1] = msgspec.structs.replace(self.last[-1], left=left)
        return self.last[-1]

    def forget_messages(self, keep: int) -> None:
        """Forget the last words of all attempts but the newest `keep` that left any."""
        places = [place for place, detail in enumerate(self.last) if detail.message]
        for place in places[: max(0, len(places) - keep)]:
            self.last[place] = msgspec.structs.replace(self.last[place], message="")

    def reset_limits(self) -> None:
        """Forget all disruptions, so that each scope may have `disruptions.limit` again: the Job was resumed."""
        self.scopes = Scopes()
        self.grants += 1
        self.suspended = False

    def forget(self, keep: int, staying: Container[str]) -> None:
        """Forget all ids but the newest `keep` and those in `staying`, whose pods could be counted again."""
        old = self.recent[: max(0, len(self.recent) - keep)]
        self.recent = [*(one for one in old if one in staying), *self.recent[len(old) :]]

    def settle(self, pod_name: str) -> bool:
        """Record that the end of a pod was fatal, which had cost a retry, or a disruption; return False if none was."""
        ends = [(place, detail) for place, detail in enumerate(self.last) if not detail.restart]
        places = [place for place, detail in ends if detail.pod == pod_name and detail.cost in MENDED]
        places = places[-1:]  # kinds other than Job create pods of the same name
        cost: Cost = self.last[places[-1]].cost if places else "retry"
        if not self.spent_now(cost):
            return False
        self.cost[cost] -= 1
        self.cost["fatal"] = self.spent("fatal") + 1
        for place in places:
            if self.retries is not None:
                self.retries.take_back(self.last[place].scope)
            self.last[place] = msgspec.structs.replace(self.last[place], cost="fatal", settled=True)
        return True


def id_of(pod: Pod) -> str:
    """Return the short id of a pod: 48 bits of its uid, or the beginning of a uid that is no UUID."""
    try:
        return b64encode(UUID(pod.uid).bytes[:6], b"-_").decode()
    except ValueError:
        return pod.uid[:ID]


def decode(text: str | None) -> Account:
    """Return the account in the annotation, an empty one for None; raise ValueError if it is malformed or too long."""
    if text is not None and (len(text) > LARGEST or len(text.encode()) > LARGEST):
        raise ValueError(f"longer than {LARGEST} bytes")
    account = Account() if text is None else decoder.decode(text)
    if any(number > account.spent(cost) for cost, number in account.before.items()):
        raise ValueError("more was spent before the last requested retry than in all")
    return account


@lru_cache(maxsize=MOST_DECODED)
def shared(text: str | None) -> Account:
    """Return what `decode` does: the same object for each caller, which must not change it.

    So an account is not decoded again for each pod.
    """
    return decode(text)


def encode(account: Account) -> str:
    """Return the text of the annotation, which has at most LARGEST bytes: parts give way in the order of GIVE_WAY."""
    encoded = encoded_once(account)
    for give_way in GIVE_WAY:
        while len(encoded) > LARGEST and give_way(account):
            encoded = encoded_once(account)
    return encoded.decode()


def encoded_once(account: Account) -> bytes:
    """Return an account as JSON, however long; `in_pods` says what holds after the drop of scopes in it."""
    encoded = encoder.encode(account)
    in_pods = account.scopes.exact and account.scopes.others > 0
    if in_pods != account.in_pods:
        account.in_pods = in_pods
        encoded = encoder.encode(account)
    return encoded


def drop_detail(account: Account) -> bool:
    """Drop the oldest attempt in detail; return False if there is none."""
    dropped = bool(account.last)
    account.last = account.last[1:]
    return dropped


def shorten_usage(account: Account) -> bool:
    """Add up some rows of `lost` and `saved`; return False if there are none to add up."""
    return usage.shorten(account.saved) or usage.shorten(account.lost)


def shorten_scopes(account: Account) -> bool:
    """Allow the scopes half their room; return False if they have none."""
    by_scope = (account.free, account.retries, account.scopes)
    return any(one is not None and one.shorten() for one in by_scope)


def add_up_reasons(account: Account) -> bool:
    """Add up the reasons of the cause with the longest ones; return False if no cause has more than one."""
    found = max(account.causes.values(), key=lambda reasons: len("".join(reasons).encode()), default={})
    if set(found) <= {OTHER}:
        return False
    number = sum(found.values())
    found.clear()
    found[OTHER] = min(number, LARGEST_COUNT)
    return True


def shorten_evictions(account: Account) -> bool:
    """Add up the reasons of evictions; return False if there are none to add up."""
    return account.evictions is not None and account.evictions.shorten()


def forget_usage(account: Account) -> bool:
    """Forget what was used; return False if nothing is known of that."""
    known = bool(account.lost or account.saved or account.resources)
    account.lost, account.saved, account.resources = {}, {}, []
    return known


# What gives way, in this order, until an account is short enough.
GIVE_WAY: Final = (drop_detail, shorten_usage, shorten_scopes, add_up_reasons, shorten_evictions, forget_usage)


def continued(text: str | None) -> str | None:
    """Return the annotation that a workload has after a requested retry; None if it had no readable one before."""
    try:
        account = None if text is None else decode(text)
    except ValueError:
        return None
    if account is None:
        return None
    account.begin_anew()
    return encode(account)


def write_scopes(value: Any) -> Any:
    """Return a value that JSON can hold; msgspec calls this for Scopes."""
    if isinstance(value, Scopes):
        return value.written()
    raise NotImplementedError


def read_scopes(kind: type, value: Any) -> Any:
    """Return the value of a type that JSON does not have; msgspec calls this for Scopes."""
    if kind is Scopes:
        return scopes.read(value)
    raise NotImplementedError


decoder: Final = msgspec.json.Decoder(Account, dec_hook=read_scopes)  # its ValidationError is a ValueError
encoder: Final = msgspec.json.Encoder(enc_hook=write_scopes)
