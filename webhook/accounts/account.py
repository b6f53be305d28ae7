"""A workload's account: every pod that ended without success, counted once. How it is stored: stored.py.

Counts are kept as long as the workload exists; of single attempts only the last ones.
"""

from base64 import b64encode
from collections.abc import Container
from typing import Annotated, Final, Literal, Self
from uuid import UUID

import msgspec
from msgspec import Meta

from webhook.accounts.kueue import CountedEvictions
from webhook.accounts.scopes import Scopes
from webhook.history import usage
from webhook.history.usage import Rows, Used
from webhook.objects.times import seconds
from webhook.pods.outcomes import UNSEEN, Outcome
from webhook.pods.pods import LONGEST_MESSAGE, LONGEST_NAME, Pod
from webhook.policy.applied import Applied
from webhook.policy.attempt_costs import ATTEMPT_COSTS, AttemptCost
from webhook.policy.causes import CAUSES, Cause
from webhook.policy.settings import LARGEST_COUNT

DETAILS: Final = 10
MOST_REASONS: Final = 6  # of one cause: the API does not bound the reasons in the status of pods
LONGEST_REASON: Final = 128  # bytes as JSON
LONGEST_NODE: Final = 253
LONGEST_TIME: Final = 40
LONGEST_ACTION: Final = 32
KEPT: Final = 30  # ids of pods that are kept longer than needed: another replica may not have seen them counted yet
MOST_RESTARTED: Final = 48  # ids of pods whose restarts in place are counted and that may have no mark
KEPT_RESTARTED: Final = 16  # of those, the ones that are kept longer than needed, as KEPT
MOST_RECENT: Final = 400  # ids of counted pods that may still exist without a mark
ID: Final = 8  # characters of a pod's id: 48 of the 122 random bits of its uid
LONGEST_ID: Final = ID  # characters
OTHER: Final = "Other"
MOST_MESSAGES: Final = 3  # attempts whose last words are kept
WHOLE: Final = 1000  # the progress of an attempt that has done all of its work
RENEWING: Final = WHOLE // 20  # so much further an attempt must get for new retries: so nobody gets them 21 times

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Time = Annotated[str, Meta(max_length=LONGEST_TIME)]
ConditionType = Literal["Failed", "RetriesExhausted", "Suspended"]


