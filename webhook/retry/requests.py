"""Requests for retries by an annotation: the fields that admission writes, and by which the leader finds them.

Admission records the accepted request in a second annotation, with its user and its run, so that later changes of the
object do not change the request.

Reads:
    metadata.annotations[retry-policy.dev/{retry-requested-at,retry-accepted}], status.conditions, status.completionTime
Writes:
    metadata.annotations[retry-policy.dev/retry-accepted], metadata.labels[retry-policy.dev/retry-in-progress]
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from webhook.kube import names, terminal
from webhook.objects import times
from webhook.objects.patch import at, pointer
from webhook.objects.problem import Json, Path, Problem
from webhook.retry import record
from webhook.retry.record import Requested

ANNOTATIONS: Final[Path] = ("metadata", "annotations")
LABELS: Final[Path] = ("metadata", "labels")
REQUESTED_AT: Final[Path] = (*ANNOTATIONS, names.RETRY_REQUESTED_AT)
ACCEPTED: Final[Path] = (*ANNOTATIONS, names.RETRY_ACCEPTED)
MARK: Final[Path] = (*LABELS, names.RETRY_IN_PROGRESS)
SUCCESSOR: Final[Path] = (*ANNOTATIONS, names.SUCCESSOR)
RETRY_OF: Final[Path] = (*LABELS, names.RETRY_OF)
# The leader acts on these fields: users who change one need the permissions that the leader would use.
GUARDED: Final = (MARK, RETRY_OF, ACCEPTED, SUCCESSOR, record.ANNOTATION)
# Fields that a copy of the object must not have. A successor has the other two, until it is released.
NOT_COPIED: Final = tuple(path for path in GUARDED if path not in {SUCCESSOR, RETRY_OF})
RFC_3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
LONGEST_ACCEPTED: Final = 4096  # characters of the accepted request; most of it is the username
CLOCK_TOLERANCE: Final = timedelta(minutes=1)  # by which a user's clock may be ahead


def requests_retry(root: Json, old: Json) -> bool:
    """Return True if an update of an object requests a retry."""
    text = at(root, REQUESTED_AT)
    return text is not None and text != at(old, REQUESTED_AT)


def guarded_changes(root: Json, old: Json) -> list[Path]:
    """Return the paths of the GUARDED fields that differ between two states of an object."""
    return [path for path in GUARDED if at(root, path) != at(old, path)]


def time_of(text: str) -> datetime | None:
    """Return the time in an RFC 3339 text; None if it is not one."""
    return times.time_of(text) if RFC_3339.fullmatch(text) else None


def problem(root: Json, now: datetime) -> Problem | None:
    """Return what is wrong with the time of a request: not RFC 3339, or in the future; None if nothing is."""
    text = at(root, REQUESTED_AT)
    when = time_of(text)
    if when is None:
        return Problem(REQUESTED_AT, f"is {text[:40]!r}", "must be the current time, RFC 3339, from date -u +%FT%TZ")
    if when > now + CLOCK_TOLERANCE:
        return Problem(
            REQUESTED_AT, f"is {text}, which is in the future", "must be the current time: a retry cannot be scheduled"
        )
    return None


def outdated(root: Json, run: Json) -> Problem | None:
    """Return a problem if a request is older than the end of the run, or its start if it has not ended; else None.

    Such a request was for an earlier run: a tool has written an old annotation again. `run`: the object itself, or a
    CronJob's last Job.
    """
    when = time_of(at(root, REQUESTED_AT))
    if when is None:
        return None
    ended = terminal.ended_at(run)
    began = [at(run, ("metadata", "creationTimestamp")), *(one.at for one in record.read(run)[-1:])]
    since = [time_of(one) for one in ([ended] if ended else began) if one]
    if all(one is None or when >= one for one in since):
        return None
    return Problem(
        REQUESTED_AT, f"is earlier than the {'end' if ended else 'start'} of this run", "set the current time"
    )


_request_in: Final = msgspec.json.Decoder(Requested)


def accepted(root: Json) -> Requested | None:
    """Return the request that admission has accepted; None if there is none, or it is malformed."""
    text = at(root, ACCEPTED)
    if text is not None and len(text) > LONGEST_ACCEPTED:
        return None
    try:
        return None if text is None else _request_in.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def accept(root: Json, requested: Requested) -> list[Json]:
    """Return the JSON Patch that records an accepted request and marks the object for the leader."""
    value = msgspec.json.encode(requested).decode()
    return [{"op": "add", "path": pointer(ACCEPTED), "value": value}, *mark(root)]


def mark(root: Json) -> list[Json]:
    """Return the JSON Patch that marks an object for the leader, with the label retry-in-progress."""
    if at(root, LABELS) is None:
        return [{"op": "add", "path": pointer(LABELS), "value": {names.RETRY_IN_PROGRESS: "true"}}]
    return [{"op": "add", "path": pointer(MARK), "value": "true"}]


def begin_anew(root: Json, requested: Requested) -> list[Json]:
    """Return the JSON Patch that records a retry in place, after which the budgets begin anew, and marks the object.

    It fails if the object's resourceVersion has changed.
    """
    return [*record.operations(root, requested), *mark(root)]


def keeps_finally(run: Json) -> bool:
    """Return True if a PipelineRun is annotated not to rerun tasks of `finally` that have succeeded."""
    value: str | None = at(run, (*ANNOTATIONS, names.KEEP_FINALLY))
    return value == "true"


def is_marked(root: Json) -> bool:
    """Return True if an object has the label retry-in-progress."""
    return at(root, MARK) is not None


def forget(root: Json) -> list[Json]:
    """Return the JSON Patch that removes a request and its mark; empty if the object has no mark.

    It fails if another request has been accepted in the meantime.
    """
    if not is_marked(root):
        return []
    text = at(root, ACCEPTED)
    found: list[Json] = []
    if root["metadata"].get("annotations"):  # else the test would fail: the path has no parent
        found = [{"op": "test", "path": pointer(ACCEPTED), "value": text}]  # null matches an absent annotation
    found += [{"op": "remove", "path": pointer(ACCEPTED)}] if text is not None else []
    return [*found, {"op": "remove", "path": pointer(MARK)}]


def restore_record(root: Json, old: Json) -> list[Json]:
    """Return the JSON Patch that restores the retry history of an object."""
    text = at(old, record.ANNOTATION)
    if at(root, ANNOTATIONS) is None:
        return [{"op": "add", "path": pointer(ANNOTATIONS), "value": {names.RETRY_HISTORY: text}}]
    return [{"op": "add", "path": pointer(record.ANNOTATION), "value": text}]


def removal_of(root: Json, *paths: Path) -> list[Json]:
    """Return the JSON Patch that removes those of these fields that an object has."""
    return [{"op": "remove", "path": pointer(path)} for path in paths if at(root, path) is not None]


def may_run_twice(annotations: Iterable[Json | None]) -> bool:
    """Return True if the last of these annotation maps with the key `retryable` has the value "true"; else False.

    The maps are in order from the object to its innermost template.
    """
    values = [one[names.RETRYABLE] for one in annotations if one and names.RETRYABLE in one]
    return bool(values) and values[-1] == "true"
