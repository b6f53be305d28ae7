"""What ended pods used, as a watch of the test's own saw it: to compare with accounts and with records of history."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from webhook.history.record import AttemptRecord, Capacity, Record, WorkloadRecord, decode
from webhook.history.usage import Rows, UsedRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

JOB_NAME = "batch.kubernetes.io/job-name"


@dataclass(frozen=True)
class Ended:
    """A pod that failed: its seconds, and the node on which it ran."""

    uid: str
    node: str
    seconds: float


@dataclass
class EndedPods:
    """The pods that failed, by Job and uid, with their first state after that."""

    failed: dict[str, dict[str, Ended]] = field(default_factory=lambda: defaultdict(dict))

    def see(self, pod: dict[str, Any]) -> None:
        metadata, status = pod["metadata"], pod.get("status") or {}
        job = (metadata.get("labels") or {}).get(JOB_NAME)
        if job is None or status.get("phase") != "Failed" or metadata["uid"] in self.failed[job]:
            return
        start, end = status.get("startTime"), end_of(status)
        seconds = 0.0 if start is None or end is None else (time_of(end) - time_of(start)).total_seconds()
        self.failed[job][metadata["uid"]] = Ended(metadata["uid"], pod["spec"].get("nodeName", ""), max(0.0, seconds))

    def rows(self, job: str, capacity_of: Callable[[str], Capacity], **of_hour: float) -> Rows:
        """Return what an account must say was lost to disruptions, for pods of one core and half a GiB.

        `of_hour`: the price of a core by capacity.
        """
        found: dict[str, UsedRow] = {}
        for one in self.failed[job].values():
            capacity = capacity_of(one.node)
            row = found.setdefault(capacity, UsedRow(resources=[0.0, 0.0]))
            price = one.seconds * of_hour[capacity] / 3600
            row.add(UsedRow(1, one.seconds, 1, price, [one.seconds, one.seconds / 2]))
        for row in found.values():
            row.resources = row.resources if row.seconds else []
        return {"Disruption": found} if found else {}


def end_of(status: dict[str, Any]) -> str | None:
    """Return when the last container ended, or else when the platform disrupted the pod."""
    containers = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    states = [one["state"]["terminated"] for one in containers if "terminated" in (one.get("state") or {})]
    disrupted = [one for one in status.get("conditions") or () if one["type"] == "DisruptionTarget"]
    times = [one["finishedAt"] for one in states] or [one.get("lastTransitionTime") for one in disrupted]
    return max((time for time in times if time), default=None)


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text)


def records_in(logs: Iterable[Path]) -> dict[str, Record]:
    """Return the records in logs of servers, the last of each uid."""
    lines = [line for log in logs for line in log.read_text().splitlines() if '"event": "history"' in line]
    found: dict[str, Record] = {}
    for line in sorted(lines, key=lambda line: str(json.loads(line)["timestamp"])):
        record = decode(line)
        found[record.uid if isinstance(record, AttemptRecord) else f"workload/{record.workload_uid}"] = record
    return found


def workloads_in(records: dict[str, Record]) -> dict[str, WorkloadRecord]:
    """Return the records of workloads, by name."""
    return {one.workload: one for one in records.values() if isinstance(one, WorkloadRecord)}
