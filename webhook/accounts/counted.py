"""What the ends of the pods of a Job cost, or of a workload of another kind, and what is left.

Both answer the same questions, so that whoever counts, decides or foretells asks without regard to the kind.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import msgspec

from webhook.accounts import limits
from webhook.accounts.account import Account, Attempt, Left
from webhook.accounts.limits import Budgets
from webhook.kube import terminal
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json
from webhook.pods import matching, outcomes
from webhook.pods.outcomes import Outcome
from webhook.pods.pods import Pod
from webhook.policy.settings import LARGEST_COUNT, Settings, count
from webhook.rules import undo
from webhook.rules.pods import on_time
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy
from webhook.systems.job_set.spec import costly_restarts, job_restarts
from webhook.systems.kind_spec import EmbeddedJob, controller_of
from webhook.systems.system import CostOf, Spent, System

RULES: Final = ("spec", "podFailurePolicy", "rules")


@dataclass(frozen=True)
class PodsOfJob:
    """The pods of a Job. `job_set`: the JobSet of the Job; None if it has none. `settings`: those of the Job."""

    scopes_have_retries: ClassVar = False  # of their own, which the account counts

    job: Json
    job_set: Json | None
    settings: Settings

    @cached_property
    def budgets(self) -> Budgets:
        """What the Job or its JobSet allows."""
        return limits.budgets_of(self.job, self.job_set, self.settings)

    def budgets_of(self, _pod: Pod | None = None) -> Budgets:
        """Return what the Job or its JobSet allows: its pods share it."""
        return self.budgets

    @cached_property
    def embedded(self) -> EmbeddedJob:
        """The Job as the rules read it."""
        (job,) = batch.JOB.jobs(self.job)
        return job

    @cached_property
    def author_rules(self) -> list[Json]:
        """The rules of the Job's failure policy that its author wrote.

        The record on the Job says which ones admission injected. The Job of a JobSet or a CronJob has no record of
        them, because they were injected there: then those that the profile would inject are not the author's.
        """
        record = undo.read(self.job)
        if record is None or not (record.injected or controller_of(self.job) is None):
            return failure_policy.without_ours(self.embedded, self.settings)
        part = Editor({"spec": {"podFailurePolicy": {"rules": list(at(self.job, RULES) or [])}}})
        ours = [one for one in record.injected if one.path.startswith("/spec/podFailurePolicy")]
        undo.take_out(part, batch.JOB, msgspec.structs.replace(record, injected=tuple(ours)))
        return at(part.root, RULES) or []

    @property
    def renews_retries(self) -> bool:
        """Whether the leader may renew them: it can raise backoffLimit, and what is immutable it cannot."""
        profile = self.settings.profile
        if not profile.retries.are_renewed or profile.actions != "Act" or self.job_set is not None:
            return False
        return not (self.budgets.per_index or terminal.is_decided(self.job.get("status") or {}))

    def raise_limit(self, account: Account, number: int) -> None:
        """Record that the Job is to get so many failures more, because as many cost no retry, or none any more."""
        if number > 0:
            now = max(self.job["spec"].get("backoffLimit") or 0, account.backoff_limit or 0)
            account.backoff_limit = min(now + number, LARGEST_COUNT)

    def retries_in(self, account: Account) -> int:
        """Return what the Job or its JobSet allows, once it is raised: the watch may not have that yet."""
        return max(self.budgets.retries, account.backoff_limit or 0)

    @property
    def pods_continue(self) -> bool:
        """Whether a pod does the rest of the work of the failed one before it in its scope."""
        return batch.pods_continue(self.job["spec"])

    def attempt_of(self, account: Account, pod: Pod) -> int:
        """Return the attempt of a pod: the retries that were spent when it was created, as its annotation says.

        Without the annotation: the retries that are spent now, or all restarts of the JobSet.
        """
        if pod.attempt is not None:
            return pod.attempt
        if pod.job_set:
            return pod.restart or 0
        return (pod.index_failures or 0) if self.budgets.per_index else account.failures_now

    def outcome_of(self, account: Account, pod: Pod, *, has_ended: bool = False) -> Outcome:
        """Return how a pod that the account lacks has ended, and what that cost.

        `has_ended`: whether the Job is known to have ended; it has too if a counted pod was fatal.
        """
        has_ended = has_ended or (self.job_set is None and account.spent_now("fatal") > 0)
        outcome = outcomes.outcome_of(pod, self.job, self.job_set, has_ended=has_ended)
        return replace(outcome, cost="fatal") if self._is_last(account, outcome) else outcome

    def _is_last(self, account: Account, outcome: Outcome) -> bool:
        """Return True if the end of a pod costs a retry, and none is left for it.

        In a JobSet the Job has retries of its own, and the set may restart it. There it is the last one if a rule has
        failed the Job, and no restart is left.
        """
        pod, rule = outcome.pod, outcome.rule
        if outcome.cost != "retry":
            return False
        if self.job_set is not None:
            restarts = rule is not None and rule.action == "FailJob" and _is_of_this_run(self.job_set, pod)
            return restarts and costly_restarts(self.job_set) >= self.budgets.retries
        if pod.job_set:
            return False  # its JobSet is not known
        spent = (pod.index_failures or 0) if self.budgets.per_index else account.failures_now
        return spent >= self.retries_in(account)

    def counts_as_retry(self, pod: Pod) -> bool:
        """Return True if the end of a pod, which nothing has disrupted, costs a retry by the rules of the Job.

        These are those of its creation, and its author's may stand first.
        """
        found = matching.match_by_job(self.job["spec"], pod)
        return found is None or found.action == "Count"

    def left_of(self, account: Account, pod: Pod, detail: Attempt) -> Left:
        """Return what the scope of a counted pod has left; `detail` is the pod's Attempt."""
        budgets, is_retry = self.budgets, detail.cost == "retry"
        if self.job_set is not None:  # the restarts that count towards maxRestarts, with the one that this end causes
            causes_one = is_retry and detail.action == "FailJob" and _is_of_this_run(self.job_set, pod)
            spent = costly_restarts(self.job_set) + causes_one
        elif budgets.per_index:
            spent = (pod.index_failures or 0) + is_retry
        else:
            spent = account.failures_now
        disruptions = limits.disruptions_at(detail.scope, account, pod, self.job["spec"], self.job_set)
        retries = max(0, self.retries_in(account) - spent)
        return Left(retries=retries, disruptions=max(0, budgets.disruptions - disruptions))

    def save_work(self, account: Account, pod: Pod) -> int:
        """Record the seconds of work that a counted pod has saved, if its Job has a deadline; return them."""
        deadline, scope = self.settings.deadline, limits.scope_of(pod)
        if deadline is None:
            return 0
        before = account.work.at_least(scope)
        now = on_time.saved_with(before, pod, self.job, deadline)
        if now:
            account.work.put(scope, now)
        return max(0, now - before)

    def disruptions_before(self, account: Account, pod: Pod) -> int | None:
        """Return the disruptions of a pod's scope before it, as the pod says itself; None if it does not."""
        return limits.disruptions_before(pod) if limits.are_in_pods(account, self.job["spec"], self.job_set) else None


