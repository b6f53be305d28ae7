"""A Job runs again as another one under its name: its terminal condition cannot be taken back.

Nothing is lost wherever a retry stops: before the Job is deleted its manifest stands in a suspended Job beside it, the
*placeholder*, which has passed the same admission as any Job. The *successor* is created from it, suspended too; its
status gets what is done already; then it is *released*. The stage is in the objects, so that anybody can continue.

Reads:
    metadata, spec and status of a Job
    metadata.annotations[retry-policy.dev/{successor,retry-of,retry-history,retryable,ledger}]
Writes:
    the placeholder, the successor; status.{completedIndexes,succeeded} of the successor
"""

import re
from typing import Any, Final, Literal, TypedDict, cast

import msgspec

from webhook.kinds import batch
from webhook.kinds.kind_spec import controller_of
from webhook.kube import names, terminal
from webhook.kube.paths import is_name
from webhook.ledger.model import account
from webhook.objects.patch import Editor, at, pointer
from webhook.objects.problem import Json, Path, Problem
from webhook.retry import consent, record
from webhook.retry.kinds import refusals
from webhook.retry.kinds.adapter import Adapter, Right
from webhook.rules import undo

LONGEST_NAME: Final = 63  # of a Job, as its pods have it in a label
UID: Final = re.compile("[0-9A-Za-z-]{1,63}")
STATE: Final[Path] = ("metadata", "annotations", names.SUCCESSOR)
# What the API server writes into a Job with a selector of its own (pkg/registry/batch/job/strategy.go), and its pods.
GENERATED: Final = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
# Annotations that are of the Job that was, not of its manifest.
OF_ONE_JOB: Final = frozenset(
    (
        *(names.POLICY, names.LEDGER, names.RETRY_OF, names.STAYS_SUSPENDED, names.RETRY_HISTORY),
        names.RETRY_ACCEPTED,
        "batch.kubernetes.io/job-tracking",
    )
)
# Labels that the placeholder does without: at one Kueue would let it run, by the other Argo CD finds what it may prune.
TO_BE_FOUND_BY: Final = (batch.QUEUE_NAME, "app.kubernetes.io/instance")
# What Kueue writes in a pod template.
OF_KUEUE: Final = {"metadata": ("annotations", "labels"), "spec": ("nodeSelector", "tolerations", "schedulingGates")}
WRITTEN_BY_KUEUE: Final = (
    *("kueue.x-k8s.io/podset", "kueue.x-k8s.io/workload", "kueue.x-k8s.io/workload-slice-name"),
    *("kueue.x-k8s.io/cluster-queue-name", "kueue.x-k8s.io/local-queue-name"),
)
MANAGED_BY: Final = "retry-policy.dev/placeholder"  # of a placeholder: nobody runs it, even if it is resumed
OF_DELETION: Final = ("foregroundDeletion", "orphan")  # finalizers

# What a retry of a Job takes; the last one only where some of it has succeeded.
REPLACES: Final = tuple(Right(verb, batch.JOB.group, batch.JOB.resource) for verb in ("create", "patch", "delete"))
WRITES_WHAT_IS_DONE: Final = Right("patch", batch.JOB.group, batch.JOB.resource, "status")

Stage = Literal["Stored", "Deleting", "Created"]


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a Job has succeeded: so many pods, of an Indexed Job these indexes, as its status writes both."""

    succeeded: int = 0
    completed_indexes: str = ""


class Metadata(TypedDict, total=False):
    """What a successor has of a Job's metadata."""

    annotations: dict[str, str]
    labels: dict[str, str]
    finalizers: list[str]
    ownerReferences: list[Json]


