"""Times of the API: RFC 3339 with a zone, in years that a cluster can have. Any other text is none; nothing is raised.

A naive time would be taken for one of this machine's zone, and one near the year 1 or 9999 has no neighbours.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

LONGEST: Final = 64  # characters
LAST: Final = 253402300799  # the last second of the year 9999, in seconds since 1970
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)


def time_of(text: object) -> datetime | None:
    """Return the time in a text, in UTC; None if it is no text, no time, without a zone, or out of bounds."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo is not None and EARLIEST <= found <= LATEST else None
    except (ValueError, OverflowError):
        return None


def seconds(text: object) -> float | None:
    """Return the time in a text in seconds since 1970; None as `time_of`."""
    found = time_of(text)
    return None if found is None else found.timestamp()


def written(time: float) -> str:
    """Return a time in seconds since 1970 as the API writes it; the nearest from 1970 to 9999."""
    return datetime.fromtimestamp(min(max(0, int(time)), LAST), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def between(start: str, end: str) -> float:
    """Return the seconds from one time to another, never less than 0; 0 if one of them is none."""
    first, last = seconds(start), seconds(end)
    return 0.0 if first is None or last is None else max(0.0, last - first)


def shifted(text: str, by: float) -> str:
    """Return the time `by` seconds after that in a text, RFC 3339; empty if that, or the result, is none."""
    found = time_of(text)
    if found is None or not abs(by) <= (LATEST - EARLIEST).total_seconds():  # nor if it is not a number
        return ""
    moved = found + timedelta(seconds=by)
    return moved.isoformat().replace("+00:00", "Z") if EARLIEST <= moved <= LATEST else ""
