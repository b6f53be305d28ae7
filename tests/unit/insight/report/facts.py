"""Records and workloads for the tests of a report."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from webhook.history.record import VERSION, AttemptRecord, WorkloadRecord
from webhook.insight.report.build import About, build
from webhook.insight.report.known import Known, Price, PriceOf, Window
from webhook.insight.report.model import Report
from webhook.insight.report.sums import unpriced

MONDAY: Final = datetime(2026, 11, 16, tzinfo=UTC)
HOUR: Final = 3600.0
GIB: Final = 2**30


def at(hours: float) -> str:
    """Return the time so many hours after Monday, 00:00."""
    return (MONDAY + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")


def attempt(cause: str = "Succeeded", *, hours: float = 1.0, end: float = 10.0, **fields: Any) -> AttemptRecord:
    """Return an attempt of `ml/train` that took some hours and ended so many hours after Monday, 00:00."""
    number = fields.pop("number", 0)
    known: dict[str, Any] = {
        "version": VERSION,
        "namespace": "ml",
        "profile": "default",
        "kind": "Job",
        "workload": "train",
        "workload_uid": f"uid-of-{fields.get('workload', 'train')}",
        "uid": f"uid-{number}",
        "pod": f"train-{number}",
        "start": at(end - hours),
        "end": at(end),
        "seconds": hours * HOUR,
        "cause": cause,
        "resources": {"cpu": 4.0, "memory": 8.0 * GIB},
    }
    return AttemptRecord(**{**known, **fields})


def ended(outcome: str = "Complete", **fields: Any) -> WorkloadRecord:
    """Return the record of the end of `ml/train`."""
    known: dict[str, Any] = {
        "version": VERSION,
        "namespace": "ml",
        "profile": "default",
        "kind": "Job",
        "workload": "train",
        "workload_uid": f"uid-of-{fields.get('workload', 'train')}",
        "created": at(0),
        "end": at(12),
        "outcome": outcome,
    }
    return WorkloadRecord(**{**known, **fields})


def workload(*attempts: AttemptRecord, name: str = "train", **fields: Any) -> Known:
    """Return a workload of the namespace ml with these attempts."""
    known: dict[str, Any] = {"namespace": "ml", "kind": "Job", "name": name, "uid": f"uid-of-{name}"}
    return Known(**{**known, "profile": "default", "attempts": [*attempts], **fields})


def a_dollar_an_hour(record: AttemptRecord) -> Price:
    """Return a price: an hour costs a dollar on-demand, and a quarter on spot."""
    paid = record.seconds / HOUR * (0.25 if record.capacity == "Spot" else 1.0)
    return Price(paid, record.seconds / HOUR)


def reported(*known: Known, price_of: PriceOf = unpriced, window: Window | None = None, now: float = 24) -> Report:
    """Return the report of these workloads, written so many hours after Monday, 00:00."""
    about = About("history", "All namespaces", window or Window(), MONDAY.timestamp() + now * HOUR)
    if price_of is not unpriced:
        about = about._replace(priced=True, currency="USD")
    return build(known, about, price_of)
