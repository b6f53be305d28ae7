"""Makes the workloads of a report of records. Pure."""

from collections.abc import Callable

from webhook.history.reading import History
from webhook.history.record import Record, WorkloadRecord
from webhook.insight.report.known import Known, Window


def wanted(window: Window, namespace: str | None, profile: str | None) -> Callable[[Record], bool]:
    """Return whether a record is for the report.

    Of workloads also those that ended outside the window, because their attempts may be in it.
    """

    def is_wanted(record: Record) -> bool:
        if namespace not in {None, record.namespace} or profile not in {None, record.profile}:
            return False
        return isinstance(record, WorkloadRecord) or window.has(record.end)

    return is_wanted


def workloads(history: History, window: Window) -> list[Known]:
    """Return the workloads that have attempts, or ended, in the window."""
    found: dict[str, Known] = {}
    for attempt in history.attempts.values():
        # A JobSet that was gone when the record was written has no uid.
        key = attempt.workload_uid or f"{attempt.namespace}/{attempt.kind}/{attempt.workload}"
        known = found.get(key)
        if known is None:
            known = found[key] = Known(
                namespace=attempt.namespace,
                kind=attempt.kind,
                name=attempt.workload,
                uid=key,
                profile=attempt.profile,
                owner=attempt.owner,
            )
        known.attempts.append(attempt)
    for uid, record in history.workloads.items():
        if uid not in found and window.has(record.end):
            found[uid] = Known(namespace=record.namespace, kind=record.kind, name=record.workload, uid=uid)
        if (known := found.get(uid)) is not None:
            known.profile, known.owner = record.profile, record.owner
            known.state, known.reason = record.outcome, record.reason
            known.created, known.end, known.per_index = record.created, record.end, record.per_index
    return list(found.values())
