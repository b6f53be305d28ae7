"""A Job runs again as another Job of the same name, because its terminal condition cannot be removed.

An interrupted retry loses nothing. Before the failed Job is deleted, its manifest is stored in a suspended Job, the
*placeholder*, which passes the same admission as any Job. The *successor* is created from the placeholder, suspended
too; its status gets the work that has succeeded already; then the successor is *released*. The stage is stored in the
placeholder, so that the leader or any user with the permissions can continue.

The part that has succeeded is stored in an annotation. The API allows 256 KiB of annotations on an object. Every second
one of 100,000 completion indexes takes more as the API writes them, `0,2,4`, and a tenth of that as compressed
distances.

The retry of a CronJob is that of its last Job; the CronJob's annotation `retryable` applies to its Jobs.

Reads:
    metadata, spec and status of a Job
    metadata.annotations[retry-policy.dev/{successor,retry-of,retry-history,retryable}]
Writes:
    the placeholder, the successor; status.{completedIndexes,succeeded} of the successor
"""

import re
from base64 import b64decode, b64encode
from itertools import accumulate, chain, pairwise
from typing import Any, Final, Literal, TypedDict, cast
from zlib import compress, decompressobj, error

import msgspec

from webhook.kube import names, terminal
from webhook.kube.paths import is_name
from webhook.objects import bounds
from webhook.objects.patch import Editor, at, pointer
from webhook.objects.problem import Json, Path, Problem
from webhook.retry import record, requests
from webhook.rules import undo
from webhook.systems import kueue, refusals
from webhook.systems.adapter import Adapter, Right, Workload
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import controller_of, copied

LONGEST_NAME: Final = 63  # characters of a Job's name, which is a label value of its pods
UID: Final = re.compile("[0-9A-Za-z-]{1,63}")
STATE: Final[Path] = ("metadata", "annotations", names.SUCCESSOR)
# Labels that the API server writes on a Job and its pods, unless manualSelector is set
# (pkg/registry/batch/job/strategy.go).
GENERATED: Final = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
# Annotations of ours that a retry sets on Jobs, and those that it only removes: from them the admission policies follow
# (tools/generate/written.py).
SETS: Final = (names.RETRY_HISTORY, names.SUCCESSOR)
REMOVES: Final = (names.RETRY_OF, names.STAYS_SUSPENDED)
# Annotations that belong to the failed Job, not to its manifest.
NOT_IN_MANIFEST: Final = names.KEPT | {*SETS, *REMOVES, "batch.kubernetes.io/job-tracking"}
# Labels that the placeholder does not get: with the first Kueue would start it, with the second Argo CD could prune it.
NOT_ON_PLACEHOLDER: Final = (kueue.QUEUE_NAME, "app.kubernetes.io/instance")
MANAGED_BY: Final = "retry-policy.dev/placeholder"  # of a placeholder: no controller runs it, even if it is resumed
OF_DELETION: Final = ("foregroundDeletion", "orphan")  # finalizers

# The permissions for the retry of a Job; the last one only if a part of it has succeeded.
REPLACES: Final = tuple(Right(verb, batch.JOB.group, batch.JOB.resource) for verb in ("create", "patch", "delete"))
WRITES_STATUS: Final = Right("patch", batch.JOB.group, batch.JOB.resource, "status")

LONGEST_PLAIN: Final = 16 * 1024  # characters of indexes that are stored as the API writes them
LARGEST: Final = 2 * 1024 * 1024  # bytes of the distances: an object of the API is smaller

Stage = Literal["Stored", "Deleting", "Created"]


