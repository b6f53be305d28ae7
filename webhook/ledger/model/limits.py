"""How much a workload may spend, what is left of it, and what is to be done when nothing is."""

from dataclasses import dataclass, replace
from typing import Final

from webhook.kinds import batch
from webhook.kinds.job_set import costly_restarts, job_restarts
from webhook.ledger.model.account import Account, Attempt, Left
from webhook.ledger.model.outcomes import Cost, Outcome
from webhook.ledger.model.pods import Pod
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.settings import Settings, count

FAILURES: Final[tuple[Cost, ...]] = ("retry", "fatal")  # what the Job's status counts as failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What a Job, or the JobSet that it is of, allows.

    `retries`: of the set, the Job, or each index; `limit`: disruptions, and `free_limit`: restarts that cost nothing,
    of each index, else times `shares`, the pods that run at a time.
    """

    retries: int
    limit: int
    free_limit: int
    shares: int
    per_index: bool = False

    @property
    def disruptions(self) -> int:
        """The disruptions of one scope."""
        return self.limit * self.shares

    @property
    def free_restarts(self) -> int:
        """The restarts of one scope that cost nothing."""
        return self.free_limit * self.shares


def budgets_of(job: Json, job_set: Json | None, settings: Settings) -> Budgets:
    """Read what a Job allows, in its JobSet where it has one."""
    spec = job["spec"]
    if job_set is None:
        retries = batch.retry_budget(spec)
    else:
        retries = at(job_set, ("spec", "failurePolicy", "maxRestarts")) or 0
    return Budgets(
        retries=retries,
        limit=settings.disruption_budget,
        free_limit=settings.profile.retries.limit,
        shares=shares_of(spec),
        per_index=job_set is None and batch.has_index_budgets(spec),
    )


def shares_of(spec: Json) -> int:
    """Return how many pods share one disruption budget: with completion indexes each has its own."""
    return 1 if batch.is_indexed(spec) else batch.running_at_once(spec)


def share_of(disruptions: int, spec: Json) -> int:
    """Return the disruptions of a scope as placement compares them with the limit: of each pod that runs at a time."""
    return disruptions // shares_of(spec)


def failures_of(account: Account, spec: Json, uncounted: int = 0) -> int | None:
    """Return the failures of a lone Job that cost a retry; None where its status tells of all of them in time."""
    return None if spec.get("backoffLimitPerIndex") is None else account.spent_now("retry") + uncounted


def has_ended(account: Account, job_set: Json | None) -> bool:
    """Return True if a pod is known to have ended its Job; a JobSet may go on without one of its Jobs."""
    return job_set is None and account.spent_now("fatal") > 0


def scope_of(pod: Pod) -> str:
    """Name the scope that a pod belongs to: what has a disruption budget of its own."""
    return scope_named(pod.job_set, pod.job, pod.index)


def scope_named(job_set: str, job: str, index: str) -> str:
    """Name the scope of a Job's pod by its index, in a JobSet by its Job too; each is empty where there is none."""
    return f"{job.removeprefix(f'{job_set}-')}/{index}" if job_set else index


def job_of(job_set: str, scope: str) -> str:
    """Name the Job that a scope of a JobSet belongs to; empty where there is no set."""
    return f"{job_set}-{scope.rpartition('/')[0]}" if job_set else ""


def with_budget(outcome: Outcome, budgets: Budgets, account: Account) -> Outcome:
    """Return how a pod ended that is about to be counted: one for which no retry is left ends its Job, or its index.

    In a JobSet the Job has retries of its own, and the set may restart it.
    """
    spent = (outcome.pod.index_failures or 0) if budgets.per_index else account.spent_now("retry")
    if outcome.cost != "retry" or outcome.pod.job_set or spent < budgets.retries:
        return outcome
    return replace(outcome, cost="fatal")


def attempt_of(account: Account, budgets: Budgets, pod: Pod) -> int:
    """Return which attempt a pod is: the retries that were spent when it was created, as its annotation says.

    Without the annotation the retries count that are spent now, of a JobSet all restarts.
    """
    if pod.attempt is not None:
        return pod.attempt
    if pod.job_set:
        return pod.restart or 0
    return (pod.index_failures or 0) if budgets.per_index else account.spent_now("retry")


def left_of(account: Account, budgets: Budgets, pod: Pod, detail: Attempt, job_set: Json | None) -> Left:
    """Return what is left to the scope of a pod that was counted, as `detail` says."""
    if job_set is not None:
        spent = restarts_of(job_set, pod, detail)
    elif budgets.per_index:
        spent = (pod.index_failures or 0) + (detail.cost == "retry")
    else:
        spent = account.spent_now("retry")
    return Left(
        retries=max(0, budgets.retries - spent),
        disruptions=max(0, budgets.disruptions - account.scopes.of(detail.scope)),
    )


def restarts_of(job_set: Json, pod: Pod, detail: Attempt) -> int:
    """Return the restarts that count towards maxRestarts, with that which the end of a pod brings about."""
    name, _, index = detail.scope.rpartition("/")[0].rpartition("-")
    alone = job_restarts(job_set, name, count(index) or 0)
    in_all = (at(job_set, ("status", "restarts")) or 0) + alone.in_all
    brings_one = detail.cost == "retry" and detail.action == "FailJob"
    return costly_restarts(job_set) + (brings_one and in_all <= (pod.restart or 0))


def is_exceeded(account: Account, budgets: Budgets, scope: str) -> bool:
    """Return True if a scope had more disruptions than it may, beyond doubt."""
    return account.scopes.at_least(scope) > budgets.disruptions


def is_free_too_often(account: Account, budgets: Budgets, scope: str) -> bool:
    """Return True if a scope restarted at no cost more often than it may, beyond doubt."""
    return account.free.at_least(scope) > budgets.free_restarts
