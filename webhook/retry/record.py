"""Who asked for which retry of an object, and when: JSON in an annotation of it."""

from typing import Final

import msgspec

from webhook.kube import names
from webhook.objects.patch import at, pointer
from webhook.objects.problem import Json, Path

ANNOTATION: Final[Path] = ("metadata", "annotations", names.RETRY_HISTORY)
KEPT: Final = 10  # the newest
LONGEST: Final = 64 * 1024  # characters of the annotation that are read: of a PipelineRun each says how 20 tasks ended


class Requested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One requested retry.

    `at`: RFC 3339; `by`: a user as the API server knows him; `of`: what was asked to run again: a Job's uid, a JobSet's
    restart, a PipelineRun's completion time. `ended`: how each of its tasks ended that did not succeed, as no account
    is kept of a PipelineRun; `keep_finally`: whether what of `finally` had succeeded stays.
    """

    at: str
    by: str
    of: str
    ended: tuple[str, ...] = ()
    keep_finally: bool = False


def read(root: Json) -> tuple[Requested, ...]:
    """Return the retries that an object had, oldest first; none where somebody has spoilt the annotation."""
    text = at(root, ANNOTATION)
    if text is None or len(text) > LONGEST:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[Requested, ...])
    except (msgspec.DecodeError, RecursionError):
        return ()


def with_new(root: Json, new: Requested) -> str:
    """Return the annotation of an object that is asked to run again."""
    return msgspec.json.encode((*read(root), new)[-KEPT:]).decode()


def operations(root: Json, new: Requested) -> list[Json]:
    """Return the JSON Patch that notes it on an object, unless that has changed meanwhile."""
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": root["metadata"]["resourceVersion"]}
    text = with_new(root, new)
    if not root["metadata"].get("annotations"):
        return [version, {"op": "add", "path": "/metadata/annotations", "value": {names.RETRY_HISTORY: text}}]
    return [version, {"op": "add", "path": pointer(ANNOTATION), "value": text}]


def is_last(root: Json, of: str) -> bool:
    """Tell whether what an object was last asked for is this."""
    found = read(root)
    return bool(found) and found[-1].of == of