def _is_of_this_run(job_set: Json, pod: Pod) -> bool:
    """Return True if neither a JobSet nor the Job of a pod was restarted since the pod was created."""
    name, _, index = limits.scope_of(pod).rpartition("/")[0].rpartition("-")
    alone = job_restarts(job_set, name, count(index) or 0)
    return (at(job_set, ("status", "restarts")) or 0) + alone.in_all <= (pod.restart or 0)


@dataclass(frozen=True, slots=True)
class PodsOfSystem:
    """The pods of a workload of a System, `job`, perhaps its metadata alone; `settings`: those of the workload."""

    scopes_have_retries: ClassVar = True
    pods_continue: ClassVar = True
    system: System
    cost_of: CostOf
    job: Json
    settings: Settings
    job_set: None = None

    def budgets_of(self, pod: Pod | None = None) -> Budgets:
        """Return what the scope of a pod may spend; without a pod, what the settings say.

        A pod may say less than the limit, not more: whoever creates one by hand says of which workload it is.
        """
        known, settings = None if pod is None else pod.max_retries, self.settings
        limit = settings.profile.retries.limit
        return Budgets(
            retries=limit if settings.skip else settings.default_retries if known is None else min(known, limit),
            limit=settings.disruption_budget,
            free_limit=limit,
            shares=1,
        )

    @property
    def renews_retries(self) -> bool:
        """Whether the leader may renew them: where it alone bounds them."""
        return self.settings.profile.retries.are_renewed and not self.system.bounded

    def raise_limit(self, _account: Account, _number: int) -> None:
        """Do nothing: the account alone bounds such retries."""

    def attempt_of(self, account: Account, pod: Pod) -> int:
        """Return the attempt of a pod: as its annotation says, or else the retries that its scope has spent."""
        return account.sure_retries_of(pod.scope) if pod.attempt is None else pod.attempt

    def outcome_of(self, account: Account, pod: Pod, *, has_ended: bool = False) -> Outcome:
        """Return how a pod that the account lacks has ended, and what that cost.

        `has_ended`: whether the workload has ended, or is suspended, so that it deletes its pods.
        """
        outcome = outcomes.outcome_alone(pod, has_ended=has_ended)
        if outcome.cost == "none":
            return outcome
        budget = self.budgets_of(pod).retries
        ended = any(one.cost == "fatal" and one.scope == pod.scope for one in account.last_now)
        spent = Spent(account.sure_retries_of(pod.scope), account.scopes.at_least(pod.scope), budget, ended)
        cost = self.cost_of(pod, self.job, spent, self.settings)
        is_last = cost == "retry" and spent.retries >= budget and self.system.knows_retries
        return replace(outcome, cost="fatal" if is_last else cost)

    def counts_as_retry(self, pod: Pod) -> bool:
        """Return True if the end of a pod costs a retry, as long as its scope has one."""
        return self.cost_of(pod, self.job, Spent(retries=0, disruptions=0, budget=1), self.settings) == "retry"

    def left_of(self, account: Account, pod: Pod, detail: Attempt) -> Left:
        """Return what the scope of a counted pod has left; `detail` is the pod's Attempt."""
        budgets = self.budgets_of(pod)
        retries = 0 if detail.cost == "fatal" else max(0, budgets.retries - account.sure_retries_of(detail.scope))
        return Left(retries=retries, disruptions=max(0, budgets.disruptions - account.scopes.of(detail.scope)))

    def save_work(self, _account: Account, _pod: Pod) -> int:
        """Return 0: only Jobs and JobSets have deadlines."""
        return 0

    def disruptions_before(self, _account: Account, _pod: Pod) -> None:
        """Return None: no pod of such a workload says it."""


Counted = PodsOfJob | PodsOfSystem


def counted_of(system: System, job: Json, job_set: Json | None, settings: Settings) -> Counted:
    """Return what the ends of the pods of a Job cost, or of a workload without Jobs, which stands for the Job."""
    cost_of = system.cost_of
    if cost_of is None:
        return PodsOfJob(job, job_set, settings)
    return PodsOfSystem(system, cost_of, job, settings)
