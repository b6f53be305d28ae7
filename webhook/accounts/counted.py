"""What the ends of the pods of a Job cost, or of a workload of another kind, and what is left.

Both answer the same questions, so that whoever counts, decides or foretells asks without regard to the kind.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from webhook.accounts import limits
from webhook.accounts.account import Account, Attempt, Left
from webhook.accounts.limits import Budgets
from webhook.objects.problem import Json
from webhook.pods import outcomes
from webhook.pods.outcomes import Outcome
from webhook.pods.pods import Pod
from webhook.policy.settings import Settings
from webhook.systems.system import Spent, System


@dataclass(frozen=True)
class PodsOfJob:
    """The pods of a Job. `job_set`: the JobSet of the Job; None if it has none. `settings`: those of the Job."""

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

    def attempt_of(self, account: Account, pod: Pod) -> int:
        """Return the attempt of a pod: the retries that were spent when it was created, as its annotation says.

        Without the annotation: the retries that are spent now, or all restarts of the JobSet.
        """
        if pod.attempt is not None:
            return pod.attempt
        if pod.job_set:
            return pod.restart or 0
        return (pod.index_failures or 0) if self.budgets.per_index else account.spent_now("retry")

    def outcome_of(self, account: Account, pod: Pod, *, has_ended: bool = False) -> Outcome:
        """Return how a pod that the account lacks has ended, and what that cost.

        `has_ended`: whether the Job is known to have ended; it has too if a counted pod was fatal.
        """
        has_ended = has_ended or limits.has_ended(account, self.job_set)
        outcome = outcomes.outcome_of(pod, self.job, self.job_set, has_ended=has_ended)
        return limits.with_budget(outcome, self.budgets, account, self.job_set)

    def left_of(self, account: Account, pod: Pod, detail: Attempt) -> Left:
        """Return what the scope of a counted pod has left; `detail` is the pod's Attempt."""
        return limits.left_of(account, self.budgets, pod, detail, self.job, self.job_set)

    def disruptions_before(self, account: Account, pod: Pod) -> int | None:
        """Return the disruptions of a pod's scope before it, as the pod says itself; None if it does not."""
        return limits.disruptions_before(pod) if limits.are_in_pods(account, self.job["spec"], self.job_set) else None


@dataclass(frozen=True, slots=True)
class PodsOfSystem:
    """The pods of a workload of a System, `job`, perhaps its metadata alone; `settings`: those of the workload."""

    system: System
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
        cost = self.system.cost_of(pod, self.job, spent, self.settings)
        is_last = cost == "retry" and spent.retries >= budget and self.system.knows_retries
        return replace(outcome, cost="fatal" if is_last else cost)

    def left_of(self, account: Account, pod: Pod, detail: Attempt) -> Left:
        """Return what the scope of a counted pod has left; `detail` is the pod's Attempt."""
        budgets = self.budgets_of(pod)
        retries = 0 if detail.cost == "fatal" else max(0, budgets.retries - account.sure_retries_of(detail.scope))
        return Left(retries=retries, disruptions=max(0, budgets.disruptions - account.scopes.of(detail.scope)))

    def disruptions_before(self, _account: Account, _pod: Pod) -> None:
        """Return None: no pod of such a workload says it."""


Counted = PodsOfJob | PodsOfSystem


def counted_of(system: System | None, job: Json, job_set: Json | None, settings: Settings) -> Counted:
    """Return what the ends of the pods of a Job cost, or of the workload of a System, which stands for the Job."""
    return PodsOfJob(job, job_set, settings) if system is None else PodsOfSystem(system, job, settings)
