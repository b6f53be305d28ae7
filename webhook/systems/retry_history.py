"""What the retry history of a workload says of each requested retry that others than its executor need.

The executor writes the annotation (webhook/retry/record.py). Admission lets it change once the workload has failed.
"""

from typing import Annotated, Final

import msgspec

from webhook.kube import names
from webhook.objects.problem import Json

LONGEST: Final = 64 * 1024  # characters of the annotation that are read
MOST: Final = 10

Text = Annotated[str, msgspec.Meta(max_length=256)]


class Retried(msgspec.Struct, frozen=True):
    """One requested retry: when it was requested, RFC 3339, and the run that was to run again."""

    at: Text = ""
    of: Text = ""


decoder: Final = msgspec.json.Decoder(Annotated[list[Retried], msgspec.Meta(max_length=MOST)])


def read(text: str | None) -> list[Retried]:
    """Return the requested retries in the annotation, oldest first; none if it is absent or malformed."""
    if text is None or len(text) > LONGEST:
        return []
    try:
        found: list[Retried] = decoder.decode(text)
    except (ValueError, RecursionError):
        return []
    return found


def last_at(root: Json) -> str:
    """Return when the last retry of a workload was requested; empty if none was."""
    found = read((root["metadata"].get("annotations") or {}).get(names.RETRY_HISTORY))
    return found[-1].at if found else ""


def shortened(text: str) -> str:
    """Return the annotation with no more than `read` takes from it."""
    return msgspec.json.encode(read(text)).decode()