class Metadata(TypedDict, total=False):
    """The metadata that a successor gets from the failed Job."""

    annotations: dict[str, str]
    labels: dict[str, str]
    finalizers: list[str]
    ownerReferences: list[Json]


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a Job that has succeeded, as in its status: the number of pods, and the indexes of an Indexed Job."""

    succeeded: int = 0
    completed_indexes: str = ""


def packed(done: Done) -> Done | str:
    """Return what is stored: a text if the indexes are long, which an older version refuses to read."""
    if len(done.completed_indexes) <= LONGEST_PLAIN:
        return done
    parts = (part.partition("-")[::2] for part in done.completed_indexes.split(","))
    numbers = [done.succeeded, *chain.from_iterable((int(first), int(last or first)) for first, last in parts)]
    distances = [*numbers[:2], *(two - one for one, two in pairwise(numbers[1:]))]
    return b64encode(compress(",".join(map(str, distances)).encode(), 9)).decode()


def unpacked(stored: Done | str) -> Done:
    """Return what `packed` was given; raise ValueError if it is malformed or too long."""
    if isinstance(stored, Done):
        return stored
    reader = decompressobj()
    try:
        text = reader.decompress(b64decode(stored, validate=True), LARGEST)
    except error as malformed:
        raise ValueError(f"the indexes that have succeeded: {malformed}") from None
    if reader.unconsumed_tail:
        raise ValueError(f"the indexes that have succeeded have more than {LARGEST} bytes")
    succeeded, *distances = map(int, text.split(b","))
    ends = accumulate(distances)
    runs = (str(first) if first == last else f"{first}-{last}" for first, last in zip(ends, ends, strict=True))
    return Done(succeeded, ",".join(runs))


class RetryState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state of a retry, in an annotation of the placeholder; the placeholder's spec is that of the successor.

    `name`, `uid`: those of the failed Job. `by`, `at`: user and time of the request. `metadata`: the annotations,
    labels, finalizers and owners of the successor. `suspend`: whether the successor stays suspended. `stored_done`:
    the part that does not run again. `history`: an annotation that the successor gets when it is released.
    `stage`: `Stored`, the placeholder exists; `Deleting`, the failed Job is being deleted; `Created`, the successor
    exists.
    """

    name: str
    uid: str
    by: str
    at: str
    metadata: Metadata
    suspend: bool = False
    stored_done: Done | str = msgspec.field(default=Done(), name="done")
    history: str = ""
    stage: Stage = "Stored"

    def __post_init__(self) -> None:
        """Raise ValueError if name or uid is not valid: both become part of a path."""
        if not is_name(self.name) or len(self.name) > LONGEST_NAME or not UID.fullmatch(self.uid):
            raise ValueError("name and uid must be a Job's")
        unpacked(self.stored_done)

    @property
    def done(self) -> Done:
        """The part that does not run again."""
        return unpacked(self.stored_done)


def refusal(job: Json, outer: Json | None = None) -> Problem | None:
    """Return why a Job cannot run again; None if it can. `outer`: the CronJob that controls it."""
    metadata, controller = job["metadata"], controller_of(job)
    name = refusals.kind_and_name("Job", job)
    if metadata.get("deletionTimestamp"):
        return refusals.is_being_deleted(name)
    if controller is not None and (controller.group, controller.kind) == batch.JOB_SET:
        whole = f"{metadata['namespace']}/jobset/{controller.name}"
        return Problem((), f"{name} belongs to a JobSet", f"retry the whole JobSet: retry-policy retry {whole}")
    if controller is not None and (controller.group, controller.kind) != (batch.CRON_JOB.group, batch.CRON_JOB.kind):
        return refusals.is_run_by(name, f"{controller.kind} {controller.name}")
    if not batch.is_of_job_controller(job["spec"]):
        return refusals.is_run_by(name, job["spec"]["managedBy"])
    if terminal.has_ended_well(job):
        return refusals.has_succeeded(name)
    if not terminal.has_failed(job):
        return refusals.has_not_ended(name)
    maps = [None if outer is None else outer["metadata"].get("annotations"), metadata.get("annotations")]
    if not requests.may_run_twice([*maps, at(job, ("spec", "template", "metadata", "annotations"))]):
        return refusals.may_not_run_twice(name, f"job/{metadata['name']}", job)
    return None


def placeholder_name(name: str, uid: str) -> str:
    """Return the name of a Job's placeholder: the same for all requests."""
    end = f"-retry-{uid[:8]}"
    return name[: LONGEST_NAME - len(end)].rstrip("-.") + end


def placeholder_for(job: Json, by: str, when: str, counted: Json | None = None) -> Json:
    """Return the placeholder for a failed Job; `by`: the user who requested the retry; `when`: the time, RFC 3339.

    `counted`: the status of its Account, which says by how much the leader has raised its backoffLimit; None without.
    """
    metadata = job["metadata"]
    manifest = _manifest_of(job)
    limit = manifest["spec"].get("backoffLimit")
    if limit is not None and not batch.has_index_budgets(manifest["spec"]):
        manifest["spec"]["backoffLimit"] = _limit_before(limit, counted or {})
    state = RetryState(
        name=metadata["name"],
        uid=metadata["uid"],
        by=by,
        at=when,
        metadata=cast("Metadata", manifest["metadata"]),
        suspend=bool(job["spec"].get("suspend")) or kueue.is_queued(metadata),
        history=history_of(job, by, when),
        stored_done=packed(done_of(job)),
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": placeholder_name(metadata["name"], metadata["uid"]),
            "namespace": metadata["namespace"],
            "labels": {
                **_without(manifest["metadata"].get("labels") or {}, *NOT_ON_PLACEHOLDER),
                names.RETRY_OF: metadata["uid"],
                names.RETRY_IN_PROGRESS: "true",
            },
            "annotations": {names.SUCCESSOR: msgspec.json.encode(state).decode()},
        },
        "spec": {**manifest["spec"], "suspend": True, "managedBy": MANAGED_BY},
    }


