"""Decides whether the end of a pod ends its workload, where the Job controller cannot see it. Pure.

There are two such ends. A crash of pods that depend on each other may be a bug or the consequence of a disruption. And
a rule of `onFailure` may be about what a podFailurePolicy cannot match, such as a message (webhook/policy/costs.py).
The Job controller retries after both, until the ledger fails the Job.

A crash is a consequence if another pod of the workload was disrupted within a number of seconds before or after it;
else it is a bug. A crash is no bug if a rule of `onFailure` makes it worth a retry. If none matches, and its exit code
was retried only because one might have, it is a bug too. `webhook/controller/crashes.py` acts on the decision,
`webhook/accounts/forecast.py` predicts it.
"""

from math import inf

from webhook.accounts.counted import Counted, PodsOfJob, PodsOfSystem
from webhook.objects.problem import Json
from webhook.pods import matching, on_failure, outcomes
from webhook.pods.pods import Exit, Pod
from webhook.policy import costs
from webhook.policy.model import Hardware
from webhook.policy.settings import Settings
from webhook.systems.core import KILLED
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy
from webhook.systems.job_set.spec import FAIL_SET
from webhook.systems.kind_spec import EmbeddedJob


def may_settle(job: Json, settings: Settings) -> bool:
    """Return True if the ledger decides whether crashes of a Job's pods are bugs; `job` may be a CachedJob."""
    return any(failure_policy.is_settled(one, settings) for one in batch.JOB.jobs(job))


def may_judge(job: Json, settings: Settings) -> bool:
    """Return True if the ledger decides about ends of a Job's pods by the rules of `onFailure`; as `may_settle`.

    Not if the Job's indexes have budgets of their own: the ledger can fail a Job, but not one index.
    """
    if (
        settings.skip
        or settings.profile.failure_policy.inject == "Never"
        or not costs.needs_ledger(settings.on_failure)
    ):
        return False
    jobs = list(batch.JOB.jobs(job))
    return all(one.fails_on_pod_failure and not one.by_index for one in map(failure_policy.traits_of, jobs))


def is_suspect(counted: Counted, pod: Pod) -> bool:
    """Return True if a failed pod may end its Job by a decision of the ledger; as `may_settle`.

    If so, `bug_in` decides, which needs the Job's pod template. Of another kind it decides at once.
    """
    if isinstance(counted, PodsOfSystem):
        return bug_in(counted, pod) is not None
    job, settings = counted.job, counted.settings
    settles, judges = may_settle(job, settings), may_judge(job, settings)
    if not (settles or judges):
        return False
    _, cost = _decision(counted, pod)
    if cost is not None:
        return cost == "Fatal"
    if pod.stalled or not is_crash(pod):
        return False
    return not (is_told_to_end(pod, settings) if settles else _has_retriable_codes(pod, settings))


def hardware_for(counted: Counted, pod: Pod) -> Hardware | None:
    """Return by what a fault of its node is told that may explain the end of a pod; None if none may."""
    settings = counted.settings
    if settings.skip or settings.profile.failure_policy.inject == "Never" or pod.stalled or not is_crash(pod):
        return None
    return settings.profile.failure_policy.hardware if pod.has_failed and not outcomes.was_killed(pod) else None


def is_confirmed(counted: Counted, pod: Pod, faults: int) -> bool:
    """Return False if a rule that counts failures decides, and so many `faults` of nodes before it are among them.

    The pod was created before they were known: its annotation counts them as failures that nothing explains.
    """
    index, cost = _decision(counted, pod)
    needed = None if index is None or cost != "Fatal" else counted.settings.on_failure[index].match.failures
    if index is None or not needed:
        return True
    return 1 + sum(one >= index for one in on_failure.read(pod.after).decided) - faults >= needed


def fault_within(settings: Settings) -> int | None:
    """Return the seconds after a crash in which a fault of its node explains it; None if none does."""
    policy = settings.profile.failure_policy
    return None if policy.hardware is None else int(policy.settle_within)


def disturbs(counted: Counted, pod: Pod) -> bool:
    """Return True if the end of a pod, though no suspect, may explain crashes of other pods of its workload."""
    if isinstance(counted, PodsOfSystem):
        return pod.stalled
    return is_crash(pod) and may_settle(counted.job, counted.settings)


def window(job: Json, settings: Settings) -> int:
    """Return the seconds before and after a crash in which a disruption explains it; 0 if no pod depends on another."""
    coupled = any(failure_policy.traits_of(one).coupled for one in batch.JOB.jobs(job))
    return int(settings.profile.failure_policy.settle_within) if coupled else 0


def window_of(counted: Counted, pod: Pod, *, has_others: bool) -> float | None:
    """Return the seconds before and after a crash in which a disruption explains it; None if none of another pod does.

    Infinite if every crash counts as explained. `has_others`: whether the workload has pods of another scope.
    """
    if isinstance(counted, PodsOfJob):
        settles = may_settle(counted.job, counted.settings) and is_crash(pod)
        return window(counted.job, counted.settings) if settles else None
    policy = counted.settings.profile.failure_policy
    if policy.coupled == "FailJob" or not counted.system.coupled or not has_others:
        return None
    return policy.settle_within if policy.coupled == "Settle" else inf


def is_crash(pod: Pod) -> bool:
    """Return True if a failed pod was neither disrupted nor deleted."""
    return pod.disruption is None and not pod.deleting


def is_told_to_end(pod: Pod, settings: Settings) -> bool:
    """Return True if every failed container of a pod was told to end, or was killed, but not for its memory.

    Codes of init containers are not judged (`failure_policy.judged_containers`); neither are they below.
    """
    return all(one.is_init or _is_retriable(one, settings) for one in pod.exits)


