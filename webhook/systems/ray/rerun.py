"""A RayJob runs again in place: its controller retries it once more, as if it had retries left.

With `jobDeploymentStatus: Retrying` KubeRay deletes the RayCluster and the submitter of the run that has failed, and
begins a new one, as after any failure within backoffLimit (checkBackoffLimitAndUpdateStatusIfNeeded in
ray-operator/controllers/ray of KubeRay 1.6.2). Nothing of a run is kept: Ray has no part that has succeeded.

Reads:
    metadata.annotations[retry-policy.dev/{retryable,retry-history,ledger}]
    spec.{managedBy,clusterSelector,submissionMode,rayClusterSpec.headGroupSpec.template.metadata.annotations}
    status.{jobDeploymentStatus,rayClusterName,message}
Writes:
    status.{jobDeploymentStatus,failed}
    metadata.annotations[retry-policy.dev/{retry-history,ledger}], metadata.labels[retry-policy.dev/retry-in-progress]
"""

from typing import Final

from webhook.kube import terminal
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.retry import record, requests
from webhook.systems import kueue, refusals
from webhook.systems.adapter import Adapter, InPlace, Steps, Workload, record_of, rights_in_place, with_status
from webhook.systems.ray.spec import RAY_CRON_JOB, RAY_JOB, may_be_suspended, may_retry

CONTROLLER: Final = "ray.io/kuberay-operator"  # the default of managedBy
STATUS: Final[Path] = ("status", "jobDeploymentStatus")
RETRYING: Final = "Retrying"
INVALID: Final = "ValidationFailed"
HEAD: Final[Path] = ("spec", "rayClusterSpec", "headGroupSpec", "template", "metadata", "annotations")


def refusal(ray_job: Json) -> Problem | None:
    """Return why a RayJob cannot run again; None if it can."""
    metadata, spec = ray_job["metadata"], ray_job["spec"]
    name = refusals.kind_and_name(RAY_JOB.kind, ray_job)
    if problem := refusals.is_of_others(name, ray_job, manager=CONTROLLER, maker=RAY_CRON_JOB):
        return problem
    if kueue.is_queued(metadata):
        return refusals.was_queued(name)
    if not may_retry(spec):
        what = f"{name} has a clusterSelector or submissionMode InteractiveMode, for which KubeRay has no retries"
        return Problem((), what, "create another RayJob")
    if at(ray_job, STATUS) == INVALID:
        what = f"{name} has not run, because it is not valid: {at(ray_job, ('status', 'message')) or ''}"
        return Problem((), what, "create it again with a valid spec")
    if terminal.has_ended_well(ray_job):
        return refusals.has_succeeded(name)
    if not terminal.has_failed(ray_job):
        return refusals.has_not_ended(name)
    if not requests.may_run_twice([metadata.get("annotations"), at(ray_job, HEAD)]):
        return refusals.may_not_run_twice(name, f"rayjob/{metadata['name']}", ray_job)
    return None


def _run_of(ray_job: Json) -> str:
    """Return the name of the run that has failed, that of its RayCluster; empty if there is none."""
    return at(ray_job, ("status", "rayClusterName")) or ""


def run_again(ray_job: Json) -> Json:
    """Return a RayJob with a status in which it runs again, with all of its retries available."""
    return with_status(RAY_JOB, ray_job, {**ray_job["status"], "jobDeploymentStatus": RETRYING, "failed": 0})


def has_begun(now: Workload, before: Workload) -> bool:
    """Return True if a RayJob runs again, or has run again since, also because of another request."""
    asked = _run_of(before.root)
    runs_as_asked = not terminal.condition_of(now.root) and record.is_last(now.root, asked)
    return bool(asked) and (runs_as_asked or _run_of(now.root) != asked)


def steps(found: Workload, by: str) -> Steps:
    """Return the writes that make a RayJob run again."""
    return Steps(record=record_of(found, by, _run_of(found.root)), deleted=(), again=run_again)


def cannot_be_suspended(ray_job: Json) -> Problem | None:
    """Return why a RayJob can be neither suspended nor resumed; None if it can."""
    name = refusals.kind_and_name(RAY_JOB.kind, ray_job)
    if kueue.is_queued(ray_job["metadata"]):
        return refusals.is_queued(name)
    if may_be_suspended(ray_job["spec"]):
        return None
    return Problem((), f"{name} cannot be suspended", "KubeRay suspends only RayJobs with shutdownAfterJobFinishes")


ADAPTER: Final = Adapter(
    kind=RAY_JOB,
    rights=rights_in_place(RAY_JOB),
    run_id=lambda found: _run_of(found.root),
    refusal=lambda found: refusal(found.root),
    what_reruns=lambda found: f"{refusals.kind_and_name(RAY_JOB.kind, found.root)}: the whole job",
    cannot_be_suspended=cannot_be_suspended,
    in_place=InPlace(steps=steps, has_begun=has_begun),
)
ADAPTERS: Final = (ADAPTER,)