def _limit_before(limit: int, counted: Json) -> int:
    """Return what the backoffLimit of a Job was before the leader has raised it; `counted`: as in `placeholder_for`."""
    wanted = (counted.get("returned") or 0) + (counted.get("renewed") or 0)
    missing = max(0, (counted.get("backoffLimit") or limit) - limit)  # of that, the leader has not raised it by so much
    raised = max(0, wanted - missing)
    return min(limit - raised if limit >= raised else limit, bounds.MOST_RETRIES)  # or somebody has lowered it since


def history_of(job: Json, by: str, when: str) -> str:
    """Return the value of the successor's annotation retry-history."""
    return record.with_new(job, record.Requested(at=when, by=by, of=job["metadata"]["uid"]))


def differ_in_stage_alone(placeholder: Json, before: Json) -> bool:
    """Return True if two retry states are equal except for the stage."""
    state, old = state_of(placeholder), state_of(before)
    state.stage = old.stage
    return state == old


def _manifest_of(job: Json) -> Json:
    """Return metadata and spec of a Job without the fields that this webhook, a retry and the API server have added."""
    editor = Editor(copied({"metadata": job["metadata"], "spec": job["spec"]}))
    written = undo.read(job)
    if written is not None:
        undo.take_out(editor, batch.JOB, written)
    metadata, spec = editor.root["metadata"], editor.root["spec"]
    spec.pop("managedBy", None)  # the default, or the value of a placeholder
    generated = () if spec.get("manualSelector") else GENERATED
    if generated:
        spec.pop("selector", None)
        template = spec["template"].get("metadata") or {}
        template["labels"] = {
            key: value for key, value in (template.get("labels") or {}).items() if key not in generated
        }
    annotations = _without(metadata.get("annotations") or {}, *NOT_IN_MANIFEST)
    labels = _without(metadata.get("labels") or {}, names.PROFILE, names.RETRY_IN_PROGRESS, *generated)
    finalizers = [one for one in metadata.get("finalizers") or () if one not in OF_DELETION]
    found: Json = {"annotations": annotations, "labels": labels, "finalizers": finalizers}
    found["ownerReferences"] = metadata.get("ownerReferences")
    return {"metadata": {key: value for key, value in found.items() if value}, "spec": spec}


_state_in: Final = msgspec.json.Decoder(RetryState)


def state_of(placeholder: Json) -> RetryState:
    """Return the retry state of a placeholder; raise ValueError if it is absent or malformed."""
    try:
        return _state_in.decode(at(placeholder, STATE) or "")
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_placeholder(job: Json) -> bool:
    """Return True if a Job is a valid placeholder; its name is checked too, because no template can give this name."""
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


def stage_patch(placeholder: Json, stage: Stage) -> list[Json]:
    """Return the JSON Patch that writes the stage; it fails if the retry state has changed."""
    state = state_of(placeholder)
    state.stage = stage
    path = pointer(STATE)
    text = msgspec.json.encode(state).decode()
    return [
        {"op": "test", "path": path, "value": at(placeholder, STATE)},
        {"op": "replace", "path": path, "value": text},
    ]


def successor(placeholder: Json) -> Json:
    """Return the successor, suspended until its status has the part that has succeeded."""
    state = state_of(placeholder)
    manifest = _manifest_of(placeholder)
    annotations = {**_without(state.metadata.get("annotations") or {}, kueue.QUEUE_NAME), names.RETRY_OF: state.uid}
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
            # Never empty: the API server gives a Job without labels those of its pods.
            "labels": {**_without(state.metadata.get("labels") or {}, kueue.QUEUE_NAME), names.RETRY_OF: state.uid},
        },
        "spec": {**manifest["spec"], "suspend": True},
    }


def _without(entries: dict[str, str], *keys: str) -> dict[str, str]:
    return {key: value for key, value in entries.items() if key not in keys}


def is_successor(job: Json, uid: str) -> bool:
    """Return True if a Job is the successor of the Job with this uid."""
    return at(job, ("metadata", "annotations", names.RETRY_OF)) == uid or record.is_last(job, uid)


def is_queued_by_others(accepted: Json, state: RetryState) -> bool:
    """Return True if admission puts a successor into a queue that its author did not name."""
    return kueue.is_queued(accepted["metadata"]) and not kueue.is_queued(dict(state.metadata))


def is_released(job: Json, uid: str) -> bool:
    """Return True if a successor has been released."""
    return record.is_last(job, uid)


def done_of(job: Json) -> Done:
    """Return the part of a Job that has succeeded; nothing for a work queue, which succeeds or fails as a whole."""
    status = job.get("status") or {}
    succeeded = status.get("succeeded") or 0
    if job["spec"].get("completionMode") == "Indexed":
        indexes = status.get("completedIndexes") or ""
        return Done(succeeded, indexes) if indexes else Done()
    return Done(succeeded) if job["spec"].get("completions") is not None else Done()


