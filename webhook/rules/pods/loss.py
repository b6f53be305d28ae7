"""Finds out whether a pod loses its work at the first disruption: nothing retries or replaces it at no cost.

Reads, of the pod's controller:
    a Job: spec.{backoffLimit,backoffLimitPerIndex}, spec.podFailurePolicy.rules[*].{action,onPodConditions}
    others: the fields from which their attempts are read, and `replaces` of their systems (webhook/systems/pods.py)
of the JobSet that controls the Job: spec.failurePolicy.{maxRestarts,rules}
"""

from itertools import islice

from msgspec.structs import replace

from webhook.objects import bounds
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods.matching import FAILED_INDEXES, POD_FAILURE_POLICY, TOO_MANY_FAILURES, JobEnd, rule_of_set
from webhook.systems import pods as attempts
from webhook.systems.job import spec as batch
from webhook.systems.job.rules.failure_policy import matches_disruption
from webhook.systems.job.rules.lint import FAILING
from webhook.systems.job_set.rules.job_set import MESSAGE_OF_DISRUPTION
from webhook.systems.job_set.spec import FAIL_SET, FREE, JOB_SET, REPLICATED_JOB
from webhook.systems.pod_source import Evidence, Level, number_at


def is_lost_when_disrupted(evidence: Evidence, levels: list[Level]) -> bool:
    """Return True if the first disruption of a pod ends its work for good; `levels`: those of the pod.

    False if its author allows interruptions, or if its retries are unknown.
    """
    if evidence.settings.interruptible or attempts.is_replaced(evidence):
        return False
    controller, owner = evidence.controller, evidence.owner
    if controller is not None and controller.group == batch.JOB.group and owner is not None:
        return ends_job(evidence, owner.get("spec") or {})
    if levels and levels[0].source == attempts.ANNOTATION:  # it has the budget of only one level
        levels = attempts.levels_of_systems(replace(evidence, warnings=[])) or levels
    retries = [level.budget for level in levels if not level.of_disruptions]
    return bool(retries) and not any(retries)


def ends_job(evidence: Evidence, spec: Json) -> bool:
    """Return True if a disruption of a pod ends its Job, and the Job's controller does not restart it."""
    action = action_on_disruption(spec)
    if action == "Ignore" or (action not in FAILING and batch.retry_budget(spec)):
        return False
    above = evidence.above
    if above is None:
        return REPLICATED_JOB not in evidence.labels  # with this label it has a JobSet, which is unknown here
    if above.get("kind") != JOB_SET.kind:
        return not number_at(above, ("spec", "backoffLimit"))  # of a RayJob, whose submitter this Job is
    return ends_set(above, evidence.labels.get(REPLICATED_JOB) or "", end_of_job(spec, action))


def action_on_disruption(spec: Json) -> str:
    """Return the action of a JobSpec's first rule on disruptions; empty if it has none."""
    rules = islice((spec.get("podFailurePolicy") or {}).get("rules") or (), bounds.MAX_RULES)
    return next((rule.get("action") or "" for rule in rules if matches_disruption(rule)), "")


def end_of_job(spec: Json, action: str) -> JobEnd:
    """Return how a disruption ends a Job, by the `action` on it (pkg/controller/job of Kubernetes)."""
    if action == "FailJob":
        return JobEnd(POD_FAILURE_POLICY, f"Pod {MESSAGE_OF_DISRUPTION} rule at index 0")
    return TOO_MANY_FAILURES if spec.get("backoffLimitPerIndex") is None else FAILED_INDEXES


def ends_set(job_set: Json, replicated_job: str, end: JobEnd) -> bool:
    """Return True if a JobSet does not restart after such an end of a Job; it never does without a failure policy."""
    if not isinstance(at(job_set, ("spec", "failurePolicy")), dict):
        return True
    action = rule_of_set(job_set, replicated_job, end)[1]
    if action.endswith(FREE):
        return False
    return action == FAIL_SET or not number_at(job_set, ("spec", "failurePolicy", "maxRestarts"))
