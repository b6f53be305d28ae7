"""Writes the account as sentences, for Events and `explain`, and takes the last words of an ended pod."""

from typing import Final, NamedTuple

from webhook.accounts.account import Account, Attempt
from webhook.accounts.kueue import CountedEvictions
from webhook.objects.times import written
from webhook.pods.on_failure import FailureState
from webhook.pods.outcomes import IN_PLACE, NEVER_STARTED, Outcome
from webhook.policy.attempt_costs import ATTEMPT_COSTS
from webhook.policy.causes import CAUSES
from webhook.policy.deadline import Slack
from webhook.policy.model import Next
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec

LONGEST_MESSAGE: Final = 200  # bytes of the last words of an attempt
CUT: Final = "…"  # stands before the rest of a longer message


class Terms(NamedTuple):
    """What the words about the attempts of a kind of workload are.

    - `kind`: what a fatal end ends; empty for a workload of a kind other than Job and JobSet.
    - `scope`: the form of the text about a scope.
    - `retry`: what a retry is called that is left. `retry_of_rule`: what one is called that a rule of the Job's failure
      policy has caused, or a restart in place. `retry_of_job`: any other one.
    """

    kind: str
    scope: str = "{}"
    retry: str = "retry"
    retry_of_rule: str = "retry"
    retry_of_job: str = "retry"


OF_JOB: Final = Terms("Job", scope="index {}")
OF_JOB_SET: Final = Terms("JobSet", retry="restart", retry_of_rule="restart", retry_of_job="retry of its Job")
OF_ANOTHER: Final = Terms("")


def terms_of(kind: KindSpec) -> Terms:
    """Return the words for a kind of workload."""
    return {batch.JOB: OF_JOB, JOB_SET: OF_JOB_SET}.get(kind, OF_ANOTHER)


def sentence(detail: Attempt, max_retries: int, terms: Terms = OF_JOB) -> str:
    """Return how an attempt ended, what that cost, and what is left.

    The sentence names the pod, so that no two attempts have the same: the API keeps only one of two equal Events.
    """
    scope = detail.scope.rstrip("/") if terms is OF_JOB_SET else detail.scope
    where = f"{terms.scope.format(scope)}: " if scope or terms is OF_JOB_SET else ""
    attempt = f"attempt {detail.attempt}" + ("" if terms is OF_JOB_SET else f" (max-retries {max_retries})")
    what = f"restarted in place ({detail.restart})" if detail.restart else "ended"
    parts = [f"{where}pod {detail.pod}, {attempt}, {what}: {how(detail)}", cost(detail, terms)]
    if detail.left is not None:
        retries = counted(detail.left.retries, terms.retry)
        parts.append(f"left: {retries}, {counted(detail.left.disruptions, 'disruption')}")
    return "; ".join(parts)


def how(detail: Attempt) -> str:
    """Return how an attempt ended, such as `container main exit code 143`."""
    return CAUSES[detail.cause].how(detail.reason)


def cost(detail: Attempt, terms: Terms = OF_JOB) -> str:
    """Return what an attempt cost, such as `cost 1 retry`."""
    if detail.cost == "retry":
        return f"cost 1 {terms.retry_of_rule if detail.action in {'FailJob', IN_PLACE} else terms.retry_of_job}"
    if detail.cost != "fatal":
        return ATTEMPT_COSTS[detail.cost].told
    if not terms.kind:
        return "no attempt follows"
    over = "index" if terms is OF_JOB and detail.action == "FailIndex" else terms.kind
    if detail.action in {"FailJob", "FailIndex"}:
        return f"rule {detail.rule} ({detail.action}) ends the {over}"
    if detail.cause == NEVER_STARTED:
        return f"a container did not start, which ends the {over}"
    return f"{ATTEMPT_COSTS[detail.cost].told}, which ends the {over}"


def verdict(within: int, kind: str, fault_within: int | None = None) -> str:
    """Return when a crash counts as a bug; `within`: the seconds before or after it in which a disruption explains it.

    `kind`: what the bug would end, Job or JobSet. `fault_within`: the seconds after it in which a fault of its node
    does; None if none would.
    """
    what = f"it is a bug, which ends the {kind}"
    if not within:
        fault = "" if fault_within is None else f", or its node has a fault within {fault_within} s after it"
        return f"{what}, unless somebody deleted the pod{fault}"
    fault = "" if fault_within is None else f", and its node has no fault within {fault_within} s after it"
    return f"{what}, if no other pod of it is disrupted within {within} s before or after it{fault}"


