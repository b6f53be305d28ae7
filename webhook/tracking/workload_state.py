"""What this replica knows of one workload, and what of it is written in the account. Times are arguments."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from webhook.accounts import limits
from webhook.accounts.account import Account, progress_of
from webhook.accounts.cached import CachedJob, CachedJobSet, CachedRoot
from webhook.accounts.stored import decode, shared
from webhook.accounts.tracker import Key, Tracker
from webhook.kube.backoff import Backoff
from webhook.objects.problem import Json
from webhook.pods import outcomes
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.deadline import Deadline
from webhook.rules.pods import on_time
from webhook.rules.pods.on_time import SavedWork

Root = CachedJob | CachedJobSet | CachedRoot  # the object that has an account

log = structlog.get_logger()

# Seconds.
INTERVAL: Final = 1.0  # between two writes of the same account
LONGEST_PAUSE: Final = 30.0  # after failed writes
WATCH_DELAY: Final = 5.0  # in which a watch delivers what was written


class Verdict(NamedTuple):
    """What the leader has found of the crash of a pod: a `fault` of its node; a bug if that is empty."""

    pod: str
    fault: str = ""


@dataclass(slots=True)
class WorkloadState:
    """One workload: its pods and Jobs, its account, and what the leader still has to do.

    Only its own methods set its fields: `Trackers` calls them with what the watches deliver, `Ledger` with what was
    written. Times are seconds of a monotonic clock.

    - `set_uid`: the uid of its JobSet; empty if it has none, or a watch has not delivered it.
    - `knows_root`: whether a watch has delivered the object with the account since this state was made.
    - `text`: the account that a watch delivered last, None if there is none.
    - `awaited`: the account that was written, until a watch delivers it; `written`: when it was written.
    - `backoff`: the pauses after failed writes; None if the last write succeeded.
    - `over_limit`: whether the leader has to suspend or fail the workload.
    - `missing_since`: since when the Job's status has more failures than the account, or pods have vanished.
    - `verdicts`: about crashes of pods, until the account says so.
    - `resets_limits`: whether each scope may have the limit of disruptions again, because the leader has suspended a
      workload of another kind; the account does not say so yet.
    - `raised`: the backoffLimit of the Job, and to what the leader has raised it, or has tried to, once: whoever lowers
      it has the last word.
    - `further`: by scope, the thousandths of its work that a running pod has saved, where its retries may count no more
      for that; the account does not say so yet.
    """

    tracker: Tracker = field(default_factory=Tracker)
    set_uid: str = ""
    knows_root: bool = False
    text: str | None = None
    awaited: str | None = None
    written: float = 0.0
    backoff: Backoff | None = None
    over_limit: bool = False
    missing_since: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    resets_limits: bool = False
    raised: tuple[int, int] | None = None
    further: dict[str, int] = field(default_factory=dict)

    @property
    def account(self) -> Account:
        """The account that a watch delivered last; an empty one if there is none, or none that can be read."""
        try:
            return shared(self.text)
        except ValueError:
            return Account()

    def is_idle(self, now: float) -> bool:
        """Return True if the workload has no account, and nothing is remembered that a later event needs."""
        busy = (
            self.text is not None or self.awaited is not None or self.over_limit or self.resets_limits or self.verdicts
        )
        return not busy and self.missing_since is None and self.backoff is None and self.tracker.is_idle(now)

    def see_set(self, uid: str) -> None:
        """Record the JobSet; if it is a new one with the name of an old one, forget how pods of that have ended."""
        if self.set_uid not in {"", uid}:
            self.tracker.last_ends.clear()
        self.set_uid = uid

    def see_root(self) -> None:
        """Record that a watch has delivered the object with the account."""
        self.knows_root = True

    def see_account(self, text: str | None, account: Account) -> None:
        """Record an account that a watch has delivered and that differs from the last one."""
        self.text = text
        self.tracker.see_account(account)
        if self.awaited == text:
            self.awaited = None

    def cost_of(self, pod: Pod, job_set: Json | None) -> AttemptCost:
        """Return what a failed pod cost; remembered for a JobSet, because its patterns may take milliseconds.

        Remembered also for a disrupted pod that the Job controller counts: nothing that follows changes its cost, and
        thousands may be disrupted at once.
        """
        failed = self.tracker.failed
        known = None if failed is None else failed.costs.get(pod.uid)
        if known is not None:
            return known
        cost = outcomes.outcome_of(pod, self.tracker.job_of(pod), job_set).cost
        is_final = job_set is not None or (pod.tracked and pod.disruption is not None and cost == "disruption")
        if is_final and failed is not None and pod.uid in failed.open:
            failed.costs[pod.uid] = cost
        return cost

    def disruptions_of(
        self, scope: str, job: Json, job_set: Json | None, *, is_first: bool = False, is_over: bool = False
    ) -> int:
        """Return the disruptions of a scope, including those that are not counted yet.

        `is_first`: whether the Job controller's counts on the pod to be placed say that it is the first of its index.
        `is_over`: whether the disruptions of the account count no more.
        """
        account = self.account
        resumed = is_over or (account.suspended and not job["spec"].get("suspend"))  # which resets the limit
        count = 0 if resumed else account.scopes.of(scope)
        for failed in self.tracker.uncounted_in(scope, account):
            if failed.disruption is not None:
                count += self.cost_of(failed, job_set) == "disruption"
        if account.scopes.is_dropped(scope) and not resumed and limits.are_in_pods(account, job["spec"], job_set):
            known = 0 if is_first else self._disruptions_by_pods(scope)
            return count if known is None else min(known, count)
        return count

    def saved_work_of(self, scope: str, job: Json, deadline: Deadline) -> SavedWork:
        """Return the work that the attempts of a scope have saved, with those that are not counted yet."""
        account = self.account
        saved, ended = account.work.at_least(scope), account.ended
        for failed in self.tracker.uncounted_in(scope, account):
            saved, ended = on_time.saved_with(saved, failed, job, deadline), ended + 1
        return SavedWork(saved, ended)

    def _disruptions_by_pods(self, scope: str) -> int | None:
        found: int | None = None
        for pod in self.tracker.ends_of(scope):
            before = limits.disruptions_before(pod)
            found = None if before is None else max(found or 0, before + (self.cost_of(pod, None) == "disruption"))
        return found

    def failures_of(self, job: Json) -> int:
        """Return how many failures of a Job without a JobSet cost a retry.

        The Job's status may have fewer: a Job controller that is busy for longer than a back-off creates the next pod,
        and then counts the failed one. Within a back-off the account has it.
        """
        counted = self.account.failures_now
        if not limits.needs_uncounted(job["spec"]):
            return counted  # without a look at the uncounted pods, which takes time
        uncounted = (self.cost_of(failed, None) for failed in self.tracker.uncounted(self.account))
        return counted + sum(cost == "retry" for cost in uncounted)

    def awaits_watch(self, now: float) -> bool:
        """Return True while a watch may still deliver the account that was written last."""
        if self.awaited is not None and now >= self.written + WATCH_DELAY:
            self.awaited = None
        return self.awaited is not None

    @property
    def is_needed(self) -> bool:
        """Whether pods are left to count, or the leader has anything left to do, after the end of a Job."""
        restarted = self.tracker.restarted is not None and self.tracker.restarted.open
        to_count = restarted or self.missing_since is not None or any(True for _ in self.tracker.open_pods())
        to_do = self.over_limit or self.verdicts or self.account.suspending or self.backoff is not None
        return bool(to_count or to_do)

    def see_written(self, text: str, now: float, vanished: Iterable[str]) -> None:
        """Record that an account was written; `vanished`: uids of the vanished pods that it considers."""
        self.awaited, self.written = None if text == self.text else text, now  # the watch may have been faster
        self.tracker.forget_vanished(vanished)

    def see_verdict(self, verdict: Verdict) -> None:
        """Record what the crash of a pod was, which the account does not say yet."""
        self.verdicts = (*self.verdicts, verdict)

    @property
    def has_bug(self) -> bool:
        """Whether the leader has ended the workload, or a part of it, for a bug, which the account does not say yet."""
        return any(not one.fault for one in self.verdicts)

    def forget_verdicts(self, verdicts: Collection[Verdict]) -> None:
        """Record that the account says so of these crashes."""
        self.verdicts = tuple(one for one in self.verdicts if one not in verdicts)

    def see_over_limit(self) -> None:
        """Record that the leader has to suspend or fail the workload."""
        self.over_limit = True

    def see_within_limit(self) -> None:
        """Record that the leader has suspended or failed the workload, or does not have to."""
        self.over_limit = False

    def see_suspended(self) -> None:
        """Record that the leader has suspended a workload of another kind."""
        self.resets_limits = True

    def see_limits_reset(self) -> None:
        """Record that the account says so."""
        self.resets_limits = False

    def see_raised(self, raised: tuple[int, int] | None) -> None:
        """Record from what to what the leader has raised the Job's backoffLimit, or has been refused; None: it is."""
        self.raised = raised

    def gets_further(self, pod: Pod) -> bool:
        """Record how far a running pod is; return True if retries of its scope may count no more for that."""
        scope, progress = limits.scope_of(pod), progress_of(pod)
        if progress is None or not self.account.is_renewed_by(scope, progress):
            return False
        self.further[scope] = progress
        return True

    def forget_further(self, further: Mapping[str, int]) -> None:
        """Record that the account says how far these scopes are."""
        self.further = {scope: progress for scope, progress in self.further.items() if further.get(scope) != progress}

    def see_missing(self, now: float) -> None:
        """Record that pods ended unseen; the watch may still deliver them."""
        self.missing_since = now

    def see_none_missing(self) -> None:
        """Record that the account lacks nothing, or that what it lacks is counted now."""
        self.missing_since = None

    def back_off(self) -> float:
        """Return the seconds to wait after a failed write."""
        if self.backoff is None:
            self.backoff = Backoff(INTERVAL, LONGEST_PAUSE)
        return self.backoff.take()

    def forget_failures(self) -> None:
        """Record that a write has succeeded, or that another replica writes now."""
        self.backoff = None


def read(key: Key, text: str | None, decoded: Callable[[str | None], Account] = decode) -> Account:
    """Return the account in a status; an empty one, with a line in the log, if it is malformed or too long."""
    try:
        return decoded(text)
    except ValueError as error:
        log.warning("account unreadable, begun anew", **where(key), error=str(error))
        return Account()


def where(key: Key) -> dict[str, str]:
    """Return the fields of a log line that name a workload."""
    return {"kind": key.kind_name, "namespace": key.namespace, "name": key.name}
