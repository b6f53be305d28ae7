"""Says how much of each budget of a Job is spent. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from webhook.kinds import batch
from webhook.kube import terminal
from webhook.ledger.model import limits, matching, words
from webhook.ledger.model.account import Account
from webhook.ledger.model.in_place import bounds
from webhook.ledger.model.pods import Pod
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.settings import Settings

MANY: Final = batch.UNLIMITED // 2


def job_budgets(root: Json, account: Account, settings: Settings, found: Iterable[Pod]) -> Iterator[str]:
    """Yield lines that say how much of each budget of a Job is spent; `found`: its pods."""
    yield from unseen(root, account)
    budgets = limits.budgets_of(root, None, settings)
    if budgets.per_index:
        failed = at(root, ("status", "failedIndexes"))
        yield f"retries: {budgets.retries} for each index" + (f"; failed indexes: {failed}" if failed else "")
    else:
        yield f"retries: {account.spent_now('retry')} of {budgets.retries} spent"
    yield from in_place(root, account, found)
    if budgets.limit <= MANY and (account.spent("disruption") or ignores_disruptions(root)):
        yield from disruption_budget(root, account, budgets)
    if account.grants:
        yield f"resumed {words.counted(account.grants, 'time')} after reaching the disruption limit"


def in_place(root: Json, account: Account, found: Iterable[Pod]) -> Iterator[str]:
    """Yield how many restarts in place the Job controller counts, if it does: those of pods that have not ended.

    It deletes these pods as it fails the Job: then as many as the account has counted.
    """
    restarted = [pod for pod in found if pod.restarts is not None and not pod.has_ended]
    limit = min((bounds.limit_of(pod, root, None) for pod in restarted), default=batch.UNLIMITED)
    counted = account.in_place.get("retry", 0) + account.in_place.get("fatal", 0)
    if limit < batch.UNLIMITED:
        spent = sum(pod.restarts.by_api for pod in restarted if pod.restarts is not None)
        yield f"restarts in place: {spent}; the Job fails with {limit}, which is apart from failed pods"
    elif counted:
        yield f"restarts in place: {counted} so far, which the Job controller counts apart from failed pods"


def unseen(root: Json, account: Account) -> Iterator[str]:
    """Yield how many failures only the status of a Job that has ended shows.

    The ledger does not count them: which of them ended the Job, cost a retry or only followed from its end is unknown.
    While a Job runs, it counts them.
    """
    if not terminal.is_decided(root.get("status") or {}):
        return
    known = sum(account.spent_now(cost) for cost in (*limits.FAILURES, "none"))
    missing = batch.failed_in_status(root) - known
    if missing > 0:
        yield f"{words.counted(missing, 'more pod')} failed unseen, by status.failed"


def ignores_disruptions(root: Json) -> bool:
    """Return True if a rule of a Job's failure policy ignores disruptions."""
    rules = at(root, ("spec", "podFailurePolicy", "rules")) or ()
    return any(rule.get("action") == "Ignore" and matching.is_of_disruptions(rule) for rule in rules)


def disruption_budget(root: Json, account: Account, budgets: limits.Budgets) -> Iterator[str]:
    """Yield how many disruptions a Job had and has left, and whether their limit has suspended it."""
    so_far, now = account.spent("disruption"), account.scopes.of("")
    if batch.is_indexed(root["spec"]):
        yield f"disruptions: {so_far} so far; the limit for each index: {budgets.disruptions}"
    else:
        since = "" if now == so_far else f", {now} since the limit was reset"
        yield f"disruptions: {so_far} so far{since}, {max(0, budgets.disruptions - now)} left"
    if account.suspended:
        metadata = root["metadata"]
        yield words.suspended(budgets.disruptions, metadata.get("namespace") or "", metadata["name"])
