"""The budgets of a workload, what is left of them, and whether one is exceeded."""

from dataclasses import dataclass

from webhook.accounts.account import Account
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.settings import Settings
from webhook.systems.job import spec as batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What a Job, or its JobSet, allows.

    - `retries`: of the set, the Job, or (`per_index`) each index.
    - `limit`: disruptions, `free_limit`: free restarts; each is multiplied by `shares` for one scope.
    - `shares`: how many pods share one scope.
    """

    retries: int
    limit: int
    free_limit: int
    shares: int
    per_index: bool = False

    @property
    def disruptions(self) -> int:
        """How many disruptions one scope may have."""
        return self.limit * self.shares

    @property
    def free_restarts(self) -> int:
        """How many free restarts one scope may have."""
        return self.free_limit * self.shares


def budgets_of(job: Json, job_set: Json | None, settings: Settings) -> Budgets:
    """Return what a Job allows, or its JobSet if it has one."""
    spec = job["spec"]
    if job_set is None:
        retries = batch.retry_budget(spec)
    else:
        retries = at(job_set, ("spec", "failurePolicy", "maxRestarts")) or 0
    return Budgets(
        retries=retries,
        limit=settings.job_disruption_budget,
        free_limit=settings.profile.retries.limit,
        shares=_shares_of(spec),
        per_index=job_set is None and batch.has_index_budgets(spec),
    )


def _shares_of(spec: Json) -> int:
    """Return how many pods share one disruption budget: 1 if each index has its own, else the pods that run at once."""
    return 1 if batch.is_indexed(spec) else batch.running_at_once(spec)


def are_in_pods(account: Account, spec: Json, job_set: Json | None) -> bool:
    """Return True if the pods of a Job say how many disruptions their index had before them, and nothing else.

    With backoffLimitPerIndex the Job controller keeps a failed pod until admission has seen the next one of its index.
    The number that admission writes would be too high if failures other than disruptions were ignored, or after a
    resume of the Job, because the Job controller counts those as well; or if disruptions count for a time.
    """
    if job_set is not None or account.grants or account.window_start or not batch.is_indexed(spec):
        return False
    return spec.get("backoffLimitPerIndex") is not None and batch.ignores_disruptions_alone(spec)


def disruptions_before(pod: Pod) -> int | None:
    """Return the disruptions of a pod's index before it, as the pod says itself; None if it does not."""
    return 0 if is_first(pod.index_failures, pod.index_ignored) else pod.disruptions


def is_first(failures: int | None, ignored: int | None) -> bool:
    """Return True if a pod is the first one of its index, by the counts that the Job controller writes on it."""
    return failures == 0 and ignored is None


def disruptions_at(scope: str, account: Account, pod: Pod, spec: Json, job_set: Json | None) -> int:
    """Return the disruptions of the scope of a pod that are counted: at least as many as there were."""
    if account.scopes.is_dropped(scope) and are_in_pods(account, spec, job_set):
        known = disruptions_before(pod)
        return account.scopes.others if known is None else min(known, account.scopes.others)
    return account.scopes.of(scope)


def share_of(disruptions: int, spec: Json) -> int:
    """Return a scope's disruptions divided by the pods that share it, which placement compares with the limit."""
    return disruptions // _shares_of(spec)


def needs_uncounted(spec: Json) -> bool:
    """Return True if the failures of all indexes together count, and a pod is replaced before an account has its end.

    With backoffLimitPerIndex a Job's status has a failure once the pod is replaced, which may be at once.
    """
    return spec.get("backoffLimitPerIndex") is not None and not batch.has_index_budgets(spec)


def scope_of(pod: Pod) -> str:
    """Return the scope of a pod, as `webhook/accounts/scopes.py` defines it."""
    return pod.scope or scope_named(pod.job_set, pod.job, pod.index)


def scope_named(job_set: str, job: str, index: str) -> str:
    """Return the scope of a pod by the names of its JobSet and Job, and its index; "" for a part that it lacks."""
    return f"{job.removeprefix(f'{job_set}-')}/{index}" if job_set else index


def job_of(job_set: str, scope: str) -> str:
    """Return the name of the Job of a scope in a JobSet; empty if there is no JobSet."""
    return f"{job_set}-{scope.rpartition('/')[0]}" if job_set else ""


def is_exceeded(account: Account, budgets: Budgets, scope: str) -> bool:
    """Return True if a scope certainly had more disruptions than allowed."""
    return account.scopes.at_least(scope) > budgets.disruptions


def is_free_too_often(account: Account, budgets: Budgets, scope: str) -> bool:
    """Return True if a scope certainly had more free restarts than allowed."""
    return account.free.at_least(scope) > budgets.free_restarts