def fatal_by(rule: int, kind: str) -> str:
    """Return that a rule of onFailure ends a workload, unless a rule of its author decides about the same end."""
    return f"rule {rule} of onFailure ends the {kind}, unless a rule of its author says otherwise"


def unlisted(kind: str) -> str:
    """Return that a crash ends a workload because no rule of onFailure retries it."""
    return f"no rule of onFailure retries it, which ends the {kind}, unless a rule of its author says otherwise"


def decided(rule: int, following: Next | None) -> str:
    """Return that a rule of onFailure decided, and what the next pod gets by it, as far as that is known."""
    gets = [] if following is None else _asked(following)
    return f"rule {rule} of onFailure decided" + (f": the next pod gets {', '.join(gets)}" if gets else "")


def _asked(following: Next) -> list[str]:
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


def state(after: FailureState) -> str:
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


def suspended_of_system(limit: int) -> str:
    """Return why the ledger has suspended a workload that is no Job, and how to resume it."""
    return f"suspended: disruptions exceed the limit of {limit}; resume it to allow as many again"


def evictions(found: CountedEvictions) -> str:
    """Return how often Kueue has evicted a workload, such as `evicted by Kueue 2 times (2 Preempted)`."""
    reasons = ", ".join(f"{number} {reason}" for reason, number in found.reasons.items())
    parts = [f"evicted by Kueue {counted(found.number, 'time')} ({reasons})"]
    if found.limit is not None:
        parts.append(f"{max(0, found.limit - found.limited + found.before)} left")
    if found.requeues:
        until = f", waits until {found.requeue_at}" if found.requeue_at else ""
        parts.append(f"requeued {counted(found.requeues, 'time')}{until}")
    return "; ".join(parts)


def too_many_evictions(found: CountedEvictions) -> str:
    """Return that a workload was evicted more often than its limit allows."""
    return f"{evictions(found).partition(';')[0]}, more than the limit of {found.limit}"


def deactivation(found: CountedEvictions) -> str:
    """Return what the ledger would do to a workload that was evicted too often."""
    return f"deactivate its Workload: {too_many_evictions(found)}"


def deactivated(found: CountedEvictions, namespace: str, workload: str) -> str:
    """Return why the ledger has deactivated the Workload of a Job, and how to activate it."""
    activate = f'kubectl patch workload {workload} -n {namespace} --type=merge -p \'{{"spec":{{"active":true}}}}\''
    return f"deactivated: {too_many_evictions(found)}; to allow as many again: {activate}"


def deadline(slack: Slack, now: float) -> str:
    """Return how much time and work is left, and until when spot nodes are allowed."""
    left = slack.left(now)
    spare = f"{lasting(left)} to spare" if left >= 0 else f"{lasting(-left)} late"
    text = f"{written(slack.due)}, {lasting(slack.work)} of work left; on-demand nodes would be done with {spare}"
    if now > slack.turns_at:
        return f"{text}; it has allowed no spot node since {written(slack.turns_at)}"
    return f"{text}; it allows spot nodes, and waiting for one, until {written(slack.turns_at)}"


def lasting(seconds: float) -> str:
    """Return how long something lasts, such as `42s`, `10m` or `2h5m`."""
    hours, rest = divmod(int(seconds), 3600)
    if hours:
        return f"{hours}h{rest // 60}m"
    return f"{rest // 60}m" if rest // 60 else f"{rest}s"


def counted(number: int, name: str) -> str:
    """Return a number and a noun in the right form: `1 retry`, `2 retries`."""
    if number == 1:
        return f"1 {name}"
    return f"{number} {name[:-1]}ies" if name.endswith("y") else f"{number} {name}s"


def summary(account: Account) -> str:
    """Return what all attempts cost together, such as `3 attempts ended: 2 retries, 1 disruption`."""
    spent = {row.noun: account.spent(cost) for cost, row in ATTEMPT_COSTS.items() if account.spent(cost)}
    found = [counted(number, noun) if noun else f"{number} at no cost" for noun, number in spent.items()]
    text = f"{counted(account.ended, 'attempt')} ended" + (": " + ", ".join(found) if found else "")
    restarts = [counted(number, ATTEMPT_COSTS[cost].noun) for cost, number in account.in_place.items()]
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
