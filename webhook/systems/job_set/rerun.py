"""A JobSet runs again in place: without its failure and with one more restart, its controller creates its Jobs again.

Reads and writes:
    status.{conditions,terminalState,restarts,restartsCountTowardsMax}
    metadata.annotations[retry-policy.dev/{retry-history,ledger}], metadata.labels[retry-policy.dev/retry-in-progress]
"""

from typing import Final

from webhook.kube import terminal
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.retry import record, requests
from webhook.systems import kueue, refusals
from webhook.systems.adapter import Adapter, InPlace, Steps, Workload, record_of, rights_in_place, with_status
from webhook.systems.job_set.spec import CONTROLLER, JOB_SET, run_id

ANNOTATIONS: Final[Path] = ("metadata", "annotations")


def refusal(job_set: Json) -> Problem | None:
    """Return why a JobSet cannot run again; None if it can."""
    metadata = job_set["metadata"]
    name = refusals.kind_and_name("JobSet", job_set)
    if problem := refusals.is_of_others(name, job_set, manager=CONTROLLER):
        return problem
    if kueue.is_queued(metadata):
        return refusals.was_queued(name)
    if terminal.has_ended_well(job_set):
        return refusals.has_succeeded(name)
    if not terminal.has_failed(job_set):
        return refusals.has_not_ended(name)
    replicated = at(job_set, ("spec", "replicatedJobs")) or ()
    without_consent = [one["name"] for one in replicated if not _may_run_twice(job_set, one)]
    if without_consent:
        return refusals.may_not_run_twice(name, f"jobset/{metadata['name']}", job_set, without_consent)
    return None


def _may_run_twice(job_set: Json, replicated: Json) -> bool:
    of_job, of_pod = (
        ("template", "metadata", "annotations"),
        ("template", "spec", "template", "metadata", "annotations"),
    )
    return requests.may_run_twice(
        [job_set["metadata"].get("annotations"), at(replicated, of_job), at(replicated, of_pod)]
    )


def run_of(job_set: Json) -> str:
    """Return the name of the run that has failed."""
    return run_id(at(job_set, ("status", "restarts")) or 0)


def run_again(job_set: Json) -> Json:
    """Return a JobSet with a status in which it runs again, with all of its restarts available."""
    before = job_set["status"]
    status = {key: value for key, value in before.items() if key != "terminalState"}
    status["conditions"] = [one for one in before["conditions"] if one["type"] != "Failed"]
    status["restarts"] = (before.get("restarts") or 0) + 1
    status["restartsCountTowardsMax"] = 0
    return with_status(JOB_SET, job_set, status)


def _has_begun(now: Workload, before: Workload) -> bool:
    """Return True if a JobSet runs again, or has run again since, also because of another request."""
    asked = run_of(before.root)
    goes_on = terminal.condition_of(now.root) is None
    return run_of(now.root) != asked or (goes_on and record.is_last(now.root, asked))


def steps(found: Workload, by: str) -> Steps:
    """Return the writes that make a JobSet run again."""
    return Steps(record=record_of(found, by, run_of(found.root)), deleted=(), again=run_again)


def _cannot_be_suspended(job_set: Json) -> Problem | None:
    name = refusals.kind_and_name("JobSet", job_set)
    return refusals.is_queued(name) if kueue.is_queued(job_set["metadata"]) else None


ADAPTER: Final = Adapter(
    kind=JOB_SET,
    rights=rights_in_place(JOB_SET),
    run_id=lambda found: run_of(found.root),
    refusal=lambda found: refusal(found.root),
    what_reruns=lambda found: f"{refusals.kind_and_name('JobSet', found.root)}: all of its Jobs",
    cannot_be_suspended=_cannot_be_suspended,
    in_place=InPlace(steps=steps, has_begun=_has_begun),
)
ADAPTERS: Final = (ADAPTER,)
