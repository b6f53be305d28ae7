"""How a retry is asked for by an annotation, without a shell: what admission makes of it, and what the leader finds.

What admission accepts it notes beside it, with who asked, and for which run, so that what comes later is no part of it.

Reads:
    metadata.annotations[retry-policy.dev/{retry-requested-at,retry-accepted}], status.conditions, status.completionTime
Writes:
    metadata.annotations[retry-policy.dev/retry-accepted], metadata.labels[retry-policy.dev/retry-in-progress]
"""

import re
from datetime import datetime, timedelta
from typing import Final

import msgspec

from webhook.kube import names, terminal
from webhook.objects.patch import at, pointer
from webhook.objects.problem import Json, Path, Problem
from webhook.retry import record
from webhook.retry.record import Requested

ANNOTATIONS: Final[Path] = ("metadata", "annotations")
LABELS: Final[Path] = ("metadata", "labels")
ASKS: Final[Path] = (*ANNOTATIONS, names.RETRY_REQUESTED_AT)
ACCEPTED: Final[Path] = (*ANNOTATIONS, names.RETRY_ACCEPTED)
MARK: Final[Path] = (*LABELS, names.RETRY_IN_PROGRESS)
SUCCESSOR: Final[Path] = (*ANNOTATIONS, names.SUCCESSOR)
RETRY_OF: Final[Path] = (*LABELS, names.RETRY_OF)
# By what stands here the leader acts: who changes it must be allowed to do what that would do.
GUARDED: Final = (MARK, RETRY_OF, ACCEPTED, SUCCESSOR, record.ANNOTATION)
OF_ONE: Final = (ACCEPTED, MARK, record.ANNOTATION)  # what of an object no copy has
RFC_3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
LONGEST_ACCEPTED: Final = 4096  # characters: as long as a user's name may reasonably be
CLOCKS_DIFFER: Final = timedelta(minutes=1)


def is_asked_for(root: Json, old: Json) -> bool:
    """Tell whether an update of an object asks for a retry."""
    text = at(root, ASKS)
    return text is not None and text != at(old, ASKS)


def guarded_changes(root: Json, old: Json) -> list[Path]:
    """Return which fields differ that the leader acts by."""
    return [path for path in GUARDED if at(root, path) != at(old, path)]


def time_of(text: str) -> datetime | None:
    """Read a time; None where it is none."""
    try:
        return datetime.fromisoformat(text) if RFC_3339.fullmatch(text) else None
    except ValueError:
        return None


def problem(root: Json, now: datetime) -> Problem | None:
    """Say what is wrong with the time at which a retry is asked for."""
    text = at(root, ASKS)
    when = time_of(text)
    if when is None:
        return Problem(ASKS, f"is {text[:40]!r}", "must be the current time, RFC 3339, from date -u +%FT%TZ")
    if when > now + CLOCKS_DIFFER:
        return Problem(
            ASKS, f"is {text}, which is in the future", "must be the current time: a retry cannot be scheduled"
        )
    return None


def outdated(root: Json, run: Json) -> Problem | None:
    """Say that a retry was asked for before the run that it would be of had ended, or begun: it is of an earlier one.

    So it is where something puts back what it had written long ago. `run`: the object itself, or a CronJob's last Job.
    """
    when = time_of(at(root, ASKS))
    if when is None:
        return None
    ended = terminal.ended_at(run)
    began = [at(run, ("metadata", "creationTimestamp")), *(one.at for one in record.read(run)[-1:])]
    since = [time_of(one) for one in ([ended] if ended else began) if one]
    if all(one is None or when >= one for one in since):
        return None
    return Problem(ASKS, f"is earlier than the {'end' if ended else 'start'} of this run", "set the current time")


def accepted(root: Json) -> Requested | None:
    """Return the request that admission has accepted; None where there is none."""
    text = at(root, ACCEPTED)
    if text is not None and len(text) > LONGEST_ACCEPTED:
        return None
    try:
        return None if text is None else msgspec.json.decode(text, type=Requested)
    except (msgspec.DecodeError, RecursionError):
        return None


def accept(root: Json, requested: Requested) -> list[Json]:
    """Return the JSON Patch by which the leader finds who has asked for what."""
    value = msgspec.json.encode(requested).decode()
    return [{"op": "add", "path": pointer(ACCEPTED), "value": value}, *mark(root)]


def mark(root: Json) -> list[Json]:
    """Return the JSON Patch by which the leader finds an object that is made to run again."""
    if at(root, LABELS) is None:
        return [{"op": "add", "path": pointer(LABELS), "value": {names.RETRY_IN_PROGRESS: "true"}}]
    return [{"op": "add", "path": pointer(MARK), "value": "true"}]


def keeps_finally(run: Json) -> bool:
    """Tell whether what of `finally` has succeeded in a PipelineRun is not to run again."""
    said: str | None = at(run, (*ANNOTATIONS, names.KEEP_FINALLY))
    return said == "true"


def is_marked(root: Json) -> bool:
    """Tell whether an object is one that is made to run again."""
    return at(root, MARK) is not None


def forget(root: Json) -> list[Json]:
    """Return the JSON Patch that ends it, unless it is asked for anew meanwhile; empty where nothing was asked for."""
    if not is_marked(root):
        return []
    text = at(root, ACCEPTED)
    found: list[Json] = []
    if root["metadata"].get("annotations"):  # else there is nothing to look into
        found = [{"op": "test", "path": pointer(ACCEPTED), "value": text}]  # null where it is absent
    found += [{"op": "remove", "path": pointer(ACCEPTED)}] if text is not None else []
    return [*found, {"op": "remove", "path": pointer(MARK)}]


def put_back_record(root: Json, old: Json) -> list[Json]:
    """Return the JSON Patch that puts back who asked for retries of an object."""
    text = at(old, record.ANNOTATION)
    if at(root, ANNOTATIONS) is None:
        return [{"op": "add", "path": pointer(ANNOTATIONS), "value": {names.RETRY_HISTORY: text}}]
    return [{"op": "add", "path": pointer(record.ANNOTATION), "value": text}]


def take_off(root: Json, *paths: Path) -> list[Json]:
    """Return the JSON Patch that takes some fields off an object that has them."""
    return [{"op": "remove", "path": pointer(path)} for path in paths if at(root, path) is not None]
