"""Finds out whether a pod that waits for a spot node could run on-demand in its place.

Reads:
    of the pod: the fields that webhook/rules/pods/groups.py reads, metadata.annotations[retry-policy.dev/attempt],
    spec.{affinity,nodeSelector}
    of its Job: spec.template.spec.{affinity,nodeSelector}, spec.podFailurePolicy, spec.{backoffLimit,
    backoffLimitPerIndex}
    of its JobSet: spec.failurePolicy
"""

from webhook import capacity
from webhook.kinds import batch
from webhook.kinds.job_set import REPLICATED_JOB
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.settings import Settings, count
from webhook.rules.jobs.lint import FAILING
from webhook.rules.pods import groups, loss, placement


def could_run_on_demand(
    pod: Json, job: Json, job_set: Json | None, settings: Settings, recognised: capacity.Provider | None
) -> bool:
    """Return True if only the policy restricts a pod to spot nodes, and another pod follows if it is disrupted.

    A pod that is scheduled with a group is left alone: its group waits as a whole. `job_set`: that of the Job.
    """
    provider = placement.provider_of(settings, recognised)
    if provider is None or not capacity.refuses_on_demand(pod["spec"], provider):
        return False
    template = at(job, ("spec", "template", "spec")) or {}
    if capacity.refuses_on_demand(template, provider) or groups.is_grouped(pod) or placement.is_bound_elsewhere(pod):
        return False
    return is_replaced(pod, job["spec"], job_set)


def is_replaced(pod: Json, spec: Json, job_set: Json | None) -> bool:
    """Return True if another pod follows a disrupted one; `spec`: of its Job."""
    action = loss.action_on_disruption(spec)
    if action == "Ignore":
        return True
    if action in FAILING:
        replicated_job = (pod["metadata"].get("labels") or {}).get(REPLICATED_JOB) or ""
        return job_set is not None and not loss.ends_set(job_set, replicated_job, loss.end_of_job(spec, action))
    attempt = count((pod["metadata"].get("annotations") or {}).get(names.ATTEMPT)) or 0
    return attempt < batch.retry_budget(spec)