class AccountCondition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A state of a workload that `kubectl wait` can wait for."""

    type: Annotated[ConditionType, Meta(description="Which state: Failed, RetriesExhausted or Suspended.")]
    status: Annotated[Literal["True", "False"], Meta(description="Whether the workload is in it.")]
    last_transition_time: Annotated[Time, Meta(description="When `status` changed last.")]
    reason: Annotated[str, Meta(max_length=LONGEST_REASON, description="Why, in one word.")]
    message: Annotated[str, Meta(max_length=512, description="Why, for people.")] = ""


class Left(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the scope of an attempt had left after it: retries (restarts, in a JobSet) and disruptions."""

    retries: Annotated[Count, Meta(description="Retries that were left; restarts in a JobSet.")]
    disruptions: Annotated[Count, Meta(description="Disruptions that were left.")]


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One ended pod in detail.

    - `attempt`: the retries that were spent when the pod was created, as its annotation says.
    - `restart`: how often the pod had restarted in place when this attempt ended so; 0 for the end of the pod.
    - `cost`: as in `Outcome`. `rule`: the index of the failure policy's rule that matched; `action`: its action.
    - `on_failure`: the index of the rule of `onFailure` that decided; None if none matched.
    - `settled`: whether the ledger, and not a rule of a failure policy, found that the crash ends the workload.
    - `left`: what its scope had left after it; None if that is not known. `saved`: seconds of its work that the next
      attempt need not repeat, if the workload has a deadline. `progress`: how much of all its work it has said that is
      saved, in thousandths; None if it did not.
    - `message`: its last words; empty if it left none, or if they are not kept.
    - Times are RFC 3339.
    """

    attempt: Annotated[Count, Meta(description="The retries that were spent when the pod was created.")]
    restart: Annotated[
        Count, Meta(description="How often the pod had restarted in place when it ended so; 0 for the end of the pod.")
    ] = 0
    scope: Annotated[
        str, Meta(max_length=LONGEST_NAME, description="What has a budget of its own, such as a completion index.")
    ] = ""
    pod: Annotated[str, Meta(max_length=LONGEST_NAME, description="The name of the pod.")]
    node: Annotated[str, Meta(max_length=LONGEST_NODE, description="Its node.")] = ""
    placement: Annotated[
        str, Meta(max_length=LONGEST_ACTION, description="Where it was placed: Spot, OnDemand or None.")
    ] = ""
    start: Annotated[Time, Meta(description="When it started.")] = ""
    end: Annotated[Time, Meta(description="When it ended.")] = ""
    cause: Annotated[Cause, Meta(description="Why it ended.")]
    reason: Annotated[
        str, Meta(max_length=LONGEST_REASON, description="More about it, such as a container and its exit code.")
    ] = ""
    rule: Annotated[Count | None, Meta(description="The index of the rule of the failure policy that matched.")] = None
    action: Annotated[str, Meta(max_length=LONGEST_ACTION, description="The action of that rule.")] = ""
    cost: Annotated[AttemptCost, Meta(description="What the end cost: retry, disruption, free, none or fatal.")]
    on_failure: Annotated[Count | None, Meta(description="The index of the rule of onFailure that decided.")] = None
    settled: Annotated[
        bool, Meta(description="Whether the ledger, and no rule, found that the crash ends the workload.")
    ] = False
    left: Annotated[Left | None, Meta(description="What its scope had left after it.")] = None
    saved: Annotated[Count, Meta(description="Seconds of work that the next attempt need not repeat.")] = 0
    progress: Annotated[
        Annotated[int, Meta(ge=0, le=WHOLE)] | None,
        Meta(description="How much of its work it said that is saved, in thousandths."),
    ] = None
    message: Annotated[
        str, Meta(max_length=LONGEST_MESSAGE, description="The last words of its program, if they are kept.")
    ] = ""

    @property
    def is_judged(self) -> bool:
        """Whether the ledger has found what its crash was, some time after it was counted."""
        return self.settled or self.cause == "Hardware"

    def __deepcopy__(self, _: object) -> Self:
        """Return the attempt itself, which cannot change: a forecast copies an account for each way to fail."""
        return self


# The most bytes as JSON of each text of an attempt.
LONGEST_OF_ATTEMPT: Final = {
    **dict.fromkeys(("scope", "pod"), LONGEST_NAME),
    "node": LONGEST_NODE,
    **dict.fromkeys(("placement", "action"), LONGEST_ACTION),
    "reason": LONGEST_REASON,
    "message": LONGEST_MESSAGE,
}


class Account(msgspec.Struct, kw_only=True):
    """What the attempts of a workload cost; docs/reference/account.md shows how it is stored.

    - `ended`: the number of pods that ended. `cost`: how many of them by cost. `spot`: how many of them were placed on
      spot. `in_place`: by cost, the attempts that ended in a pod that ran on. `causes`: both, by cause and reason.
    - `restarted`: by the id of a pod, how many of its restarts in place are counted, the newest last.
    - `scopes`: disruptions by scope since the limits were last reset. `free`: free restarts alike. `retries`: retries
      alike; None in JobSets, and in Jobs unless they are renewed. `window_start`: when the first of `scopes` happened,
      if they count for a time; `retry_window_start`: alike, of `retries`.
    - `reached`: the thousandths of its work that a scope has saved, by its pods; if retries are renewed by that.
    - `renewed`: how many retries count no more, of those since the last requested retry.
    - `work`: seconds of work that the attempts of each scope have saved, if the workload has a deadline.
    - `before`: `cost` as it was at the last requested retry; `requested_at`: the time of that one.
    - `grants`: how often the workload was resumed after the ledger had suspended it. `suspending`: whether the ledger
      is about to suspend it. `suspended`: whether it is suspended by the ledger.
    - `returned`: failures of a Job, in its status, that cost a disruption in the end, since the last requested retry.
      `backoff_limit`: what the leader is to raise its backoffLimit to for these, and for retries that count no more;
      None if there is nothing to do.
    - `left`: what the scope of the last pod had left.
    - `applied`: the fields of the profile with which the last pod was counted.
    - `last`: the last attempts in detail. `recent`: ids of counted pods that may exist without a mark.
    - `evictions`: those of its Workload by Kueue; None if there were none.
    - `lost`: what the counted pods used, by cause and capacity. `saved`: what the retries that were left when a bug
      ended the workload would have used, if each were like that attempt. `resources`: the names of what the rows of
      both list. `currency`: of their prices; empty if there are none.
    - `conditions`: as they were written last.
    """

    ended: int = 0
    cost: dict[AttemptCost, int] = msgspec.field(default_factory=dict)
    in_place: dict[AttemptCost, int] = msgspec.field(default_factory=dict)
    restarted: dict[str, int] = msgspec.field(default_factory=dict)
    causes: dict[Cause, dict[str, int]] = msgspec.field(default_factory=dict)
    spot: int = 0
    scopes: Scopes = msgspec.field(default_factory=Scopes)
    window_start: str = ""
    work: Scopes = msgspec.field(default_factory=Scopes)
    retry_window_start: str = ""
    reached: Scopes = msgspec.field(default_factory=Scopes)
    renewed: int = 0
    free: Scopes = msgspec.field(default_factory=Scopes)
    retries: Scopes | None = None
    before: dict[AttemptCost, int] = msgspec.field(default_factory=dict)
    requested_at: str = ""
    grants: int = 0
    suspending: bool = False
    suspended: bool = False
    returned: int = 0
    backoff_limit: int | None = None
    left: Left | None = None
    applied: Applied | None = None
    last: list[Attempt] = msgspec.field(default_factory=list)
    recent: list[str] = msgspec.field(default_factory=list)
    evictions: CountedEvictions | None = None
    resources: list[str] = msgspec.field(default_factory=list)
    currency: str = ""
    lost: Rows = msgspec.field(default_factory=dict)
    saved: Rows = msgspec.field(default_factory=dict)
    conditions: list[AccountCondition] = msgspec.field(default_factory=list)

    def has(self, pod: Pod) -> bool:
        """Return True if a pod is counted."""
        return pod.counted or id_of(pod) in self.recent

    @property
    def room(self) -> int:
        """How many more pods can be counted before counted ones must be marked."""
        return max(0, MOST_RECENT - len(self.recent))

    def spent(self, cost: AttemptCost) -> int:
        """Return how many ended pods had this cost."""
        return self.cost.get(cost, 0)

    def retries_of(self, scope: str) -> int:
        """Return how many retries a scope of a workload of another kind has had: at least as many as there were."""
        return 0 if self.retries is None else self.retries.of(scope)

    def sure_retries_of(self, scope: str) -> int:
        """Return how many retries a scope of a workload of another kind has had: at most as many as there were."""
        return 0 if self.retries is None else self.retries.at_least(scope)

    def spend_retry(self, scope: str, now: str, per: int | None, number: int = 1) -> None:
        """Count retries of a scope, which the account alone bounds, or renews; `per`: as in `is_window_over`."""
        if self.retries is None:
            self.retries = Scopes()
        self.retries.put(scope, min(self.retries.of(scope) + number, LARGEST_COUNT))
        if per is not None:
            self.retry_window_start = self.retry_window_start or now

    def renewal_at(self, per: int | None) -> float | None:
        """Return when the retries that count now will count no more, in Unix time; None if never; `per`: as below."""
        return _end_of_window(self.retry_window_start, per)

    def renew_retries(self, now: float, per: int | None) -> None:
        """Forget the retries whose time is over; as `is_window_over`."""
        due = self.renewal_at(per)
        if due is not None and now >= due:
            self.renewed += 0 if self.retries is None else self.retries.total()
            self.retries, self.retry_window_start = Scopes(), ""

    def is_renewed_by(self, scope: str, progress: int) -> bool:
        """Return True if a scope has spent retries, and an attempt is RENEWING further than any before."""
        return bool(self.retries_of(scope)) and progress >= self.reached.of(scope) + RENEWING

    def get_further(self, scope: str, progress: int) -> None:
        """Record how far an attempt of a scope is, and forget its retries as `is_renewed_by` says."""
        if self.retries is not None and self.is_renewed_by(scope, progress):
            self.renewed += self.retries.at_least(scope)
            self.retries.put(scope, 0)
            if not self.retries.total():
                self.retries, self.retry_window_start = Scopes(), ""
        if progress > self.reached.of(scope):
            self.reached.put(scope, progress)

    def see_completed(self, progress: int) -> None:
        """Record how far a Job of several completions is, in thousandths, unless retries of it count by now."""
        if (self.retries is None or not self.retries.total()) and progress > self.reached.of(""):
            self.reached.put("", progress)

    def complete(self, progress: int) -> None:
        """Forget the retries of a Job of several completions that is RENEWING further, in thousandths.

        Further than when the first of these retries was spent, as `see_completed` has recorded.
        """
        spent = 0 if self.retries is None else self.retries.total()
        if spent and progress >= self.reached.of("") + RENEWING:
            self.renewed += spent
            self.retries, self.retry_window_start = Scopes(), ""
            self.reached.put("", progress)

    def spent_now(self, cost: AttemptCost) -> int:
        """Return how many ended pods had this cost since the last requested retry."""
        return self.spent(cost) - self.before.get(cost, 0)

    @property
    def given_back(self) -> int:
        """How many failures since the last requested retry, which a Job counts, cost no retry, or none any more."""
        return self.returned + self.renewed

    @property
    def failures_now(self) -> int:
        """How many ended pods backoffLimit has counted since the last requested retry."""
        return self.spent_now("retry") + self.returned

    @property
    def last_now(self) -> list[Attempt]:
        """The last pods in detail, of those that have ended since the last requested retry."""
        ends = [detail for detail in self.last if not detail.restart]
        ended = self.ended - sum(self.before.values())
        return ends[max(0, len(ends) - ended) :]

    def is_window_over(self, now: float, per: int | None) -> bool:
        """Return True if the disruptions of `scopes` count no more; `now`: Unix time, `per`: for how many seconds."""
        end = _end_of_window(self.window_start, per)
        return end is not None and now >= end

    def renew(self, now: float, per: int | None) -> None:
        """Forget the disruptions that count no more; as `is_window_over`."""
        if self.is_window_over(now, per):
            self._forget_disruptions()

    def _forget_disruptions(self) -> None:
        self.scopes = Scopes()
        self.window_start = ""

    def begin_anew(self, requested_at: str) -> None:
        """Reset every budget, and keep the counts: for a requested retry."""
        self.requested_at = requested_at
        self.before = dict(self.cost)
        self._forget_disruptions()
        self.free, self.work, self.reached = Scopes(), Scopes(), Scopes()
        self.retries, self.retry_window_start, self.renewed = None, "", 0
        self.suspending = self.suspended = False
        self.returned, self.backoff_limit = 0, None
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
        saved: int = 0,
    ) -> Attempt:
        """Count an ended pod that is not counted yet; return its Attempt.

        `message`: its last words. `used`: what it used; None if that is not known. `disruptions`: those of its scope
        before it, as it says itself; None if that is not known. `saved`: seconds of its work that need not be repeated.
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
                end=pod.finished,
                cause=outcome.cause,
                reason=outcome.reason[:LONGEST_REASON],
                rule=None if outcome.rule is None else outcome.rule.index,
                action="" if outcome.rule is None else outcome.rule.action,
                cost=outcome.cost,
                on_failure=outcome.on_failure,
                saved=saved,
                progress=progress_of(pod),
                message=message,
            ),
            used,
            disruptions,
        )

    def count_unseen(self, failures: int) -> None:
        """Count failures that are in the Job's status but of which no pod was seen."""
        if failures > DETAILS:
            self._add_to_counts("Other", UNSEEN, "retry", failures - DETAILS)
        for _ in range(min(failures, DETAILS)):
            self.add(Attempt(attempt=self.spent_now("retry"), pod="", cause="Other", reason=UNSEEN, cost="retry"))

    def _add_to_counts(self, cause: Cause, reason: str, cost: AttemptCost, number: int) -> None:
        self.ended += number
        self.cost[cost] = self.spent(cost) + number
        self.add_cause(cause, reason, number)

    def add_cause(self, cause: Cause, reason: str, number: int) -> None:
        """Add attempts of one cause and reason."""
        reasons = self.causes.setdefault(cause, {})
        known = reason if reason in reasons or len(reasons) < MOST_REASONS else OTHER
        reasons[known] = min(reasons.get(known, 0) + number, LARGEST_COUNT)

    def add(self, detail: Attempt, used: Used | None = None, disruptions: int | None = None) -> Attempt:
        """Add an attempt to the counts, to the details, and to what was lost; `disruptions`: as in `count`."""
        self._add_to_counts(detail.cause, detail.reason, detail.cost, 1)
        if CAUSES[detail.cause].loss:
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

    def add_restarts(self, cause: Cause, reason: str, cost: AttemptCost, scope: str, number: int) -> None:
        """Add attempts of one cause, reason, cost and scope that ended in place to the counts."""
        self.in_place[cost] = min(self.in_place.get(cost, 0) + number, LARGEST_COUNT)
        self.add_cause(cause, reason, number)
        if cost == "free":
            self.free.put(scope, min(self.free.of(scope) + number, LARGEST_COUNT))

    def add_lost(self, cause: str, used: Used | None) -> None:
        """Add what an attempt used; None if that is not known."""
        if used is not None:
            self._price_in(used.currency)
            usage.add(self.lost, cause, used, self.resources)

    def save(self, cause: str, used: Used, retries: int) -> None:
        """Record that a bug left so many retries unused; `used`: what its attempt used."""
        if retries:
            self._price_in(used.currency)
            usage.add(self.saved, cause, used, self.resources, retries)

    def _price_in(self, currency: str) -> None:
        """Forget the prices of attempts in another currency: the policy has another one now."""
        if currency and currency != self.currency:
            if self.currency:
                usage.forget_prices(self.lost)
                usage.forget_prices(self.saved)
            self.currency = currency

    def note_left(self, left: Left) -> Attempt:
        """Record what is left after the attempt that was counted last; return that attempt."""
        left = Left(retries=min(left.retries, LARGEST_COUNT), disruptions=min(left.disruptions, LARGEST_COUNT))
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
        self._forget_disruptions()
        self.grants += 1
        self.suspending = self.suspended = False

    def forget(self, keep: int, staying: Container[str]) -> None:
        """Forget all ids but the newest `keep` and those in `staying`, whose pods could be counted again."""
        old = self.recent[: max(0, len(self.recent) - keep)]
        self.recent = [*(one for one in old if one in staying), *self.recent[len(old) :]]

    def settle(self, pod_name: str, *, in_set: bool = False) -> bool:
        """Record that the end of a pod was fatal, which had cost a retry, or a disruption; return False if none was.

        `in_set`: whether its Job is a JobSet's, whose restarts are what is left: a retry within the Job has cost none.
        """
        ends = [(place, detail) for place, detail in enumerate(self.last) if not detail.restart]
        places = [
            place for place, detail in ends if detail.pod == pod_name and ATTEMPT_COSTS[detail.cost].verdict_may_replace
        ]
        places = places[-1:]  # kinds other than Job create pods of the same name
        cost: AttemptCost = self.last[places[-1]].cost if places else "retry"
        if not self.spent_now(cost):
            return False
        self.cost[cost] -= 1
        self.cost["fatal"] = self.spent("fatal") + 1
        for place in places:
            self._take_back(self.last[place].scope)
            left = self.last[place].left
            if cost == "retry" and left is not None and not in_set:
                left = msgspec.structs.replace(left, retries=min(left.retries + 1, LARGEST_COUNT))
                if place == len(self.last) - 1:
                    self.left = left
            self.last[place] = msgspec.structs.replace(self.last[place], cost="fatal", settled=True, left=left)
        return True

    def blame(self, pod_name: str, fault: str, used: Used | None, *, returns: bool, in_status: bool) -> Attempt | None:
        """Record that a fault of its node explains how a pod ended; return its Attempt, None if it is forgotten.

        `returns`: whether the retry that it cost becomes a disruption; `in_status`: whether a Job counts it as one.
        """
        places = [place for place, one in enumerate(self.last) if one.pod == pod_name and not one.restart]
        if not places or self.last[places[-1]].cause == "Hardware":
            return None
        place = places[-1]
        detail = self.last[place]
        self._take_cause(detail.cause, detail.reason)
        self.add_cause("Hardware", fault, 1)
        if used is not None:
            usage.move(self.lost, detail.cause, "Hardware", used, self.resources)
        cost, left = detail.cost, detail.left
        if returns and cost == "retry" and self.spent_now("retry"):
            cost = "disruption"
            self.cost["retry"] -= 1
            self.cost["disruption"] = self.spent("disruption") + 1
            self.scopes.add(detail.scope)
            self._take_back(detail.scope)
            self.returned += in_status
            if left is not None:
                left = Left(retries=left.retries + 1, disruptions=max(0, left.disruptions - 1))
        self.last[place] = msgspec.structs.replace(detail, cause="Hardware", reason=fault, cost=cost, left=left)
        if place == len(self.last) - 1:
            self.left = left
        return self.last[place]

    def _take_back(self, scope: str) -> None:
        """Count a retry of a scope less; if it counts no more already, then as one of those that do not."""
        if self.retries is not None and self.retries.of(scope):
            self.retries.take_back(scope)
        elif self.renewed:
            self.renewed -= 1

    def _take_cause(self, cause: Cause, reason: str) -> None:
        reasons = self.causes.get(cause, {})
        known = reason if reason in reasons else OTHER
        if reasons.get(known, 0) > 1:
            reasons[known] -= 1
        elif reasons.pop(known, None) is not None and not reasons:
            del self.causes[cause]


def _end_of_window(start: str, per: int | None) -> float | None:
    """Return when a time of so many seconds is over that has begun then, in Unix time; None if it has not, or never."""
    begun = None if per is None else seconds(start)
    return None if begun is None or per is None else begun + per


def progress_of(pod: Pod) -> int | None:
    """Return how much of its work a pod says that it has saved, in thousandths; None if it does not."""
    return None if pod.progress is None else round(pod.progress * WHOLE)


def id_of(pod: Pod) -> str:
    """Return the short id of a pod, as `id_of_uid`."""
    return id_of_uid(pod.uid)


def id_of_uid(uid: str) -> str:
    """Return the short id of a pod with a uid: 48 bits of it, or the beginning of a uid that is no UUID."""
    try:
        return b64encode(UUID(uid).bytes[:6], b"-_").decode()
    except ValueError:
        return uid[:ID]
