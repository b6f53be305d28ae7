"""Counts the ended pods of one workload in its account, and decides what follows; the controller carries it out."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from webhook.accounts import in_place, limits, settling, words
from webhook.accounts.account import MOST_MESSAGES, MOST_RESTARTED, WHOLE, Account, Attempt, id_of, progress_of
from webhook.accounts.counted import Counted, counted_of
from webhook.accounts.kueue import CountedEvictions, KueueWorkload
from webhook.accounts.tracker import Key, Tracker
from webhook.history.usage import Used
from webhook.kube import terminal
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.times import between, seconds
from webhook.pods import on_failure, outcomes
from webhook.pods.pods import Pod
from webhook.policy.applied import applied, failed_for_job_wide
from webhook.policy.attempt_costs import FAILURES, AttemptCost
from webhook.policy.causes import CAUSES
from webhook.policy.deadline import Slack
from webhook.policy.model import FailureRule, Next
from webhook.policy.settings import Settings
from webhook.rules.pods import on_time
from webhook.systems.job import spec as batch

LIMIT_EXCEEDED: Final = "DisruptionLimitExceeded"
FREE_TOO_OFTEN: Final = "FreeRestartLimitExceeded"
EVICTED_TOO_OFTEN: Final = "EvictionLimitExceeded"
JOB_WIDE: Final = "JobWideFailure"
NO_PROGRESS: Final = "NoProgress"
OUTLIVED: Final = 1.5  # times as long as the longest failed attempt: a pod that runs so long does not have that bug


def count(  # noqa: PLR0913 - where all of it meets
    account: Account,
    pod: Pod,
    counted: Counted,
    *,
    has_ended: bool = False,
    keeps_messages: bool = False,
    used: Used | None = None,
    evicted: str = "",
) -> Attempt:
    """Count a failed pod that the account does not have; return its Attempt.

    `has_ended`: whether the workload is known to have ended. `keeps_messages`: whether the account keeps last words.
    `used`: what the pod used, if that is known. `evicted`: the reason for which Kueue has evicted the Workload of the
    pod; empty if it has not.
    """
    per, retries = counted.settings.profile.disruptions.per, counted.settings.profile.retries
    account.renew(seconds(pod.finished) or 0.0, per)
    attempt = counted.attempt_of(account, pod)
    has_ended = has_ended or (bool(evicted) and counted.scopes_have_retries)
    scope, progress, renewed = limits.scope_of(pod), progress_of(pod), account.renewed
    renews = counted.renews_retries and not pod.job_set  # also if its JobSet is not known
    if progress is not None and retries.renew_on_progress and renews and counted.pods_continue:
        account.get_further(scope, progress)  # before its end is judged: it may have a retry by that
        counted.raise_limit(account, account.renewed - renewed)
    outcome = counted.outcome_of(account, pod, has_ended=has_ended)
    outcome = replace(outcome, on_failure=on_failure.decided(pod, outcome, counted.settings.on_failure))
    message = words.last_words(outcome) if keeps_messages else ""
    outcome = outcomes.as_evicted(outcome, evicted)
    before, saved = counted.disruptions_before(account, pod), counted.save_work(account, pod)
    detail = account.count(outcome, scope, attempt, message=message, used=used, disruptions=before, saved=saved)
    account.forget_messages(MOST_MESSAGES)
    if outcome.cost == "disruption" and per is not None:
        account.window_start = account.window_start or pod.finished
    if outcome.cost == "retry" and (counted.scopes_have_retries or renews):
        account.spend_retry(scope, pod.finished, retries.per)
    return account.note_left(counted.left_of(account, pod, detail))


def _differs(rules: tuple[FailureRule, ...], index: int) -> bool:
    """Return True if a rule of onFailure gives the next attempt something that this one did not have."""
    return index < len(rules) and rules[index].next != Next(cost=rules[index].next.cost)


class LimitEnd(NamedTuple):
    """Why the ledger ends a workload: a pod of `job` was disrupted, or restarted, more often than allowed.

    `reason`: that of the condition. `pod`: the name of the pod that exceeded `limit`. `seconds`: how long the failed
    pods ran at most, if a bug of all pods ends the Job. `twice`: how and where two attempts ended, if that ends it.
    """

    reason: str
    pod: str
    limit: int
    job: Json
    seconds: float = 0.0
    twice: str = ""

    def message(self, namespace: str) -> str:
        """Return the message of the condition."""
        if self.reason == JOB_WIDE:
            ran = f"none has finished, or run {OUTLIVED} times the {self.seconds:.0f} s that they ran at most"
            return f"pod {namespace}/{self.pod}: {self.limit} indexes have failed, and {ran}"
        if self.reason == NO_PROGRESS:
            return f"pod {namespace}/{self.pod}: ended as the attempt before it, and got no further: {self.twice}"
        what = {LIMIT_EXCEEDED: "disruption", outcomes.TOO_OFTEN: "retry"}.get(self.reason, "free restart")
        return f"pod {namespace}/{self.pod}: {what} {self.limit + 1} exceeds the limit of {self.limit}"


class CountingPass:
    """One pass over a workload's pods: what was counted, and what follows.

    - `account`: a copy of the workload's account; only this pass changes it.
    - `details`: the pods that were counted. `budgets`: what the Job of the last of them allows.
    - `blamed`: those whose crash a fault of their node explains.
    - `saved`: the retries that workloads had left when they ended.
    - `vanished`: uids of the vanished pods that were considered.
    - `evictions`: the new evictions by Kueue, by reason.
    - `changed`: whether the account must be written.

    `whole`: a workload of another kind as the API has it now, if that was read; its System says then if it has ended.
    `evicted_for` returns the reason for which Kueue has evicted a pod; empty if it has not.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - counting needs all of these
        self,
        key: Key,
        root: Json,
        job_set: Json | None,
        tracker: Tracker,
        account: Account,
        settings_of: Callable[[Json], Settings],
        used_of: Callable[[Pod], Used | None] = lambda _: None,
        evicted_for: Callable[[Pod], str] = lambda _: "",
        *,
        whole: Json | None = None,
    ) -> None:
        self.key = key
        self.system = key.system
        self.whole = whole
        self.root = root
        self.job_set = job_set
        self.tracker = tracker
        self.account = account
        self.settings_of = settings_of
        self.used_of = used_of
        self.evicted_for = evicted_for
        self.settings = settings_of(root)
        self.details: list[Attempt] = []
        self.blamed: list[Attempt] = []
        self.budgets = limits.Budgets(retries=0, limit=0, free_limit=0, shares=1)
        self.saved = 0
        self.vanished: list[str] = []
        self.evictions: dict[str, int] = {}
        self.changed = False

    def count(self, new: list[Pod]) -> None:
        """Count failed pods."""
        for pod in new:
            job = self.tracker.job_of(pod)
            if job is not None:
                self.add(pod, job)

    def count_restarts(self) -> bool:
        """Count restarts in place that are not counted yet; return True if the account had room for all of them.

        Those of a pod that has failed are counted with its end.
        """
        for pod in self.tracker.uncounted_restarts(self.account):
            job = self.tracker.job_of(pod)
            if job is None:
                continue
            if id_of(pod) not in self.account.restarted and len(self.account.restarted) >= MOST_RESTARTED:
                return False
            self.add_restarts(pod, self.counted(job))
        return True

    def add_restarts(self, pod: Pod, counted: Counted) -> None:
        """Count those restarts of a pod that are not counted yet."""
        by_api = self.tracker.restarts_by_api(pod)
        keeps = self.settings.profile.diagnostics.last_words
        used = self.used_of(in_place.ended_in_place(pod, self.account.restarted)) if pod.restarts is not None else None
        detail = in_place.count(self.account, pod, counted, by_api, keeps_messages=keeps, used=used)
        if detail is not None:
            self.account.applied = applied(self.settings.profile)
            self.budgets = counted.budgets_of(pod)
            self.details.append(detail)
            self.changed = True

    def counted(self, job: Json) -> Counted:
        """Return what the ends of pods of a Job, or of the workload of another kind, cost."""
        return counted_of(self.system, self.whole or job, self.job_set, self.settings_of(job))

    def budgets_of(self, job: Json) -> limits.Budgets:
        """Return what a Job allows."""
        return self.counted(job).budgets_of()

    def add(self, pod: Pod, job: Json) -> None:
        """Count one failed pod of a Job."""
        counted = self.counted(job)
        self.add_restarts(pod, counted)
        self.account.restarted.pop(id_of(pod), None)
        ended, evicted = self.has_ended, self.evicted_for(pod)
        keeps, used = self.settings.profile.diagnostics.last_words, self.used_of(in_place.last_attempt(pod))
        self.budgets = counted.budgets_of(pod)
        detail = count(self.account, pod, counted, has_ended=ended, keeps_messages=keeps, used=used, evicted=evicted)
        if not keeps:
            self.account.forget_messages(0)
        self.account.applied = applied(self.settings.profile)
        self.details.append(detail)
        if detail.cost == "fatal" and detail.left is not None:
            self.save(detail.cause, used, detail.left.retries)
        self.changed = True

    @cached_property
    def completed(self) -> int | None:
        """Which part of several completions the Job has, in thousandths; None if it has one, or is none."""
        part = batch.completed_part(self.root) if self.key.kind is batch.JOB else None
        return None if part is None else int(part * WHOLE)

    def see_completed(self) -> None:
        """Record how far a Job of several completions is before it spends retries, if these may be renewed."""
        if self.renews_retries and self.completed is not None:
            self.account.see_completed(self.completed)

    def renew_retries(self, now: float, further: Mapping[str, int]) -> None:
        """Let the retries count no more whose time is over, or whose scope gets further than any attempt before.

        So do all retries of a Job of several completions, as more of these succeed. `now`: Unix time. `further`: how
        far the running pods of scopes are, in thousandths.
        """
        if not self.renews_retries:
            return
        retries, before = self.settings.profile.retries, self.account.renewed
        self.account.renew_retries(now, retries.per)
        if retries.renew_on_progress:
            for scope, progress in further.items():
                self.account.get_further(scope, progress)
            if self.completed is not None:
                self.account.complete(self.completed)
        renewed = self.account.renewed - before
        if renewed == 0:
            return
        self.changed = True
        self.counted(self.root).raise_limit(self.account, renewed)
        if self.account.left is not None:
            left = self.account.left.retries + renewed
            self.account.left = msgspec.structs.replace(self.account.left, retries=left)

    @cached_property
    def renews_retries(self) -> bool:
        """Whether the retries of the workload may be renewed."""
        return not self.key.job_set and self.counted(self.root).renews_retries

    def see_raised(self) -> None:
        """Record that the backoffLimit of the Job is as high as it was to become."""
        limit = self.account.backoff_limit
        if limit is not None and (self.root["spec"].get("backoffLimit") or 0) >= limit:
            self.account.backoff_limit = None
            self.changed = True

    @property
    def has_ended(self) -> bool:
        """Whether a workload of another kind has ended, as far as that was read."""
        whole = self.whole
        return whole is not None and (outcomes.is_deleted(whole) or self.system.has_ended(whole))

    def save(self, cause: str, used: Used | None, retries: int) -> None:
        """Record that a bug left so many retries unused."""
        self.saved += retries
        if used is not None:
            self.account.save(cause, used, retries)

    def see_workload(self, workload: KueueWorkload | None) -> None:
        """Count the evictions of the Workload by which Kueue admits the pods; None if there is none."""
        if workload is None:
            return
        before, now = self.account.evictions, deepcopy(self.account.evictions) or CountedEvictions()
        self.evictions = now.see(workload, self.settings.profile.kueue.evictions.limit)
        if now.number and now != before:
            self.account.evictions = now
            self.changed = True

    def reset_limits(self) -> None:
        """Record that a suspended Job was resumed: each index, or the Job, may have the limit of disruptions again."""
        self.account.reset_limits()
        self.changed = True

    def intend_suspension(self) -> None:
        """Record that the Job is about to be suspended."""
        self.account.suspending = True
        self.changed = True

    def withdraw_suspension(self) -> None:
        """Record that the Job is not to be suspended any more."""
        self.account.suspending = False
        self.changed = True

    def suspend(self) -> None:
        """Record that the Job is suspended, as was intended."""
        self.account.suspending, self.account.suspended = False, True
        self.changed = True

    def settle(self, pod_name: str) -> None:
        """Record that a crash which had cost a retry was a bug."""
        if self.account.settle(pod_name, in_set=bool(self.key.job_set)):
            self.changed = True
            if self.account.left is not None:
                pod = self.tracker.failed_named(pod_name)
                used = None if pod is None else self.used_of(pod)
                cause = "Other" if pod is None else outcomes.cause_of(pod, None)[0]
                self.save(cause, used, self.account.left.retries)

    def blame(self, pod_name: str, fault: str) -> None:
        """Record that a fault of its node explains the crash of a pod, and give back the retry that it had cost.

        That is possible as often as its scope may be disrupted: in a Job up to `retries.limit`, if its indexes have no
        retries of their own; and where the leader alone bounds the retries. Elsewhere the crash has cost one.
        """
        pod = self.tracker.failed_named(pod_name)
        job = None if pod is None else self.tracker.job_of(pod)
        if pod is None or job is None:
            return
        counted, given_back = self.counted(job), self.account.given_back
        budgets = counted.budgets_of(pod)
        per = self.settings.profile.disruptions.per
        self.account.renew(seconds(pod.finished) or 0.0, per)
        may_return = self.account.scopes.of(limits.scope_of(pod)) < budgets.disruptions
        may_return &= self.settings.profile.actions == "Act"
        if self.key.kind is batch.JOB:
            limit = max(batch.retry_budget(self.root["spec"]), self.account.backoff_limit or 0) - self.account.renewed
            most = self.root["spec"].get("backoffLimitPerIndex") or self.settings.profile.retries.limit
            may_return &= not budgets.per_index and limit < min(most, self.settings.profile.retries.limit)
        else:
            may_return &= self.account.retries is not None and not self.system.bounded
        in_status = self.key.kind is batch.JOB
        detail = self.account.blame(pod_name, fault, self.used_of(pod), returns=may_return, in_status=in_status)
        if detail is not None:
            if detail.cost == "disruption" and per is not None:
                self.account.window_start = self.account.window_start or pod.finished
            counted.raise_limit(self.account, self.account.given_back - given_back)
            self.blamed.append(detail)
            self.changed = True

    def unseen(self) -> tuple[int, list[Pod]]:
        """Return the number of a Job's failures of which no pod was seen, and the pods that vanished unseen."""
        root = self.root
        if (
            self.key.kind is not batch.JOB
            or terminal.is_decided(root["status"])
            or outcomes.is_deleted(root)
            or root["spec"].get("suspend")
        ):
            return 0, []
        known = sum(self.account.spent_now(cost) for cost in FAILURES) + self.account.returned
        return max(0, batch.failed_in_status(self.root) - known), list(self.tracker.vanished.values())

    def count_unseen(self, failures: int, now: str) -> None:
        """Count failures that are only in the Job's status, and as disruptions the other pods that vanished unseen.

        `now`: RFC 3339.
        """
        self.account.count_unseen(failures)
        if failures and self.renews_retries:
            self.account.spend_retry("", now, self.settings.profile.retries.per, failures)
        self.changed = True
        self.vanished = list(self.tracker.vanished)
        for pod in self.tracker.disrupted_unseen(self.root, failures, self.account):
            self.add(pod, self.root)

    def exceeded(self, details: list[Attempt]) -> Iterator[tuple[Attempt, Json, limits.Budgets]]:
        """Yield the attempts whose scope had more disruptions than allowed, newest first, each with Job and budgets."""
        if self.settings.disruption_action != "Ignore" or self.account.suspended:
            return
        for detail, job, budgets in self._of_running_jobs(details, "disruption"):
            if self.system.is_single(detail.scope) and limits.is_exceeded(self.account, budgets, detail.scope):
                yield detail, job, budgets

    def free_too_often(self, details: list[Attempt]) -> Iterator[tuple[Attempt, Json, limits.Budgets]]:
        """Yield the attempts whose scope had too many free restarts, newest first, each with its Job and budgets."""
        for detail, job, budgets in self._of_running_jobs(details, "free"):
            if limits.is_free_too_often(self.account, budgets, detail.scope):
                yield detail, job, budgets

    def beyond_retries(self, details: list[Attempt]) -> Iterator[tuple[Attempt, Json, limits.Budgets]]:
        """Yield the attempts after which a scope had no retry left, if only the leader bounds them; as above."""
        if self.system.bounded or self.settings.profile.failure_policy.inject == "Never":
            return
        for detail, job, _ in self._of_running_jobs(details, "fatal"):
            pod = self.tracker.failed_named(detail.pod)
            budgets = self.counted(job).budgets_of(pod)
            if pod is not None and self.account.retries_of(detail.scope) >= budgets.retries:
                yield detail, job, budgets

    def stuck(self, details: list[Attempt]) -> Iterator[tuple[Attempt, Json, str]]:
        """Yield the attempts that ended as the one of their scope before them did, and got no further; as above.

        Each with its Job, and how and where both ended; if retries are renewed by progress. Not where a pod may crash
        because another one was lost, nor where a rule of onFailure gives the next attempt something else.
        """
        renews = self.settings.profile.retries.renew_on_progress and self.renews_retries
        if not renews or self.key.kind is not batch.JOB or settling.window(self.root, self.settings):
            return
        if not self.counted(self.root).pods_continue:
            return
        for detail, job, _ in self._of_running_jobs(details, "retry"):
            if detail.on_failure is not None and _differs(self.settings.on_failure, detail.on_failure):
                continue
            ends = [one for one in self.account.last_now if one.scope == detail.scope]
            places = [place for place, one in enumerate(ends) if one.pod == detail.pod]
            before = ends[places[-1] - 1] if places and places[-1] else None
            if before is None or detail.progress is None:
                continue
            if (before.progress, before.cause, before.reason, before.cost) == (
                *(detail.progress, detail.cause, detail.reason),
                "retry",
            ):
                how = CAUSES[detail.cause].how(detail.reason)
                yield detail, job, f"{how}, with {detail.progress / WHOLE:.1%} of its work saved"

    def job_wide(self, details: list[Attempt]) -> Iterator[tuple[Attempt, Json, float]]:
        """Yield the last failed index if all pods of the Job seem to fail alike, with the Job and the longest run.

        Many indexes have failed, none has finished, and no pod that runs has outlived those by half.
        """
        most = failed_for_job_wide(self.settings.profile.failure_policy)
        if most is None or self.account.spent_now("fatal") < most:
            return
        for detail, job, budgets in islice(self._of_running_jobs(details, "fatal"), 1):
            longest = max(between(one.start, one.end) for one in self.attempts if one.cost == "fatal")
            has_finished = bool((job.get("status") or {}).get("succeeded"))
            if not budgets.per_index or has_finished:
                return
            if not self.tracker.has_outlived(job["metadata"]["uid"], detail.end, longest * OUTLIVED):
                yield detail, job, longest

    def end(self, details: list[Attempt]) -> LimitEnd | None:
        """Return why these attempts end the workload: too many restarts or disruptions; None if they do not."""
        for detail, job, longest in self.job_wide(details):
            return LimitEnd(JOB_WIDE, detail.pod, self.account.spent_now("fatal"), job, longest)
        for detail, job, twice in self.stuck(details):
            return LimitEnd(NO_PROGRESS, detail.pod, 0, job, twice=twice)
        for detail, job, budgets in self.beyond_retries(details):
            return LimitEnd(outcomes.TOO_OFTEN, detail.pod, budgets.retries, job)
        for detail, job, budgets in self.free_too_often(details):
            return LimitEnd(FREE_TOO_OFTEN, detail.pod, budgets.free_restarts, job)
        if self.settings.profile.disruptions.on_exceed == "Fail":
            for detail, job, budgets in self.exceeded(details):
                return LimitEnd(LIMIT_EXCEEDED, detail.pod, budgets.disruptions, job)
        return None

    def turns(self, now: float) -> Iterator[tuple[Attempt, Slack]]:
        """Yield the attempts on spot nodes after which the deadline allows no more, each with what is left."""
        for detail, job, _ in self._of_running_jobs(self.details, "disruption"):
            saved = on_time.SavedWork(self.account.work.at_least(detail.scope), self.account.ended)
            slack = on_time.slack_of(job, self.job_set, self.settings_of(job), saved, now)
            if slack is not None and now > slack.turns_at and detail.placement == "Spot":
                yield detail, slack

    def _of_running_jobs(
        self, details: list[Attempt], cost: AttemptCost
    ) -> Iterator[tuple[Attempt, Json, limits.Budgets]]:
        """Yield the attempts with this cost whose Job has not ended, newest first, each with its Job and budgets.

        In a JobSet that has not ended the Job may have ended: the JobSet restarts because of that.
        """
        if self.job_set is not None and at(self.job_set, ("status", "terminalState")):
            return
        kind = batch.JOB if self.key.job_set else self.key.kind
        for detail in reversed(details):
            if detail.cost != cost or detail.reason == outcomes.UNSEEN:
                continue
            name = limits.job_of(self.key.job_set, detail.scope) or self.key.name
            job = self.tracker.job_named(kind, self.key.namespace, name)
            if job is not None and (self.key.job_set or not terminal.is_decided(job["status"])):
                yield detail, job, self.budgets_of(job)

    @property
    def attempts(self) -> list[Attempt]:
        """The attempts whose details are known: those that the account has kept, and those that were counted now."""
        return [*self.account.last, *self.details]

    def suspends(self, details: list[Attempt]) -> bool:
        """Return True if the workload exceeded its disruptions with these attempts, and can be suspended now.

        A Job can be if none of its pods runs.
        """
        return self.should_suspend(details) and not (self.system.has_jobs and self.runs)

    @property
    def runs(self) -> bool:
        """Whether a pod of the Job runs."""
        return self.tracker.running.has_any(self.root["metadata"]["uid"])

    def should_suspend(self, details: list[Attempt]) -> bool:
        """Return True if the workload exceeded its disruptions with these attempts, and something suspends it."""
        if self.settings.profile.disruptions.on_exceed != "Suspend":
            return False
        root = self.root if self.key.is_cached_whole else self.whole
        return root is not None and any(self.exceeded(details)) and self.system.suspend(root) is not None

    def sentence(self) -> str:
        """Return how the last counted pod ended, what decides about the next one, and how many others were counted."""
        last, rules = self.details[-1], self.settings.on_failure
        text = words.sentence(last, self.budgets.retries, words.terms_of(self.key.kind))
        if last.on_failure is not None:
            follows = last.cost != "fatal" and last.on_failure < len(rules)
            following = rules[last.on_failure].next if follows else None
            text = f"{text}; {words.decided(last.on_failure, following)}"
        more = len(self.details) - 1
        return f"{text}; {words.counted(more, 'more pod')} counted with it" if more else text