def _has_retriable_codes(pod: Pod, settings: Settings) -> bool:
    codes = settings.profile.failure_policy.retriable_exit_codes
    return all(one.is_init or one.code in codes for one in pod.exits)


def _is_retriable(exited: Exit, settings: Settings) -> bool:
    codes = settings.profile.failure_policy.retriable_exit_codes
    return exited.code in codes or (exited.code == KILLED and exited.reason != outcomes.OOM)


def is_explained(crash: float, disturbed: float, within: float) -> bool:
    """Return True if the last disturbance of a workload explains a crash; all times are seconds of the same clock."""
    return disturbed >= crash - within


def bug_in(counted: Counted, pod: Pod, within: int = 0) -> str | None:
    """Return the message with which the end of a pod ends its workload, or its part; None if it does not.

    It does if a rule of onFailure makes it fatal. If none decides, after a bug that the policy does not retry, unless a
    disruption explains it: of another pod of the Job, in `within` seconds.
    """
    return _bug_of_job(counted, pod, within) if isinstance(counted, PodsOfJob) else _bug_of_system(counted, pod)


def _decision(counted: Counted, pod: Pod) -> tuple[int | None, costs.Cost | None]:
    rules = counted.settings.on_failure
    if not rules:
        return None, None
    index = on_failure.decided(pod, outcomes.outcome_of(pod, counted.job, counted.job_set), rules)
    return index, on_failure.cost_by(index, pod, rules)


def _bug_of_job(counted: PodsOfJob, pod: Pod, within: int) -> str | None:
    """Return what `bug_in` does, of a Job with its pod template.

    The end does not fail the Job if a rule of the Job's author decides about it, or if the JobSet would restart after
    it: then it costs a retry of the Job.
    """
    job, job_set, settings = counted.job, counted.job_set, counted.settings
    embedded = counted.embedded
    settles, judges = may_settle(job, settings), may_judge(job, settings)
    if not (settles or judges) or embedded.pod_spec.get("restartPolicy") != "Never":
        return None
    by_api = matching.match_by_job(job["spec"], pod)
    if by_api is not None and by_api.action == "FailJob":
        return None  # the Job controller fails the Job itself
    own = counted.author_rules
    if settings.profile.failure_policy.inject == "IfAbsent" and own:
        return None
    index, cost = _decision(counted, pod)
    if matching.match(own, pod) is not None or (cost is not None and (cost != "Fatal" or not judges)):
        return None
    if pod.stalled and cost is None:
        return None
    if cost == "Fatal":
        message = _fatal(pod, index, settings)
    else:
        message = bug_of(embedded, settings, pod, within if settles else None, own)
    if job_set is not None and message and matching.action_of_set(job_set, pod.replicated_job, message) != FAIL_SET:
        return None
    return message or None


def _bug_of_system(counted: PodsOfSystem, pod: Pod) -> str | None:
    """Return what `bug_in` does, of a workload of another kind: a bug is an exit code that only the system retries."""
    settings = counted.settings
    if settings.skip or settings.profile.failure_policy.inject == "Never" or outcomes.was_killed(pod):
        return None
    index, cost = _decision(counted, pod)
    if cost == "Fatal":
        return _fatal(pod, index, settings)
    if cost is not None or pod.stalled:
        return None
    codes = settings.profile.failure_policy.retriable_exit_codes
    bug = next((one for one in pod.exits if one.code not in codes), None)
    if bug is None or pod.disruption is not None or not counted.system.ends_bugs:
        return None
    return f"Container {bug.container} for pod {pod.namespace}/{pod.name} failed with exit code {bug.code}"


def bug_of(job: EmbeddedJob, settings: Settings, pod: Pod, within: int | None, own: list[Json]) -> str:
    """Return the message about a bug, about which no rule of onFailure decides; empty if the crash is none.

    `within`: None if no disruption of another pod could explain it. `own`: the rules of the Job's author.
    """
    match = matching.match(failure_policy.bug_rules(job, settings, own)[0], pod)
    if match is None or match.container is None:
        return ""
    code = next(one.code for one in pod.exits if one.container == match.container)
    what = f"Container {match.container} for pod {pod.namespace}/{pod.name} failed with exit code {code}"
    if pod.reason == outcomes.DEADLINE:
        what += " as the pod exceeded its deadline"
    if within is None:
        return f"{what}, and no rule of onFailure retries it"
    unexplained_because = (
        f"no pod that it depends on was disrupted within {within} s" if within else "nobody had deleted the pod"
    )
    seconds = fault_within(settings)
    without_fault = "" if seconds is None else f", and its node had no fault within {seconds} s after it"
    return f"{what}, and {unexplained_because}{without_fault}"


def _fatal(pod: Pod, index: int | None, settings: Settings) -> str:
    """Return the message about an end that a rule makes fatal: of the profile, or of `unknownExit: Confirm`."""
    what = f"Pod {pod.namespace}/{pod.name} {_how(pod)}"
    if index is not None and index < len(settings.profile.on_failure):
        return f"{what}, which rule {index} of onFailure makes fatal"
    before = on_failure.read(pod.after)
    earlier = " on ".join(part for part in (before.reason, *before.nodes[:1]) if part)
    return f"{what}, the second failure that nothing explains; the one before it: {earlier}"


def _how(pod: Pod) -> str:
    if pod.disruption is not None:
        return f"was disrupted ({pod.disruption.reason})"
    if pod.reason == outcomes.DEADLINE:
        return "exceeded its deadline"
    if pod.exits:
        one = pod.exits[0]
        reason = f" ({one.reason})" if one.reason not in {"", "Error"} else ""
        return f"failed in container {one.container} with exit code {one.code}{reason}"
    return f"failed ({pod.reason or 'for an unknown reason'})"
