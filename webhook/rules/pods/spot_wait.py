"""Finds out whether a pod that waits for a spot node could run on-demand in its place.

Reads:
    of the pod: the fields that webhook/rules/pods/groups.py reads, the Job controller's annotation of its index's
    failures, spec.{affinity,nodeSelector}
    of its Job: status.failed, spec.template.spec.{affinity,nodeSelector}, spec.podFailurePolicy, spec.{backoffLimit,
    backoffLimitPerIndex}
    of its JobSet: spec.failurePolicy
"""

from webhook import capacity
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.settings import Settings, count
from webhook.rules.pods import groups, loss, placement
from webhook.systems.job import spec as batch
from webhook.systems.job.rules.lint import FAILING
from webhook.systems.job_set.spec import REPLICATED_JOB


def could_run_on_demand(
    pod: Json, job: Json, job_set: Json | None, settings: Settings, recognised: capacity.Provider | None
) -> bool:
    """Return True if only the policy restricts a pod to spot nodes, and another pod follows if it is disrupted.

    A pod that is scheduled with a group is left alone: its group waits as a whole. `job_set`: that of the Job.
    """
    provider = placement.provider_of(settings.profile, recognised)
    if provider is None or not capacity.refuses_on_demand(pod["spec"], provider):
        return False
    template = at(job, ("spec", "template", "spec")) or {}
    if capacity.refuses_on_demand(template, provider) or groups.is_grouped(pod) or placement.is_bound_elsewhere(pod):
        return False
    return is_replaced(pod, job, job_set)


def is_replaced(pod: Json, job: Json, job_set: Json | None) -> bool:
    """Return True if another pod follows a disrupted one."""
    spec = job["spec"]
    action = loss.action_on_disruption(spec)
    if action == "Ignore":
        return True
    if action in FAILING:
        replicated_job = (pod["metadata"].get("labels") or {}).get(REPLICATED_JOB) or ""
        return job_set is not None and not loss.ends_set(job_set, replicated_job, loss.end_of_job(spec, action))
    failed = batch.failed_in_status(job)
    if batch.has_index_budgets(spec):
        failed = count((pod["metadata"].get("annotations") or {}).get(batch.INDEX_FAILURES)) or 0
    return failed < batch.retry_budget(spec)
