"""A Volcano Job runs again in place: pods that failed are deleted, and its phase becomes Pending.

Volcano's controller acts on the phase alone. In Pending it creates what the end of a Job deletes, its PodGroup and what
its plugins need, and each pod that does not exist, under the same name: as when it restarts a Job by a policy.
`vcctl job resume` is no way for that. It starts only a Job that was aborted, leaves its failed pods as they are, and
counts for maxRetry (pkg/controllers/job/state of Volcano in August 2026).

Pods that have succeeded stay, if the pods of the Job do not depend on each other; else all of them run again.

Reads:
    metadata.annotations[retry-policy.dev/{retryable,retry-history,ledger}] of the Job, and those of its pod templates
    spec.{tasks,plugins,networkTopology}, status.state
Writes:
    status.{state,retryCount}
    metadata.annotations[retry-policy.dev/{retry-history,ledger}], metadata.labels[retry-policy.dev/retry-in-progress]
"""

from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json, Problem
from webhook.retry import requests
from webhook.systems import core, refusals
from webhook.systems.adapter import (
    Adapter,
    Children,
    InPlace,
    Steps,
    Workload,
    has_new_child,
    is_recorded,
    record_of,
    rights_in_place,
    was_undone,
    with_status,
)
from webhook.systems.volcano import spec as volcano
from webhook.systems.volcano.rules import is_coupled

NAME: Final = "volcano.sh/job-name"  # label of pods
PENDING: Final = "Pending"
SUCCEEDED: Final = "Completed"
STOPPED: Final = frozenset({"Aborting", "Aborted", "Terminating", "Terminated"})  # phases after a Command


def refusal(found: Workload) -> Problem | None:
    """Return why a Job cannot run again; None if it can."""
    job, pods = found.root, found.children
    name = refusals.kind_and_name("Job", job)
    if problem := refusals.is_of_others(name, job, maker=volcano.CRON_JOB):
        return problem
    if volcano.phase_of(job) == SUCCEEDED:
        return refusals.has_succeeded(name)
    if not _run_of(job):
        return refusals.has_not_ended(name, "it has failed, or was aborted")
    running = sorted(pod["metadata"]["name"] for pod in pods if at(pod, ("status", "phase")) not in core.ENDED)
    if running:
        return Problem((), f"{name} has ended, but its pod {running[0]} has not", "request the retry again once it has")
    without_consent = [] if is_recorded(found, _run_of(job)) else _tasks_without_consent(job, pods)
    if without_consent:
        target = f"{volcano.JOB.resource}.{volcano.GROUP}/{job['metadata']['name']}"
        return refusals.may_not_run_twice(name, target, job, [one for one in without_consent if one])
    return None


def _tasks_without_consent(job: Json, pods: tuple[Json, ...]) -> list[str]:
    """Return the tasks of which a pod would run again and may not; an empty name for a Job without tasks."""
    outer = job["metadata"].get("annotations")
    if not _tasks(job):
        return [] if requests.may_run_twice([outer]) else [""]
    kept = [_task_of(pod) for pod in _stays(job, pods)]
    return [
        str(task.get("name") or "")
        for task in _tasks(job)
        if kept.count(task.get("name") or "") < (task.get("replicas") or 0)
        and not requests.may_run_twice([outer, at(task, ("template", "metadata", "annotations"))])
    ]


def _stays(job: Json, pods: tuple[Json, ...]) -> list[Json]:
    """Return the pods that do not run again: those that succeeded, if the pods do not depend on each other."""
    if _works_together(job):
        return []
    return [pod for pod in pods if at(pod, ("status", "phase")) == "Succeeded"]


def _works_together(job: Json) -> bool:
    """Return True if the pods of a Job depend on each other, by its plugins, dependencies, partitions or network."""
    of_tasks = any(task.get("dependsOn") or task.get("partitionPolicy") for task in _tasks(job))
    return of_tasks or is_coupled(job) or bool(at(job, ("spec", "networkTopology")))


def _tasks(job: Json) -> list[Json]:
    found: list[Json] = at(job, volcano.TASKS) or []
    return found


def _task_of(pod: Json) -> str:
    return (pod["metadata"].get("labels") or {}).get(volcano.TASK) or ""


def _run_of(job: Json) -> str:
    """Return the time of the end, which names the run that has failed; empty if it has not failed."""
    ended = volcano.phase_of(job) in volcano.UNSUCCESSFUL
    return (at(job, ("status", "state", "lastTransitionTime")) or "") if ended else ""


def run_again(job: Json, when: str) -> Json:
    """Return a Job with a status in which it runs again from the time `when`, RFC 3339, with all of its retries."""
    status = {key: value for key, value in job["status"].items() if key != "retryCount"}
    return with_status(volcano.JOB, job, {**status, "state": {"phase": PENDING, "lastTransitionTime": when}})


def steps(found: Workload, by: str) -> Steps:
    """Return the writes that make a Job run again."""
    kept = {pod["metadata"]["uid"] for pod in _stays(found.root, found.children)}
    return Steps(
        record=record_of(found, by, _run_of(found.root)),
        deleted=tuple(pod for pod in found.children if pod["metadata"]["uid"] not in kept),
        again=lambda stored: run_again(stored, found.when),
    )


def what_reruns(found: Workload) -> str:
    """Return how many pods of a Job will run again, without the verb."""
    name, total = refusals.kind_and_name("Job", found.root), volcano.pods_of(found.root)
    kept = len(_stays(found.root, found.children))
    return f"{name}: {f'{total - kept} of {total}' if kept else 'all of its'} pods"


def cannot_be_suspended(job: Json) -> Problem:
    """Return that a Job is suspended and resumed by Volcano's own command."""
    metadata, name = job["metadata"], refusals.kind_and_name("Job", job)
    how = f"vcctl job suspend -n {metadata['namespace']} -N {metadata['name']}, and vcctl job resume"
    return Problem((), f"{name} is suspended and resumed by Commands of Volcano", how)


ADAPTER: Final = Adapter(
    kind=volcano.JOB,
    rights=rights_in_place(volcano.JOB, core.POD),
    run_id=lambda found: _run_of(found.root),
    refusal=refusal,
    what_reruns=what_reruns,
    cannot_be_suspended=cannot_be_suspended,
    children=Children(kinds=(core.POD,), selector=lambda root: f"{NAME}={root['metadata']['name']}"),
    in_place=InPlace(
        steps=steps,
        has_begun=has_new_child,
        is_reset=lambda found: volcano.phase_of(found.root) not in {SUCCEEDED, *volcano.UNSUCCESSFUL},
        is_stopped=lambda found: volcano.phase_of(found.root) in STOPPED,
        is_unfinished=lambda found: bool(_run_of(found.root)) and was_undone(found),
        watches_controller=True,
    ),
)
ADAPTERS: Final = (ADAPTER,)