class RetryState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a placeholder says beside the successor's spec.

    `metadata`: its annotations, labels, finalizers and owners. `suspend`: whether it stays suspended. `done`: what need
    not run again. `ledger` and `history`: annotations that it gets when it is released. `stage`: how far the retry has
    come: `Deleting`, the Job was still there; `Created`, the successor is.
    """

    name: str
    uid: str
    by: str
    at: str
    metadata: Metadata
    suspend: bool = False
    done: Done = Done()
    ledger: str | None = None
    history: str = ""
    stage: Stage = "Stored"

    def __post_init__(self) -> None:
        """Refuse what is no name: it becomes part of a path."""
        if not is_name(self.name) or len(self.name) > LONGEST_NAME or not UID.fullmatch(self.uid):
            raise ValueError("name and uid must be a Job's")


def refusal(job: Json, outer: Json | None = None) -> Problem | None:
    """Return why a Job cannot run again; None if it can. `outer`: the CronJob that controls it."""
    metadata, controller = job["metadata"], controller_of(job)
    name = refusals.named("Job", job)
    if metadata.get("deletionTimestamp"):
        return refusals.is_being_deleted(name)
    if controller is not None and (controller.group, controller.kind) == batch.JOB_SET:
        whole = f"{metadata['namespace']}/jobset/{controller.name}"
        return Problem((), f"{name} belongs to a JobSet", f"retry the whole JobSet: retry-policy retry {whole}")
    if controller is not None and (controller.group, controller.kind) != (batch.CRON_JOB.group, batch.CRON_JOB.kind):
        return refusals.is_run_by(name, f"{controller.kind} {controller.name}")
    if (job["spec"].get("managedBy") or batch.CONTROLLER) != batch.CONTROLLER:
        return refusals.is_run_by(name, job["spec"]["managedBy"])
    if terminal.has_ended_well(job):
        return refusals.has_succeeded(name)
    if not terminal.has_failed(job):
        return refusals.has_not_ended(name)
    maps = [None if outer is None else outer["metadata"].get("annotations"), metadata.get("annotations")]
    if not consent.may_run_twice([*maps, at(job, ("spec", "template", "metadata", "annotations"))]):
        return refusals.may_not_run_twice(name, f"job/{metadata['name']}", job)
    return None


def placeholder_name(name: str, uid: str) -> str:
    """Return the name of a Job's placeholder: the same for whoever asks."""
    end = f"-retry-{uid[:8]}"
    return name[: LONGEST_NAME - len(end)].rstrip("-.") + end


def placeholder_for(job: Json, by: str, when: str) -> Json:
    """Return the placeholder for a Job that has failed; `by`: who asked; `when`: RFC 3339."""
    metadata = job["metadata"]
    manifest = manifest_of(job)
    state = RetryState(
        name=metadata["name"],
        uid=metadata["uid"],
        by=by,
        at=when,
        metadata=cast("Metadata", manifest["metadata"]),
        suspend=bool(job["spec"].get("suspend")) or batch.is_queued(metadata),
        ledger=account.continued(at(job, ("metadata", "annotations", names.LEDGER))),
        history=history_of(job, by, when),
        done=done_of(job),
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": placeholder_name(metadata["name"], metadata["uid"]),
            "namespace": metadata["namespace"],
            "labels": {
                **without(manifest["metadata"].get("labels") or {}, *TO_BE_FOUND_BY),
                names.RETRY_OF: metadata["uid"],
                names.RETRY_IN_PROGRESS: "true",
            },
            "annotations": {names.SUCCESSOR: msgspec.json.encode(state).decode()},
        },
        "spec": {**manifest["spec"], "suspend": True, "managedBy": MANAGED_BY},
    }


def history_of(job: Json, by: str, when: str) -> str:
    """Return the annotation of the Job that is created in place of one, in which it stands who asked."""
    return record.with_new(job, record.Requested(at=when, by=by, of=job["metadata"]["uid"]))


def differ_in_stage_alone(placeholder: Json, before: Json) -> bool:
    """Return True if of a retry state nothing has changed but the stage."""
    state, old = state_of(placeholder), state_of(before)
    state.stage = old.stage
    return state == old


def manifest_of(job: Json) -> Json:
    """Return what a Job's author, and who else made it, wrote: without what this webhook and the API server added."""
    editor = Editor(copied({"metadata": job["metadata"], "spec": job["spec"]}))
    written = undo.read(job)
    if written is not None:
        undo.take_out(editor, batch.JOB, written)
    metadata, spec = editor.root["metadata"], editor.root["spec"]
    spec.pop("managedBy", None)  # the Job controller, or of the placeholder nobody
    generated = () if spec.get("manualSelector") else GENERATED
    if generated:
        spec.pop("selector", None)
        template = spec["template"].get("metadata") or {}
        template["labels"] = {
            key: value for key, value in (template.get("labels") or {}).items() if key not in generated
        }
    annotations = without(metadata.get("annotations") or {}, *OF_ONE_JOB)
    labels = without(metadata.get("labels") or {}, names.PROFILE, names.RETRY_IN_PROGRESS, *generated)
    finalizers = [one for one in metadata.get("finalizers") or () if one not in OF_DELETION]
    found: Json = {"annotations": annotations, "labels": labels, "finalizers": finalizers}
    found["ownerReferences"] = metadata.get("ownerReferences")
    return {"metadata": {key: value for key, value in found.items() if value}, "spec": spec}


