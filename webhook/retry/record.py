"""The requested retries of an object, each with user and time: JSON in an annotation of the object."""

from typing import Final

import msgspec

from webhook.kube import names
from webhook.objects.patch import at, pointer
from webhook.objects.problem import Json, Path

ANNOTATION: Final[Path] = ("metadata", "annotations", names.RETRY_HISTORY)
KEPT: Final = 10  # the newest retries stay in the annotation
# Characters of the annotation that are read: for a PipelineRun each retry has the outcomes of up to 20 tasks.
LONGEST: Final = 64 * 1024


class Requested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One requested retry.

    `at`: the time, RFC 3339. `by`: the username in the API server. `of`: the run that is to run again: the uid of a
    Job, the restart of a JobSet, the time at which a PipelineRun, Workflow or Volcano Job ended, the RayCluster of a
    RayJob.
    `ended`: the outcomes of those tasks of a PipelineRun that did not succeed: their TaskRuns are deleted.
    `keep_finally`: whether tasks of `finally` that have succeeded do not run again.
    """

    at: str
    by: str
    of: str
    ended: tuple[str, ...] = ()
    keep_finally: bool = False


_requests_in: Final = msgspec.json.Decoder(tuple[Requested, ...])


def read(root: Json) -> tuple[Requested, ...]:
    """Return the requested retries of an object, oldest first; none if the annotation is absent or malformed."""
    text = at(root, ANNOTATION)
    if text is None or len(text) > LONGEST:
        return ()
    try:
        return _requests_in.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ()


def with_new(root: Json, new: Requested) -> str:
    """Return the value of the annotation with a new retry, which replaces the oldest one if there are too many."""
    return msgspec.json.encode((*read(root), new)[-KEPT:]).decode()


def operations(root: Json, new: Requested) -> list[Json]:
    """Return the JSON Patch that records a new retry; it fails if the object's resourceVersion has changed."""
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": root["metadata"]["resourceVersion"]}
    text = with_new(root, new)
    if not root["metadata"].get("annotations"):
        return [version, {"op": "add", "path": "/metadata/annotations", "value": {names.RETRY_HISTORY: text}}]
    return [version, {"op": "add", "path": pointer(ANNOTATION), "value": text}]


def is_last(root: Json, of: str) -> bool:
    """Return True if the last requested retry of an object was of this run."""
    found = read(root)
    return bool(found) and found[-1].of == of
