"""The records that the server wrote during a week: set to simulated time, compared with the witness's; the goodput."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tests.bench.week.policies import FASTER, HOUR
from tests.bench.week.records import MONDAY, time_of
from webhook.history.reading import History
from webhook.history.record import AttemptRecord, Record, decode
from webhook.insight.report.build import About, build
from webhook.insight.report.known import Window, recorded
from webhook.insight.report.sums import unpriced

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILES = "history-*.ndjson"
ALIKE = ("cause", "reason", "cost", "scope", "attempt", "node", "zone", "capacity", "placement", "on_failure")


def server_records(folder: Path, begin: datetime) -> list[Record]:
    """Return what the server wrote into a folder, in simulated time; `begin`: when the week began.

    Of several records of one object the last one counts.
    """
    lines = (line for file in sorted(folder.glob(FILES)) for line in file.read_bytes().splitlines())
    found = {uid_of(record): simulated(record, begin) for record in map(decode, lines)}
    return sorted(found.values(), key=lambda record: record.end)


def uid_of(record: Record) -> str:
    return record.uid if isinstance(record, AttemptRecord) else record.workload_uid


def simulated(record: Record, begin: datetime) -> Record:
    """Return a record of the run in simulated time, of the profile `default`."""
    changes: dict[str, Any] = {"profile": "default"}
    for name in ("created", "start", "end"):
        if text := getattr(record, name, ""):
            changes[name] = time_of((datetime.fromisoformat(text) - begin).total_seconds() / HOUR)
    if isinstance(record, AttemptRecord):
        changes["seconds"] = record.seconds * FASTER
    return msgspec.structs.replace(record, **changes)


def goodput_of(found: list[Record]) -> float:
    """Return which share of the seconds that pods had went into work that counts, as `report` has it."""
    about = About("history", "All namespaces", Window(), MONDAY.timestamp())
    history = History()
    for record in found:
        history.add(record)
    total = build(recorded(history, Window()), about, unpriced).total
    return (total.used.seconds - total.lost.seconds + total.kept.seconds) / total.used.seconds


def differences(own: Iterable[Record], written: Iterable[Record]) -> dict[str, float]:
    """Return in how many records the server and the witness differ, by field; and the seconds and money of both.

    Only attempts that a kubelet took are compared, and the names of workloads that ended.
    """
    ours, theirs = ({uid_of(one): one for one in some if _counts(one)} for some in (own, written))
    found: Counter[str] = Counter(
        {"only the witness": len(ours.keys() - theirs), "only the server": len(theirs.keys() - ours)}
    )
    for uid in ours.keys() & theirs:
        one, other = ours[uid], theirs[uid]
        names = ALIKE if isinstance(one, AttemptRecord) else ("outcome", "reason", "retries", "indexed", "completions")
        found.update(name for name in names if getattr(one, name) != getattr(other, name))
    sums: dict[str, float] = dict(found)
    for who, some in (("witness", ours), ("server", theirs)):
        attempts = [one for one in some.values() if isinstance(one, AttemptRecord)]
        sums[f"seconds of the {who}"] = round(sum(one.seconds for one in attempts))
        sums[f"money of the {who}"] = round(sum(one.price or 0 for one in attempts), 2)
    return {"both": len(ours.keys() & theirs), **sums}


def _counts(record: Record) -> bool:
    return not isinstance(record, AttemptRecord) or bool(record.start)