def before_kueue(job: Json, workload: Json | None) -> Json:
    """Return a Job as it was before Kueue let it run, which writes nodes and names of its own into the pod template.

    `workload`: Kueue's Workload of the Job, which keeps the template; None where it is gone. Kueue lets no Job run in
    whose template something else stands than it would write (pkg/podset of Kueue 0.19).
    """
    template = copied(job["spec"]["template"])
    before = at(workload, ("spec", "podSets", 0, "template"))
    for part, fields in OF_KUEUE.items():
        its_own = template.setdefault(part, {})
        for name in fields:
            value = at(before, (part, name)) if before is not None else its_own.get(name)
            its_own.pop(name, None)
            if value:
                its_own[name] = value
    for name in ("annotations", "labels"):
        entries = template["metadata"].get(name) or {}
        template["metadata"][name] = without(entries, *WRITTEN_BY_KUEUE)
    return {**job, "spec": {**job["spec"], "template": template}}


def state_of(placeholder: Json) -> RetryState:
    """Read the retry state of a placeholder; raise ValueError where somebody has spoilt it."""
    try:
        return msgspec.json.decode(at(placeholder, STATE) or "", type=RetryState)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_placeholder(job: Json) -> bool:
    """Return True if a Job is a placeholder: by its name too, which no controller's template gives."""
    try:
        state = state_of(job)
    except ValueError:
        return False
    metadata = job["metadata"]
    is_named = metadata.get("name") == placeholder_name(state.name, state.uid)
    return is_named and names.RETRY_OF in (metadata.get("labels") or {}) and controller_of(job) is None


def is_for_job_of(placeholder: Json, owner: Json) -> bool:
    """Return True if a placeholder is for a Job that `owner` owns."""
    owners = state_of(placeholder).metadata.get("ownerReferences") or ()
    return any(one.get("uid") == owner["metadata"]["uid"] for one in owners)


def staged(placeholder: Json, stage: Stage) -> list[Json]:
    """Return the JSON Patch that writes the stage, unless the placeholder has changed meanwhile."""
    state = state_of(placeholder)
    state.stage = stage
    path = pointer(STATE)
    text = msgspec.json.encode(state).decode()
    return [
        {"op": "test", "path": path, "value": at(placeholder, STATE)},
        {"op": "replace", "path": path, "value": text},
    ]


def successor(placeholder: Json) -> Json:
    """Return the Job that runs again, suspended until it has been told what is done."""
    state = state_of(placeholder)
    manifest = manifest_of(placeholder)
    annotations = {**without(state.metadata.get("annotations") or {}, batch.QUEUE_NAME), names.RETRY_OF: state.uid}
    if state.suspend:
        annotations[names.STAYS_SUSPENDED] = "true"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **state.metadata,
            "name": state.name,
            "namespace": placeholder["metadata"]["namespace"],
            "annotations": annotations,
            # Without any label the API server would give it those of its pods.
            "labels": {**without(state.metadata.get("labels") or {}, batch.QUEUE_NAME), names.RETRY_OF: state.uid},
        },
        "spec": {**manifest["spec"], "suspend": True},
    }


def copied(found: Json) -> Json:
    """Copy an object of the API: seven times as fast as by `deepcopy`, as one may be of megabytes."""
    again: Json = msgspec.json.decode(msgspec.json.encode(found))
    return again


def without(entries: dict[str, str], *keys: str) -> dict[str, str]:
    """Return labels or annotations without some."""
    return {key: value for key, value in entries.items() if key not in keys}


def is_successor(job: Json, uid: str) -> bool:
    """Tell whether a Job was created in place of another."""
    return at(job, ("metadata", "annotations", names.RETRY_OF)) == uid or record.is_last(job, uid)


