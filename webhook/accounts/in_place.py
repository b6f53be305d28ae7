"""Counts restarts in place in an account, with their cause and what they cost."""

from collections.abc import Container, Mapping
from typing import Final

import msgspec

from webhook.accounts import limits, tracked, words
from webhook.accounts.account import LONGEST_REASON, MOST_MESSAGES, Account, Attempt, id_of
from webhook.accounts.counted import Counted
from webhook.history.usage import Used
from webhook.objects.problem import Json
from webhook.pods import outcomes
from webhook.pods.outcomes import IN_PLACE, is_in_place, limit_of
from webhook.pods.pods import Pod
from webhook.pods.restarts import RESTARTED_ALL, LastExit
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.causes import Cause
from webhook.systems.job.spec import UNLIMITED

UNKNOWN: Final = LastExit("", 0)


def count(  # noqa: PLR0913 - where all of it meets
    account: Account,
    pod: Pod,
    counted: Counted,
    by_api: int,
    *,
    keeps_messages: bool = False,
    used: Used | None = None,
) -> Attempt | None:
    """Count the restarts of a pod that an account lacks; return the Attempt of the last one, None if it lacks none.

    `by_api`: the restarts that the Job controller counts for the pod's Job. `keeps_messages`: whether the
    account keeps last words. `used`: what the last of them used. Of the others only their number is known, and so
    how many of them had reached the limit.
    """
    missing = tracked.uncounted(pod, account.restarted)
    restarts = pod.restarts
    if restarts is None or missing <= 0:
        return None
    account.restarted.pop(id_of(pod), None)
    account.restarted[id_of(pod)] = restarts.number  # the newest last
    job, job_set = counted.job, counted.job_set
    cost = _cost_of(pod, job, job_set)
    scope = limits.scope_of(pod)
    limit = limit_of(pod, job, job_set)
    spent = restarts.number if is_in_place(job_set) else by_api
    beyond = min(missing - 1, max(0, spent - limit)) if cost == "retry" else 0
    for unseen, number in ((cost, missing - 1 - beyond), ("fatal", beyond)):
        if number:
            account.add_restarts("Other", outcomes.UNSEEN, unseen, scope, number)
    last = restarts.last or UNKNOWN
    cause, reason = _cause_of(last)
    detail = Attempt(
        attempt=counted.attempt_of(account, pod),
        restart=restarts.number,
        scope=scope,
        pod=pod.name,
        node=pod.node,
        placement=pod.placement,
        start=last.start,
        end=last.end,
        cause=cause,
        reason=reason[:LONGEST_REASON],
        action=IN_PLACE if is_in_place(job_set) else "",
        cost="fatal" if cost == "retry" and spent >= limit else cost,
        message=words.in_one_line(last.message) if keeps_messages else "",
    )
    left = counted.left_of(account, pod, detail)
    retries = min(left.retries, max(0, limit - spent)) if cost == "retry" else left.retries
    detail = msgspec.structs.replace(detail, left=msgspec.structs.replace(left, retries=retries))
    found = account.add_restart(detail, used)
    account.left = detail.left
    account.forget_messages(MOST_MESSAGES)
    return found


def _cost_of(pod: Pod, job: Json, job_set: Json | None) -> AttemptCost:
    """Return what a restart in place costs: `retry` if the API counts it towards a limit, else `free`.

    The Job controller counts it for pods with the restartPolicy OnFailure towards backoffLimit
    (pastBackoffLimitOnFailure in pkg/controller/job/job_controller.go of Kubernetes 1.36.3), the JobSet controller for
    sets that restart in place towards maxRestarts (pkg/controllers/in_place_restart.go of JobSet 0.12).
    """
    return "free" if limit_of(pod, job, job_set) >= UNLIMITED else "retry"


def _cause_of(last: LastExit) -> tuple[Cause, str]:
    if last.reason == outcomes.OOM:
        return "OOMKilled", last.container
    if not last.container or last.reason == RESTARTED_ALL:
        return "Other", last.reason or outcomes.UNSEEN
    return "ExitCode", f"{last.container} {last.code}"


def ended_in_place(pod: Pod, counted: Mapping[str, int]) -> Pod:
    """Return a pod with the start and the end of its last attempt that ended in place: for what that used.

    With its own start if there were several before any of them is `counted`, as in the account.
    """
    restarts = pod.restarts
    last = (None if restarts is None else restarts.last) or UNKNOWN
    several = restarts is not None and restarts.number > 1 and id_of(pod) not in counted
    started = pod.started if several and pod.started else last.start
    return msgspec.structs.replace(pod, started=started, ended=last.end, last_end="", deleted="", conditions=())


def last_attempt(pod: Pod) -> Pod:
    """Return a pod with the start of its last attempt, if it has restarted in place."""
    began = "" if pod.restarts is None or not pod.restarts.number else pod.restarts.began
    return msgspec.structs.replace(pod, started=began) if began else pod


def forget(account: Account, keep: int, staying: Container[str]) -> None:
    """Let an account forget all its restarted pods but the newest `keep`, and those of which `staying` has the id."""
    old = list(account.restarted)[: max(0, len(account.restarted) - keep)]
    for one in old:
        if one not in staying:
            del account.restarted[one]
