"""The wall clock, which functions get as a parameter so that tests can replace it."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)
