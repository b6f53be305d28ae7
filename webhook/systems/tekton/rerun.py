"""A Tekton PipelineRun runs again in place, as TEP-0065 proposes: TaskRuns that succeeded stay, the others are deleted.

Its controller creates a TaskRun that does not exist again, under the same name. All combinations of a task with a
matrix run again, because the controller schedules them together. The timeouts of the run count from the creation of
its oldest TaskRun (AdjustStartTime in pkg/reconciler/pipelinerun of Tekton 1.9), not from the start time in its status:
they start again only if no TaskRun stays.

Reads:
    metadata.annotations[retry-policy.dev/{retryable,retry-history}] of the PipelineRun and its TaskRuns
    spec.{status,managedBy,timeouts}, status of both,
    status.pipelineSpec.{tasks,finally}[*].{name,onError,taskSpec.metadata}
Writes:
    spec.status, status.{conditions,startTime,completionTime,finallyStartTime,skippedTasks,childReferences}
    metadata.annotations[retry-policy.dev/retry-history], metadata.labels[retry-policy.dev/retry-in-progress]
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json, Problem
from webhook.objects.times import between
from webhook.policy.reader import duration
from webhook.retry import record, requests
from webhook.systems import refusals
from webhook.systems.adapter import (
    Adapter,
    Children,
    InPlace,
    Steps,
    Workload,
    has_new_child,
    is_recorded,
    rights_in_place,
    was_undone,
    with_status,
)
from webhook.systems.tekton import spec as tekton

CONTROLLER: Final = "tekton.dev/pipeline"  # the default of managedBy
DEFAULT_TIMEOUT: Final = "1h"  # Tekton's own default
LABEL: Final = "tekton.dev/pipelineRun"  # of the children of a PipelineRun
TASK: Final = "tekton.dev/pipelineTask"
AFFINITY_ASSISTANT: Final = "pipeline.tekton.dev/affinity-assistant"
CONTINUE: Final = "continue"  # onError of a task whose failure does not fail the run
LISTED: Final = 20  # tasks in the record of a retry
LONGEST: Final = 200  # characters of each
# Status fields of a run that has ended; its controller writes them again.
OF_THE_END: Final = ("completionTime", "finallyStartTime", "skippedTasks", "results")


@dataclass(slots=True)
class PipelinePlan:
    """The plan of a retry: `again`, the tasks that run again; `gone`, the children that are deleted for that."""

    again: set[str] = field(default_factory=set)
    gone: list[Json] = field(default_factory=list)


def refusal(found: Workload) -> Problem | None:
    """Return why a PipelineRun cannot run again; None if it can."""
    run, children = found.root, list(found.children)
    name, succeeded = refusals.kind_and_name("PipelineRun", run), succeeded_of(run)
    if problem := refusals.is_of_others(name, run, manager=CONTROLLER):
        return problem
    if succeeded == "True":
        return refusals.has_succeeded(name)
    if succeeded != "False" or not run_of(run):
        return refusals.has_not_ended(name, "it has failed, or been cancelled")
    planned = plan(run, children, keep_finally=_keeps_finally(found))
    why = _obstacle(found, planned) or _too_late(run, children, planned, found.when)
    if why:
        return Problem((), f"{name}: {why}", "create another PipelineRun")
    return None if is_recorded(found, run_of(found.root)) else _missing_consent(run, planned, name)


def _too_late(run: Json, children: list[Json], planned: PipelinePlan, when: str) -> str | None:
    """Return that the timeout of the run has passed, as its controller counts it; None if it has not."""
    gone = {child["metadata"]["name"] for child in planned.gone}
    stay = [child["metadata"]["creationTimestamp"] for child in children if child["metadata"]["name"] not in gone]
    limit = _limit_of(run["spec"].get("timeouts") or {})
    if not stay or limit is None:
        return None
    since = min(stay)
    if between(since, when) < limit:
        return None
    return f"its timeout of {limit} s has passed: it counts from {since}, when the first task started that would stay"


def _limit_of(timeouts: Json) -> int | None:
    """Return the seconds for the tasks of a run, without those of `finally`; None for no limit."""
    if timeouts.get("tasks"):
        return duration(timeouts["tasks"])
    whole = duration(timeouts.get("pipeline") or DEFAULT_TIMEOUT)
    for_finally = duration(timeouts["finally"]) if timeouts.get("finally") else None
    return whole if whole is None or for_finally is None else whole - for_finally


def _obstacle(found: Workload, planned: PipelinePlan) -> str | None:
    """Return which part of the run its controller could not run again; None if there is none."""
    run, children = found.root, found.children
    names = {child["metadata"]["name"] for child in children}
    retry_has_deleted = is_recorded(found, run_of(found.root)) or is_unfinished(found)
    for reference in at(run, ("status", "childReferences")) or ():
        task = reference.get("pipelineTaskName")
        if task in planned.again and reference.get("kind") == tekton.PIPELINE_RUN.kind:
            return f"its task {task} is a PipelineRun, which cannot be retried inside another"
        if reference.get("name") not in names and not retry_has_deleted:
            what = f"{reference.get('kind')} {reference.get('name')} of its task {task} no longer exists"
            return f"{what}: whether it succeeded is unknown"
    some_stay = len(planned.gone) < len(children)
    if some_stay and any(AFFINITY_ASSISTANT in (child["metadata"].get("annotations") or {}) for child in children):
        return "its tasks share a volume by an affinity assistant, which Tekton has deleted and does not create again"
    return None


def _missing_consent(run: Json, planned: PipelinePlan, name: str) -> Problem | None:
    specs = {task["name"]: task for task in _tasks(run)}
    outer = run["metadata"].get("annotations")
    without_consent = set()
    for child in planned.gone:
        task = task_of(child)
        of_task = at(specs.get(task), ("taskSpec", "metadata", "annotations"))
        if not requests.may_run_twice([outer, child["metadata"].get("annotations"), of_task]):
            without_consent.add(task)
    if not planned.again and not requests.may_run_twice([outer]):
        without_consent.add("itself")
    if not without_consent:
        return None
    return refusals.may_not_run_twice(name, f"pipelinerun/{run['metadata']['name']}", run, sorted(without_consent))


def plan(run: Json, children: list[Json], *, keep_finally: bool) -> PipelinePlan:
    """Return the plan: each task with a child that did not succeed runs again, and those of `finally` unless kept."""
    by_task: defaultdict[str, list[Json]] = defaultdict(list)
    for child in children:
        by_task[task_of(child)].append(child)
    of_finally = {task["name"] for task in at(run, ("status", "pipelineSpec", "finally")) or ()}
    continue_on_error = {task["name"] for task in _tasks(run) if task.get("onError") == CONTINUE}
    missing = {
        reference.get("pipelineTaskName")
        for reference in at(run, ("status", "childReferences")) or ()
        if reference.get("name") not in {child["metadata"]["name"] for child in children}
    }
    planned = PipelinePlan()
    for task, its_own in by_task.items():
        failed = any(succeeded_of(child) != "True" for child in its_own) and task not in continue_on_error
        if failed or task in missing or (task in of_finally and not keep_finally):
            planned.again.add(task)
            planned.gone += its_own
    planned.again |= missing
    return planned


def task_of(child: Json) -> str:
    """Return the name of the pipeline's task that a TaskRun runs."""
    return (child["metadata"].get("labels") or {}).get(TASK) or ""


