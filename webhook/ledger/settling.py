"""Decides whether a crash of pods that depend on each other was a bug, or the consequence of a disruption. Pure.

A crash is a consequence if another pod of the workload was disrupted within a number of seconds before or after it;
else it is a bug. `webhook/ledger/controller.py` acts on the decision, `webhook/ledger/forecast.py` predicts it.
"""

from webhook.kinds import batch
from webhook.ledger.model import matching, outcomes
from webhook.ledger.model.pods import Exit, Pod
from webhook.objects.problem import Json
from webhook.policy.settings import Settings
from webhook.rules.job_sets.job_set import FAILING
from webhook.rules.jobs import failure_policy
from webhook.rules.jobs.lint import KILLED


def may_settle(job: Json, settings: Settings) -> bool:
    """Return True if the ledger decides whether crashes of a Job's pods are bugs; `job` may be a CachedJob."""
    return any(failure_policy.is_settled(one, settings) for one in batch.JOB.jobs(job))


def window(job: Json, settings: Settings) -> int:
    """Return the seconds before and after a crash in which a disruption explains it; 0 if no pod depends on another."""
    coupled = any(map(failure_policy.is_coupled, batch.JOB.jobs(job)))
    return int(settings.profile.failure_policy.settle_within) if coupled else 0


def is_crash(pod: Pod) -> bool:
    """Return True if a failed pod was neither disrupted nor deleted."""
    return pod.disruption is None and not pod.deleting


def is_told_to_end(pod: Pod, settings: Settings) -> bool:
    """Return True if every failed container of a pod was told to end, or was killed, but not for its memory."""
    return all(is_retriable(one, settings) for one in pod.exits)


def is_retriable(exited: Exit, settings: Settings) -> bool:
    """Return True if a container ended with a retriable exit code, or with 137 but not for its memory."""
    codes = settings.profile.failure_policy.retriable_exit_codes
    return exited.code in codes or (exited.code == KILLED and exited.reason != outcomes.OOM)


def is_explained(crash: float, disturbed: float, within: float) -> bool:
    """Return True if the last disturbance of a workload explains a crash; all times are seconds of the same clock."""
    return disturbed >= crash - within


def bug_in(job: Json, settings: Settings, pod: Pod, within: int, job_set: Json | None) -> str | None:
    """Return the message with which a crash that no disruption explains fails its Job; None if it does not fail it.

    `job` must have its pod template. A crash does not fail the Job if a rule of the Job decides about it, or if the
    JobSet would restart after it: then it costs a retry of the Job.
    """
    (embedded,) = batch.JOB.jobs(job)
    if not may_settle(job, settings) or embedded.pod_spec.get("restartPolicy") != "Never":
        return None
    own = (embedded.spec.get("podFailurePolicy") or {}).get("rules") or []
    added, _ = failure_policy.bug_rules(embedded, settings, own)
    match = matching.match([*own, *added], pod)
    if match is None or match.index < len(own) or match.container is None:
        return None
    code = next(one.code for one in pod.exits if one.container == match.container)
    what = f"Container {match.container} for pod {pod.namespace}/{pod.name} failed with exit code {code}"
    no_echo = f"no pod that it depends on was disrupted within {within} s" if within else "nobody had deleted the pod"
    message = f"{what}, and {no_echo}"
    if job_set is not None and matching.action_of_set(job_set, pod.replicated_job, message) != FAILING:
        return None
    return message