def done_patch(done: Done) -> list[Json]:
    """Return the JSON Patch of the successor's status with the part that has succeeded; empty if there is none."""
    fields: dict[str, Any] = {"completedIndexes": done.completed_indexes, "succeeded": done.succeeded}
    return [{"op": "add", "path": f"/status/{name}", "value": value} for name, value in fields.items() if value]


def unreleased_check(state: RetryState) -> Json:
    """Return the operation of a JSON Patch that fails if the successor has been released."""
    return {"op": "test", "path": pointer(("metadata", "annotations", names.RETRY_OF)), "value": state.uid}


def release(state: RetryState) -> list[Json]:
    """Return the JSON Patch that releases a successor, and adds history and queue; it succeeds only once."""
    mark = pointer(("metadata", "annotations", names.RETRY_OF))
    found: list[Json] = [unreleased_check(state), {"op": "remove", "path": mark}]
    if state.suspend:
        found.append({"op": "remove", "path": pointer(("metadata", "annotations", names.STAYS_SUSPENDED))})
    history = pointer(("metadata", "annotations", names.RETRY_HISTORY))
    found.append({"op": "add", "path": history, "value": state.history})
    named = {"labels": state.metadata.get("labels"), "annotations": state.metadata.get("annotations")}
    for field, entries in named.items():
        if entries and kueue.QUEUE_NAME in entries:
            queue = entries[kueue.QUEUE_NAME]
            found.append({"op": "add", "path": pointer(("metadata", field, kueue.QUEUE_NAME)), "value": queue})
    found.append({"op": "remove", "path": pointer(("metadata", "labels", names.RETRY_OF))})
    if not state.suspend:
        found.append({"op": "replace", "path": "/spec/suspend", "value": False})
    return found


def _rights(job: Json) -> list[Right]:
    """Return the permissions for the retry of a Job; `job` may be its placeholder."""
    done = state_of(job).done if is_placeholder(job) else done_of(job)
    return [*REPLACES, WRITES_STATUS] if done_patch(done) else [*REPLACES]


def what_reruns(job: Json) -> str:
    """Return what of a Job will run again, without the verb; `job` is its placeholder where that has begun."""
    if is_placeholder(job):
        return f"Job {job['metadata']['namespace']}/{state_of(job).name}, whose retry has begun:"
    name, done, completions = refusals.kind_and_name("Job", job), done_of(job), job["spec"].get("completions")
    if done.completed_indexes:
        return f"{name}: {completions - done.succeeded} of {completions} indexes"
    if done.succeeded:
        return f"{name}: {completions - done.succeeded} of {completions} pods"
    return f"{name}:"


def _cannot_be_suspended(job: Json) -> Problem | None:
    name = refusals.kind_and_name("Job", job)
    if is_placeholder(job) or names.RETRY_OF in (job["metadata"].get("annotations") or {}):
        return Problem((), f"{name} is part of a retry that has begun", "continue it with retry-policy retry")
    return refusals.is_queued(name) if kueue.is_queued(job["metadata"]) else None


def _refusal_of_cron_job(found: Workload) -> Problem | None:
    """Return why the last Job cannot run again; None if it can.

    The text does not name the CronJob: it becomes a warning, and these have at most 120 characters.
    """
    if found.placeholder is not None:
        return Problem((), "a retry of its last Job has begun", "wait until it has ended")
    if found.run is None:
        return Problem((), "it has no Job to retry", "wait for its next Job")
    return refusal(found.run, found.root)


def _what_reruns_of_cron_job(found: Workload) -> str:
    """Return what of the last Job will run again, without the verb; empty if there is none."""
    run = found.placeholder or found.run
    return "" if run is None else what_reruns(run)


ADAPTER: Final = Adapter(
    kind=batch.JOB,
    rights=_rights,
    run_id=lambda found: str(found.root["metadata"]["uid"]),
    refusal=lambda found: refusal(found.root, found.controller),
    what_reruns=lambda found: what_reruns(found.root),
    cannot_be_suspended=_cannot_be_suspended,
    controller=batch.CRON_JOB,
)
OF_CRON_JOB: Final = Adapter(
    kind=batch.CRON_JOB,
    rights=lambda _: [*REPLACES, WRITES_STATUS],
    run_id=lambda found: "" if found.run is None else str(found.run["metadata"]["uid"]),
    refusal=_refusal_of_cron_job,
    what_reruns=_what_reruns_of_cron_job,
    cannot_be_suspended=lambda _: None,
    runs=ADAPTER,
)
ADAPTERS: Final = (ADAPTER, OF_CRON_JOB)
