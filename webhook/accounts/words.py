"""Writes the account as sentences, for Events and `explain`, and takes the last words of an ended pod."""

from typing import Final

from webhook.accounts.account import Account, Attempt, Left
from webhook.accounts.kueue import Evictions
from webhook.pods.on_failure import State
from webhook.pods.outcomes import IN_PLACE, NEVER_STARTED, Cost, Outcome
from webhook.policy.causes import CAUSES
from webhook.policy.model import Next

LONGEST_MESSAGE: Final = 200  # bytes of the last words of an attempt
CUT: Final = "…"  # stands before the rest of a longer message


def sentence(detail: Attempt, max_retries: int | None, *, elsewhere: bool = False) -> str:
    """Return how an attempt ended, what that cost, and what is left; `max_retries` is None for a pod of a JobSet.

    `elsewhere`: whether the pod is of a workload that is neither a Job nor a JobSet.
    The sentence names the pod, so that no two attempts have the same: the API keeps only one of two equal Events.
    """
    in_set = max_retries is None
    where = f"{detail.scope.rstrip('/')}: " if in_set else f"index {detail.scope}: " if detail.scope else ""
    if elsewhere and detail.scope:
        where = f"{detail.scope}: "
    attempt = f"attempt {detail.attempt}" + ("" if in_set else f" (max-retries {max_retries})")
    what = f"restarted in place ({detail.restart})" if detail.restart else "ended"
    parts = [
        f"{where}pod {detail.pod}, {attempt}, {what}: {how(detail)}",
        cost(detail, in_set=in_set, elsewhere=elsewhere),
    ]
    if detail.left is not None:
        parts.append(rest(detail.left, in_set=in_set))
    return "; ".join(parts)


def how(detail: Attempt) -> str:
    """Return how an attempt ended, such as `container main exit code 143`."""
    return CAUSES[detail.cause].how(detail.reason)


def cost(detail: Attempt, *, in_set: bool, elsewhere: bool = False) -> str:
    """Return what an attempt cost, such as `cost 1 retry`; `elsewhere`: as of `sentence`."""
    if elsewhere and detail.cost == "fatal":
        return "no attempt follows"
    by_rule = detail.action in {"FailJob", IN_PLACE}
    if detail.cost == "retry":
        return "cost 1 restart" if in_set and by_rule else "cost 1 retry of its Job" if in_set else "cost 1 retry"
    if detail.cost == "fatal":
        over = "JobSet" if in_set else "index" if detail.action == "FailIndex" else "Job"
        if detail.action in {"FailJob", "FailIndex"}:
            return f"rule {detail.rule} ({detail.action}) ends the {over}"
        if detail.cause == NEVER_STARTED:
            return f"a container did not start, which ends the {over}"
        return f"no retry was left, which ends the {over}"
    return {"disruption": "cost 1 disruption", "free": "cost 1 free restart"}.get(detail.cost, "cost nothing")


def verdict(within: int, kind: str) -> str:
    """Return when a crash counts as a bug; `within`: the seconds before or after it in which a disruption explains it.

    `kind`: what the bug would end, Job or JobSet.
    """
    if not within:
        return f"it is a bug, which ends the {kind}, unless somebody deleted the pod"
    return (
        f"it is a bug, which ends the {kind}, if no other pod of it is disrupted within {within} s before or after it"
    )


def fatal_by(rule: int, kind: str) -> str:
    """Return that a rule of onFailure ends a workload, unless a rule of its author decides about the same end."""
    return f"rule {rule} of onFailure ends the {kind}, unless a rule of its author says otherwise"


def unlisted(kind: str) -> str:
    """Return that a crash ends a workload because no rule of onFailure retries it."""
    return f"no rule of onFailure retries it, which ends the {kind}, unless a rule of its author says otherwise"


def decided(rule: int, following: Next | None) -> str:
    """Return that a rule of onFailure decided, and what the next pod gets by it, as far as that is known."""
    gets = [] if following is None else asked(following)
    return f"rule {rule} of onFailure decided" + (f": the next pod gets {', '.join(gets)}" if gets else "")


def asked(following: Next) -> list[str]:
    """Return what a rule of onFailure asks of the next pod, such as `another node`."""
    found = []
    if following.memory is not None:
        found.append(f"{following.memory.factor:g} times the memory, at most {following.memory.limit}")
    if following.delay is not None:
        found.append("a delay")
    if following.avoid is not None:
        found.append(f"another {following.avoid.lower()} if there is one")
    if following.placement is not None:
        found.append("on-demand nodes")
    return found


