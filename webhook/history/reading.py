"""Reads records from files and folders of NDJSON, and from lines of the server's log.

Memory is bounded by MOST records, and by LONGEST_LINE bytes of a line, which is skipped if it is longer.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from sys import intern
from typing import BinaryIO, Final

import msgspec
from msgspec.structs import force_setattr, replace

from webhook.history.record import LONGEST, AttemptRecord, Record, WorkloadRecord, decode

LONGEST_LINE: Final = 2 * LONGEST  # bytes: a record, and what a log has beside it
MOST: Final = 1_000_000  # records that are kept
MOST_BYTES: Final = 64 * 2**30  # of all files, decompressed
LISTED: Final = 5  # bad lines that are told one by one
ENDINGS: Final = (".ndjson", ".jsonl", ".log", ".gz")  # of the files in a folder
DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile)  # a compressed file that was cut off, for example
TIME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
STDIN: Final = "-"
EVENT: Final = "history"  # of the server's log lines that hold a record
# Fields whose values many records share: one object for all of them.
SHARED: Final = (
    *("namespace", "profile", "kind", "workload", "workload_uid", "owner", "job", "scope", "node", "zone"),
    *("capacity", "placement", "cause", "reason", "cost", "currency"),
)


class Line(msgspec.Struct):
    """A line of a program's output; with the event `history` it has a record, or the fields of one beside the event.

    `http`: of the first line, which has the addresses of the program.
    """

    event: str = ""
    http: str = ""
    record: msgspec.Raw = msgspec.Raw()


log_line: Final = msgspec.json.Decoder(Line)


class NoHistoryError(Exception):
    """The history cannot be read; the message says which file, why, and what to do."""


@dataclass(slots=True)
class History:
    """Records by uid, the last one of each; `bad`: how many lines were skipped; `problems`: sentences about the first.

    `workloads`: by the uid of the workload.
    """

    attempts: dict[str, AttemptRecord] = field(default_factory=dict)
    workloads: dict[str, WorkloadRecord] = field(default_factory=dict)
    bad: int = 0
    problems: list[str] = field(default_factory=list)
    shared: dict[str, dict[str, object]] = field(default_factory=dict)
    size: int = 0  # bytes that were read

    def count(self, line: bytes) -> None:
        """Count the bytes of a line; raise UnreadableError at more than MOST_BYTES."""
        self.size += len(line)
        if self.size > MOST_BYTES:
            raise NoHistoryError(f"the files have more than {MOST_BYTES // 2**30} GiB; name fewer with --history")

    def add(self, found: Record) -> None:
        """Add a record, in place of an earlier one about the same uid; raise UnreadableError at more than MOST."""
        if isinstance(found, WorkloadRecord):
            self.workloads[found.workload_uid] = found
        else:
            self.share(found)
            self.attempts[found.uid] = _known(found, self.attempts.get(found.uid))
        if len(self.attempts) + len(self.workloads) > MOST:
            raise NoHistoryError(
                f"more than {MOST:,} records are asked for; ask for less with --since, -n or --profile"
            )

    def share(self, found: AttemptRecord) -> None:
        """Let a record share equal texts and amounts with the others."""
        for name in SHARED:
            force_setattr(found, name, intern(getattr(found, name)))
        for name in ("resources", "labels"):
            value = getattr(found, name)
            kept = self.shared.setdefault(name, {})
            if len(kept) < MOST // 10:
                force_setattr(found, name, kept.setdefault(str(value), value))

    def skip(self, file: str, number: int, why: str) -> None:
        """Count a line that cannot be used, and say why if it is one of the first."""
        self.bad += 1
        if self.bad <= LISTED:
            self.problems.append(f"{file}:{number}: {why}")


def _known(found: AttemptRecord, before: AttemptRecord | None) -> AttemptRecord:
    """Return a record with what an earlier one about the same pod says of its node, if this one does not know it.

    A replica that began after the node was gone writes the pod again once it leads.
    """
    if before is None or found.capacity or not before.capacity:
        return found
    return replace(
        found,
        zone=found.zone or before.zone,
        capacity=before.capacity,
        labels=before.labels,
        price=before.price,
        currency=before.currency,
    )


def read(
    paths: Iterable[str], stdin: BinaryIO, wanted: Callable[[Record], bool], progress: Callable[[str], None]
) -> History:
    """Return the wanted records in files and folders, or in `stdin` for `-`; raise UnreadableError.

    Files are read in the order given, those of a folder by the time in their names. `progress` is called with what is
    being read.
    """
    history = History()
    for path in paths:
        for name, opened in _files(path, stdin):
            number = 0
            try:
                for number, line in enumerate(_lines(opened(), history), start=1):
                    if not number % 1000:
                        progress(f"{name}: line {number:,}")
                    _add_line(history, name, number, line, wanted)
            except DAMAGED as error:
                history.skip(name, number + 1, f"the file is damaged from here on: {error}")
            except OSError as error:
                raise NoHistoryError(
                    f"{name}: cannot be read: {error.strerror or error}; name another with --history"
                ) from None
    return history


def _add_line(history: History, name: str, number: int, line: bytes | None, wanted: Callable[[Record], bool]) -> None:
    """Add the record of a line if it is wanted; None stands for a line that is too long."""
    if line is None:
        history.skip(name, number, f"longer than {LONGEST_LINE:,} bytes")
        return
    if not line.strip():
        return
    try:
        found = _record_in(line)
    except ValueError as error:  # also msgspec's, and that of invalid UTF-8
        history.skip(name, number, f"is no record: {error}")
        return
    if found is not None and wanted(found):
        history.add(found)


def _record_in(line: bytes) -> Record | None:
    """Return the record in a line; None for a line of the log without one; raise ValueError if it has neither."""
    try:
        return decode(line, LONGEST_LINE)
    except ValueError:
        try:
            logged = log_line.decode(line)
        except ValueError:
            logged = None
        if logged is None or not (logged.event or logged.http) or (logged.event == EVENT and not bytes(logged.record)):
            raise
        return decode(bytes(logged.record)) if logged.event == EVENT else None


def _files(path: str, stdin: BinaryIO) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """Yield the name of each file that a path means, and a function that opens it; raise UnreadableError."""
    if path == STDIN:
        yield "standard input", lambda: stdin
        return
    named = Path(path)
    try:
        found = [named]
        if named.is_dir():
            found = sorted((one for one in named.iterdir() if one.suffix in ENDINGS), key=_by_time)
    except OSError as error:
        raise NoHistoryError(
            f"{path}: cannot be read: {error.strerror or error}; name another with --history"
        ) from None
    if not found:
        raise NoHistoryError(f"{path}: has no file that ends with {', '.join(ENDINGS)}; name another with --history")
    for one in found:
        yield str(one), partial(gzip.open, one, "rb") if one.suffix == ".gz" else partial(one.open, "rb")  # type: ignore[misc]


def _by_time(path: Path) -> tuple[str, str]:
    found = TIME.search(path.name)
    return found[0] if found else "", path.name


def _lines(opened: BinaryIO, history: History) -> Iterator[bytes | None]:
    """Yield the lines of a file, None for one that is too long, and close it; raise UnreadableError at MOST_BYTES."""
    with opened:
        while line := opened.readline(LONGEST_LINE + 1):
            history.count(line)
            if len(line) <= LONGEST_LINE:
                yield line
                continue
            while line and not line.endswith(b"\n"):
                line = opened.readline(LONGEST_LINE)
                history.count(line)
            yield None
