"""A Tekton PipelineRun runs again as it is, which TEP-0065 asks for: its tasks that have succeeded stay, the others go.

Its controller takes up what it finds: TaskRuns that are gone it creates again, under the names that they had. Of a task
with a matrix all combinations run again, as it schedules them together. The timeouts of the run count from the creation
of the oldest TaskRun that it has (AdjustStartTime in pkg/reconciler/pipelinerun of Tekton 1.9), whatever its status
says: they begin anew only where none stays.

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
from datetime import datetime
from typing import Final

from webhook.kinds import tekton
from webhook.kinds.kind_spec import controller_of
from webhook.objects.patch import at
from webhook.objects.problem import Json, Problem
from webhook.policy.parse import duration
from webhook.retry import consent, record, requests
from webhook.retry.kinds import refusals
from webhook.retry.kinds.adapter import Adapter, Children, InPlace, Right, Steps, Workload

CONTROLLER: Final = "tekton.dev/pipeline"  # what managedBy is where it is absent
DEFAULT_TIMEOUT: Final = "1h"  # Tekton's own
LABEL: Final = "tekton.dev/pipelineRun"  # of what a PipelineRun runs
TASK: Final = "tekton.dev/pipelineTask"
AFFINITY_ASSISTANT: Final = "pipeline.tekton.dev/affinity-assistant"
GOES_ON: Final = "continue"  # onError of a task whose failure fails nothing
IN_PLACE: Final = (
    Right("patch", tekton.PIPELINE_RUN.group, tekton.PIPELINE_RUN.resource),
    Right("update", tekton.PIPELINE_RUN.group, tekton.PIPELINE_RUN.resource, "status"),
    Right("delete", tekton.TASK_RUN.group, tekton.TASK_RUN.resource),
    Right("delete", tekton.CUSTOM_RUN.group, tekton.CUSTOM_RUN.resource),
)
LISTED: Final = 20  # tasks, in what is noted of one that runs again
LONGEST: Final = 200  # characters of each
# Of a run that is over; its controller writes them anew.
OF_THE_END: Final = ("completionTime", "finallyStartTime", "skippedTasks", "results")


@dataclass(slots=True)
class Plan:
    """What is to be done: `again`, the tasks that run again; `gone`, the children that are deleted for it."""

    again: set[str] = field(default_factory=set)
    gone: list[Json] = field(default_factory=list)


def refusal(run: Json, children: list[Json], when: str, *, keep_finally: bool) -> Problem | None:
    """Return why a PipelineRun cannot run again at the time `when`, RFC 3339; None if it can."""
    metadata, controller = run["metadata"], controller_of(run)
    name = refusals.named("PipelineRun", run)
    succeeded = succeeded_of(run)
    if metadata.get("deletionTimestamp"):
        return refusals.is_being_deleted(name)
    if (run["spec"].get("managedBy") or CONTROLLER) != CONTROLLER:
        return refusals.is_run_by(name, run["spec"]["managedBy"])
    if controller is not None:
        return refusals.is_run_by(name, f"{controller.kind} {controller.name}")
    if succeeded == "True":
        return refusals.has_succeeded(name)
    if succeeded != "False" or not run_of(run):
        return refusals.has_not_ended(name, "it has failed, or been cancelled")
    planned = plan(run, children, keep_finally=keep_finally)
    why = cannot(run, children, planned) or too_late(run, children, planned, when)
    if why:
        return Problem((), f"{name}: {why}", "create another PipelineRun")
    return None if is_noted(run) else silent(run, planned, name)


def too_late(run: Json, children: list[Json], planned: Plan, when: str) -> str | None:
    """Say that its timeout has passed, from when on its controller would count it."""
    gone = {child["metadata"]["name"] for child in planned.gone}
    stay = [child["metadata"]["creationTimestamp"] for child in children if child["metadata"]["name"] not in gone]
    limit = limit_of(run["spec"].get("timeouts") or {})
    if not stay or limit is None:
        return None
    since = min(stay)
    if (datetime.fromisoformat(when) - datetime.fromisoformat(since)).total_seconds() < limit:
        return None
    return f"its timeout of {limit} s has passed: it counts from {since}, when the first task started that would stay"


def limit_of(timeouts: Json) -> int | None:
    """Return how many seconds the tasks of a run may take that are not of `finally`; None for no limit."""
    if timeouts.get("tasks"):
        return duration(timeouts["tasks"])
    whole = duration(timeouts.get("pipeline") or DEFAULT_TIMEOUT)
    at_last = duration(timeouts["finally"]) if timeouts.get("finally") else None
    return whole if whole is None or at_last is None else whole - at_last


def cannot(run: Json, children: list[Json], planned: Plan) -> str | None:
    """Say what its controller could not take up."""
    found = {child["metadata"]["name"] for child in children}
    for reference in at(run, ("status", "childReferences")) or ():
        task = reference.get("pipelineTaskName")
        if task in planned.again and reference.get("kind") == tekton.PIPELINE_RUN.kind:
            return f"its task {task} is a PipelineRun, which cannot be retried inside another"
        if reference.get("name") not in found and not is_noted(run):
            what = f"{reference.get('kind')} {reference.get('name')} of its task {task} no longer exists"
            return f"{what}: whether it succeeded is unknown"
    some_stay = len(planned.gone) < len(children)
    if some_stay and any(AFFINITY_ASSISTANT in (child["metadata"].get("annotations") or {}) for child in children):
        return "its tasks share a volume by an affinity assistant, which Tekton has deleted and does not create again"
    return None


def silent(run: Json, planned: Plan, name: str) -> Problem | None:
    """Return which of the tasks that have run may not run twice; None if all may."""
    specs = {task["name"]: task for task in tasks(run)}
    outer = run["metadata"].get("annotations")
    say_nothing = set()
    for child in planned.gone:
        task = task_of(child)
        of_task = at(specs.get(task), ("taskSpec", "metadata", "annotations"))
        if not consent.may_run_twice([outer, child["metadata"].get("annotations"), of_task]):
            say_nothing.add(task)
    if not planned.gone and not consent.may_run_twice([outer]):
        say_nothing.add("itself")
    if not say_nothing:
        return None
    return refusals.may_not_run_twice(name, f"pipelinerun/{run['metadata']['name']}", run, sorted(say_nothing))


def plan(run: Json, children: list[Json], *, keep_finally: bool) -> Plan:
    """Tell what runs again: each task of which something has not succeeded, and those of `finally` unless kept."""
    by_task: defaultdict[str, list[Json]] = defaultdict(list)
    for child in children:
        by_task[task_of(child)].append(child)
    at_last = {task["name"] for task in at(run, ("status", "pipelineSpec", "finally")) or ()}
    go_on = {task["name"] for task in tasks(run) if task.get("onError") == GOES_ON}
    missing = {
        reference.get("pipelineTaskName")
        for reference in at(run, ("status", "childReferences")) or ()
        if reference.get("name") not in {child["metadata"]["name"] for child in children}
    }
    planned = Plan()
    for task, its_own in by_task.items():
        failed = any(succeeded_of(child) != "True" for child in its_own) and task not in go_on
        if failed or task in missing or (task in at_last and not keep_finally):
            planned.again.add(task)
            planned.gone += its_own
    planned.again |= missing
    return planned


def is_child(child: Json, run: Json) -> bool:
    """Tell whether a PipelineRun made something, and not what it made."""
    return any(owner["uid"] == run["metadata"]["uid"] for owner in child["metadata"].get("ownerReferences") or ())


def task_of(child: Json) -> str:
    """Name the task of the pipeline that a TaskRun is of."""
    return (child["metadata"].get("labels") or {}).get(TASK) or ""


def tasks(run: Json) -> list[Json]:
    """Return the tasks of the pipeline, as it was when the run began, those of `finally` too."""
    spec = at(run, ("status", "pipelineSpec")) or {}
    return [*(spec.get("tasks") or ()), *(spec.get("finally") or ())]


def succeeded_of(root: Json) -> str:
    """Return the status of the condition Succeeded, empty where there is none."""
    for one in at(root, ("status", "conditions")) or ():
        if one.get("type") == "Succeeded":
            return str(one.get("status"))
    return ""


def words_of(root: Json) -> str:
    """Say how a PipelineRun or a TaskRun stands."""
    for one in at(root, ("status", "conditions")) or ():
        if one.get("type") == "Succeeded":
            return ": ".join(part for part in (one.get("reason"), one.get("message")) if part)
    return "not begun"


def run_of(run: Json) -> str:
    """Name the run that has failed, by when that was."""
    return at(run, ("status", "completionTime")) or ""


def is_noted(run: Json) -> bool:
    """Tell whether it is noted already who asked for this run to be followed by another."""
    return record.is_last(run, run_of(run))


def noted(run: Json, planned: Plan, by: str, when: str, *, keep_finally: bool) -> list[Json]:
    """Return the JSON Patch that notes who asked, and what had happened."""
    lost = [child for child in planned.gone if succeeded_of(child) != "True"]
    ended = tuple(f"{task_of(child)}: {words_of(child)}"[:LONGEST] for child in lost[:LISTED])
    requested = record.Requested(at=when, by=by, of=run_of(run), ended=ended, keep_finally=keep_finally)
    return [*record.operations(run, requested), *requests.mark(run)]


def is_left_undone(run: Json, children: list[Json]) -> bool:
    """Tell whether it was asked to run again, and has ended since without a new child: that has been undone."""
    found = record.read(run)
    if not found or succeeded_of(run) != "False":
        return False
    since = requests.time_of(found[-1].at)
    return since is not None and not any(
        datetime.fromisoformat(child["metadata"]["creationTimestamp"]) >= since for child in children
    )


def let_run(run: Json) -> list[Json]:
    """Return the JSON Patch that takes back that it was to be cancelled; empty where it was not."""
    status = run["spec"].get("status")
    path = "/spec/status"
    return [{"op": "test", "path": path, "value": status}, {"op": "remove", "path": path}] if status else []


def run_again(run: Json, planned: Plan, when: str) -> Json:
    """Return a PipelineRun whose status lets it run again, from when on its timeouts count."""
    status = {key: value for key, value in run["status"].items() if key not in OF_THE_END}
    others = [one for one in status.get("conditions") or () if one["type"] != "Succeeded"]
    message = "asked to run again"
    condition = {"type": "Succeeded", "status": "Unknown", "reason": "Running", "message": message}
    status["conditions"] = [*others, {**condition, "lastTransitionTime": when}]
    status["startTime"] = when
    references = status.pop("childReferences", None) or ()
    status["childReferences"] = [one for one in references if one.get("pipelineTaskName") not in planned.again]
    return {
        "apiVersion": tekton.PIPELINE_RUN.api_version,
        "kind": tekton.PIPELINE_RUN.kind,
        "metadata": run["metadata"],
        "spec": run["spec"],
        "status": status,
    }


def keeps_finally(found: Workload) -> bool:
    """Return True if what of `finally` has succeeded stays: as asked by the user whose retry has begun, if any."""
    return record.read(found.root)[-1].keep_finally if is_noted(found.root) else found.keep_finally


def uids_of(found: Workload) -> set[str]:
    """Return the uids of the children of a PipelineRun."""
    return {child["metadata"]["uid"] for child in found.children}


def steps(found: Workload, by: str) -> Steps:
    """Return what is written to make a PipelineRun run again."""
    run, keep_finally = found.root, keeps_finally(found)
    planned = plan(run, list(found.children), keep_finally=keep_finally)
    written = [] if is_noted(run) else noted(run, planned, by, found.when, keep_finally=keep_finally)
    return Steps(
        record=written, deleted=tuple(planned.gone), again=lambda stored: run_again(stored, planned, found.when)
    )


def promise(found: Workload) -> str:
    """Return a line that says which tasks of a PipelineRun will run again."""
    again = sorted(plan(found.root, list(found.children), keep_finally=keeps_finally(found)).again)
    what = f"{', '.join(again)} and what has not run yet run again" if again else "runs from its beginning"
    return f"{refusals.named('PipelineRun', found.root)}: {what}"


def cannot_be_suspended(run: Json) -> Problem:
    """Return why a PipelineRun can be neither suspended nor resumed, and what serves instead."""
    which = f"-n {run['metadata']['namespace']} pipelinerun/{run['metadata']['name']}"
    cancel = f"""kubectl patch {which} --type=merge -p '{{"spec":{{"status":"CancelledRunFinally"}}}}'"""
    name = refusals.named("PipelineRun", run)
    return Problem((), f"{name} cannot be suspended", f"cancel it: {cancel}; continue it later with retry-policy retry")


CHILDREN: Final = Children(
    rows=(tekton.TASK_RUN, tekton.CUSTOM_RUN),
    selector=lambda run: f"{LABEL}={run['metadata']['name']}",
    is_child=is_child,
)
ADAPTER: Final = Adapter(
    row=tekton.PIPELINE_RUN,
    rights=lambda _: [*IN_PLACE],
    run_id=lambda found: run_of(found.root),
    refusal=lambda found: refusal(found.root, list(found.children), found.when, keep_finally=keeps_finally(found)),
    promise=promise,
    cannot_be_suspended=cannot_be_suspended,
    children=CHILDREN,
    in_place=InPlace(
        steps=steps,
        has_begun=lambda now, before: bool(uids_of(now) - uids_of(before)),
        is_taken_back=lambda found: succeeded_of(found.root) == "Unknown",
        resume=let_run,
        is_stopped=lambda found: bool(found.root["spec"].get("status")),
        is_left_undone=lambda found: is_left_undone(found.root, list(found.children)),
        watches_controller=True,
    ),
    has_finally=True,
)