def state(after: State) -> str:
    """Return what the ended attempts before a pod ask of it, such as `rule 0 decided after OOMKilled; …`."""
    decider = "no rule" if after.rule is None else f"rule {after.rule}"
    parts = [f"{decider} decided after {after.cause or 'an end that was no failure'}"]
    parts += [
        f"container {name} was killed for its memory {counted(times, 'time')}" for name, times in after.kills.items()
    ]
    if after.not_before:
        parts.append(f"waits until {after.not_before}")
    if after.avoid_nodes:
        parts.append(f"avoids the nodes {', '.join(after.avoid_nodes)}")
    if after.avoid_zones:
        parts.append(f"avoids the zones {', '.join(after.avoid_zones)}")
    if after.on_demand:
        parts.append("runs on on-demand nodes")
    return "; ".join(parts)


def suspended(limit: int, namespace: str, name: str) -> str:
    """Return why the ledger has suspended a Job, and how to resume it."""
    resume = f'kubectl patch job {name} -n {namespace} --type=merge -p \'{{"spec":{{"suspend":false}}}}\''
    return f"suspended: disruptions exceed the limit of {limit}; to allow as many again: {resume}"


def suspended_elsewhere(limit: int) -> str:
    """Return why the ledger has suspended a workload that is no Job, and how to resume it."""
    return f"suspended: disruptions exceed the limit of {limit}; resume it to allow as many again"


def evictions(found: Evictions) -> str:
    """Return how often Kueue has evicted a workload, such as `evicted by Kueue 2 times (2 Preempted)`."""
    reasons = ", ".join(f"{number} {reason}" for reason, number in found.reasons.items())
    parts = [f"evicted by Kueue {counted(found.number, 'time')} ({reasons})"]
    if found.limit is not None:
        parts.append(f"{max(0, found.limit - found.limited + found.before)} left")
    if found.requeues:
        until = f", waits until {found.requeue_at}" if found.requeue_at else ""
        parts.append(f"requeued {counted(found.requeues, 'time')}{until}")
    return "; ".join(parts)


def too_many_evictions(found: Evictions) -> str:
    """Return that a workload was evicted more often than its limit allows."""
    return f"{evictions(found).partition(';')[0]}, more than the limit of {found.limit}"


def deactivation(found: Evictions) -> str:
    """Return what the ledger would do to a workload that was evicted too often."""
    return f"deactivate its Workload: {too_many_evictions(found)}"


def deactivated(found: Evictions, namespace: str, workload: str) -> str:
    """Return why the ledger has deactivated the Workload of a Job, and how to activate it."""
    activate = f'kubectl patch workload {workload} -n {namespace} --type=merge -p \'{{"spec":{{"active":true}}}}\''
    return f"deactivated: {too_many_evictions(found)}; to allow as many again: {activate}"


def rest(left: Left, *, in_set: bool) -> str:
    """Return what is left, such as `left: 2 retries, 1 disruption`."""
    retries = counted(left.retries, "restart" if in_set else "retry")
    return f"left: {retries}, {counted(left.disruptions, 'disruption')}"


def counted(number: int, name: str) -> str:
    """Return a number and a noun in the right form: `1 retry`, `2 retries`."""
    if number == 1:
        return f"1 {name}"
    return f"{number} {name[:-1]}ies" if name.endswith("y") else f"{number} {name}s"


def summary(account: Account) -> str:
    """Return what all attempts cost together, such as `3 attempts ended: 2 retries, 1 disruption`."""
    nouns: dict[Cost, str] = {
        "retry": "retry",
        "disruption": "disruption",
        "free": "free restart",
        "fatal": "fatal end",
    }
    found = [counted(account.spent(cost), noun) for cost, noun in nouns.items() if account.spent(cost)]
    if account.spent("none"):
        found.append(f"{account.spent('none')} at no cost")
    text = f"{counted(account.ended, 'attempt')} ended" + (": " + ", ".join(found) if found else "")
    restarts = [counted(number, nouns.get(cost, cost)) for cost, number in account.in_place.items()]
    if not restarts:
        return text
    return f"{text}; {counted(sum(account.in_place.values()), 'restart')} in place: {', '.join(restarts)}"


def last_words(outcome: Outcome) -> str:
    """Return the end of the termination message of the container by which a pod ended; empty if it left none.

    At most LONGEST_MESSAGE bytes; the message of another container that failed if that one left none.
    """
    deciding = outcome.reason.partition(" ")[0]  # as `outcomes.cause_of` writes it
    found = sorted((one for one in outcome.pod.exits if one.message), key=lambda one: one.container != deciding)
    return in_one_line(found[0].message) if found else ""


def in_one_line(message: str) -> str:
    """Return the end of a program's message without what a terminal would obey: one line of printable characters."""
    line = " ".join("".join(one if one.isprintable() else " " for one in message).split())
    encoded = line.encode()
    if len(encoded) <= LONGEST_MESSAGE:
        return line
    return CUT + encoded[len(CUT.encode()) - LONGEST_MESSAGE :].decode(errors="ignore")