def _tasks(run: Json) -> list[Json]:
    """Return the tasks of the pipeline at the start of the run, including those of `finally`."""
    spec = at(run, ("status", "pipelineSpec")) or {}
    return [*(spec.get("tasks") or ()), *(spec.get("finally") or ())]


def _condition_of(root: Json) -> Json | None:
    conditions = at(root, ("status", "conditions")) or ()
    return next((one for one in conditions if one.get("type") == "Succeeded"), None)


def succeeded_of(root: Json) -> str:
    """Return the status of the condition Succeeded; empty if there is none."""
    found = _condition_of(root)
    return "" if found is None else str(found.get("status"))


def words_of(root: Json) -> str:
    """Return reason and message of the condition Succeeded of a PipelineRun or TaskRun."""
    found = _condition_of(root)
    return "not begun" if found is None else ": ".join(filter(None, (found.get("reason"), found.get("message"))))


def run_of(run: Json) -> str:
    """Return the completion time, which names the run that has failed; empty if it has not ended."""
    return at(run, ("status", "completionTime")) or ""


def record_patch(run: Json, planned: PipelinePlan, by: str, when: str, *, keep_finally: bool) -> list[Json]:
    """Return the JSON Patch that records a retry with the outcomes of failed tasks, and marks it for the leader.

    It also continues the account, with new budgets.
    """
    lost = [child for child in planned.gone if succeeded_of(child) != "True"]
    ended = tuple(f"{task_of(child)}: {words_of(child)}"[:LONGEST] for child in lost[:LISTED])
    requested = record.Requested(at=when, by=by, of=run_of(run), ended=ended, keep_finally=keep_finally)
    return requests.begin_anew(run, requested)