def is_queued_by_others(accepted: Json, state: RetryState) -> bool:
    """Tell whether a successor, as the API server would accept it, has a queue that its author did not name."""
    return batch.is_queued(accepted["metadata"]) and not batch.is_queued(dict(state.metadata))


def is_released(job: Json, uid: str) -> bool:
    """Return True if a successor has been released."""
    return record.is_last(job, uid)


def done_of(job: Json) -> Done:
    """Read what of a Job need not run again: in a work queue, which ends as a whole, nothing."""
    status = job.get("status") or {}
    succeeded = status.get("succeeded") or 0
    if job["spec"].get("completionMode") == "Indexed":
        indexes = status.get("completedIndexes") or ""
        return Done(succeeded, indexes) if indexes else Done()
    return Done(succeeded) if job["spec"].get("completions") is not None else Done()


def done_already(done: Done) -> list[Json]:
    """Return the JSON Patch of the successor's status that says what need not run again; empty where all has to."""
    said: dict[str, Any] = {"completedIndexes": done.completed_indexes, "succeeded": done.succeeded}
    return [{"op": "add", "path": f"/status/{name}", "value": value} for name, value in said.items() if value]


def unless_released(state: RetryState) -> Json:
    """Return the operation of a JSON Patch that fails where the successor has been released."""
    return {"op": "test", "path": pointer(("metadata", "annotations", names.RETRY_OF)), "value": state.uid}


def release(state: RetryState) -> list[Json]:
    """Return the JSON Patch that releases a successor, once only, with what it must not have before."""
    mark = pointer(("metadata", "annotations", names.RETRY_OF))
    found: list[Json] = [unless_released(state), {"op": "remove", "path": mark}]
    if state.suspend:
        found.append({"op": "remove", "path": pointer(("metadata", "annotations", names.STAYS_SUSPENDED))})
    said = {names.RETRY_HISTORY: state.history, names.LEDGER: state.ledger}
    for name, text in said.items():
        if text is not None:
            found.append({"op": "add", "path": pointer(("metadata", "annotations", name)), "value": text})
    named = {"labels": state.metadata.get("labels"), "annotations": state.metadata.get("annotations")}
    for field, entries in named.items():
        if entries and batch.QUEUE_NAME in entries:
            queue = entries[batch.QUEUE_NAME]
            found.append({"op": "add", "path": pointer(("metadata", field, batch.QUEUE_NAME)), "value": queue})
    found.append({"op": "remove", "path": pointer(("metadata", "labels", names.RETRY_OF))})
    if not state.suspend:
        found.append({"op": "replace", "path": "/spec/suspend", "value": False})
    return found


def rights(job: Json) -> list[Right]:
    """Return the rights that creating a Job again takes; `job` may be its placeholder."""
    done = state_of(job).done if is_placeholder(job) else done_of(job)
    return [*REPLACES, WRITES_WHAT_IS_DONE] if done_already(done) else [*REPLACES]


def promise(job: Json) -> str:
    """Return a line that says what of a Job will run again; `job` is its placeholder where that has begun."""
    if is_placeholder(job):
        return f"Job {job['metadata']['namespace']}/{state_of(job).name}: goes on with the retry that was begun"
    name, done, completions = refusals.named("Job", job), done_of(job), job["spec"].get("completions")
    if done.completed_indexes:
        return f"{name}: {completions - done.succeeded} of {completions} indexes run again"
    if done.succeeded:
        return f"{name}: runs again; {done.succeeded} of {completions} pods have succeeded already"
    return f"{name}: runs again"


def cannot_be_suspended(job: Json) -> Problem | None:
    """Return why a Job can be neither suspended nor resumed; None if it can."""
    name = refusals.named("Job", job)
    if is_placeholder(job) or names.RETRY_OF in (job["metadata"].get("annotations") or {}):
        return Problem((), f"{name} is part of a retry that has begun", "continue it with retry-policy retry")
    return refusals.is_queued(name) if batch.is_queued(job["metadata"]) else None


ADAPTER: Final = Adapter(
    row=batch.JOB,
    rights=rights,
    run_id=lambda found: str(found.root["metadata"]["uid"]),
    refusal=lambda found: refusal(found.root, found.controller),
    promise=lambda found: promise(found.root),
    cannot_be_suspended=cannot_be_suspended,
    controller=batch.CRON_JOB,
)