def is_unfinished(found: Workload) -> bool:
    """Return True if a retry was recorded, but the run is failed and has no newer child: the retry was undone.

    Its controller adds the deleted TaskRuns to the status, and ends the run again.
    """
    return succeeded_of(found.root) == "False" and was_undone(found)


def uncancel(run: Json) -> list[Json]:
    """Return the JSON Patch that removes the cancellation from the spec; empty if there is none."""
    status = run["spec"].get("status")
    path = "/spec/status"
    return [{"op": "test", "path": path, "value": status}, {"op": "remove", "path": path}] if status else []


def run_again(run: Json, planned: PipelinePlan, when: str) -> Json:
    """Return a PipelineRun with a status in which it runs again; its start time is `when`, RFC 3339."""
    status = {key: value for key, value in run["status"].items() if key not in OF_THE_END}
    others = [one for one in status.get("conditions") or () if one["type"] != "Succeeded"]
    message = "asked to run again"
    condition = {"type": "Succeeded", "status": "Unknown", "reason": "Running", "message": message}
    status["conditions"] = [*others, {**condition, "lastTransitionTime": when}]
    status["startTime"] = when
    references = status.pop("childReferences", None) or ()
    status["childReferences"] = [one for one in references if one.get("pipelineTaskName") not in planned.again]
    return with_status(tekton.PIPELINE_RUN, run, status)


def _keeps_finally(found: Workload) -> bool:
    """Return True if tasks of `finally` that succeeded stay; a retry that was recorded decides, else the request."""
    return record.read(found.root)[-1].keep_finally if is_recorded(found, run_of(found.root)) else found.keep_finally


def steps(found: Workload, by: str) -> Steps:
    """Return the writes that make a PipelineRun run again."""
    run, keep_finally = found.root, _keeps_finally(found)
    planned = plan(run, list(found.children), keep_finally=keep_finally)
    written = (
        []
        if is_recorded(found, run_of(found.root))
        else record_patch(run, planned, by, found.when, keep_finally=keep_finally)
    )
    return Steps(
        record=written, deleted=tuple(planned.gone), again=lambda stored: run_again(stored, planned, found.when)
    )


def _what_reruns(found: Workload) -> str:
    again = sorted(plan(found.root, list(found.children), keep_finally=_keeps_finally(found)).again)
    what = f"{', '.join(again)} and what has not run yet" if again else "all of its tasks"
    return f"{refusals.kind_and_name('PipelineRun', found.root)}: {what}"


def _cannot_be_suspended(run: Json) -> Problem:
    which = f"-n {run['metadata']['namespace']} pipelinerun/{run['metadata']['name']}"
    cancel = f"""kubectl patch {which} --type=merge -p '{{"spec":{{"status":"CancelledRunFinally"}}}}'"""
    name = refusals.kind_and_name("PipelineRun", run)
    return Problem((), f"{name} cannot be suspended", f"cancel it: {cancel}; continue it later with retry-policy retry")


CHILDREN: Final = Children(
    kinds=(tekton.TASK_RUN, tekton.CUSTOM_RUN),
    selector=lambda run: f"{LABEL}={run['metadata']['name']}",
)
ADAPTER: Final = Adapter(
    kind=tekton.PIPELINE_RUN,
    rights=rights_in_place(tekton.PIPELINE_RUN, tekton.TASK_RUN, tekton.CUSTOM_RUN),
    run_id=lambda found: run_of(found.root),
    refusal=refusal,
    what_reruns=_what_reruns,
    cannot_be_suspended=_cannot_be_suspended,
    children=CHILDREN,
    in_place=InPlace(
        steps=steps,
        has_begun=has_new_child,
        is_reset=lambda found: succeeded_of(found.root) == "Unknown",
        resume=uncancel,
        is_stopped=lambda found: bool(found.root["spec"].get("status")),
        is_unfinished=is_unfinished,
        watches_controller=True,
    ),
    has_finally=True,
)
ADAPTERS: Final = (ADAPTER,)
