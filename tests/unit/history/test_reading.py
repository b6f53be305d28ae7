"""Records are read from files, folders and logs; what is no record is named, and nothing is read without a bound."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.insight.report.facts import at, attempt, ended
from webhook.history import reading
from webhook.history.reading import LONGEST_LINE, History, NoHistoryError
from webhook.history.record import Record, encode

LINE = encode(attempt())
FIELDS = json.loads(LINE)


def read(*paths: Path | str, stdin: bytes = b"") -> History:
    return reading.read([str(path) for path in paths], io.BytesIO(stdin), lambda _: True, lambda _: None)


def of_lines(*lines: bytes) -> History:
    return read("-", stdin=b"\n".join(lines) + b"\n")


def test_attempts_and_workloads_are_read_from_lines() -> None:
    found = of_lines(LINE, encode(ended("Failed", reason="BackoffLimitExceeded")))
    assert list(found.attempts.values()) == [attempt()]
    assert [one.reason for one in found.workloads.values()] == ["BackoffLimitExceeded"]
    assert (found.bad, found.problems) == (0, [])


@pytest.mark.parametrize(
    "logged",
    [
        {"event": "history", "level": "info", "timestamp": "2026-11-16T10:00:00Z", **FIELDS},
        {"event": "history", "level": "info", "timestamp": "2026-11-16T10:00:00Z", "record": FIELDS},
    ],
)
def test_a_line_of_the_servers_log_has_the_record_beside_the_event_or_in_a_field(logged: dict[str, Any]) -> None:
    found = of_lines(json.dumps(logged).encode())
    assert list(found.attempts.values()) == [attempt()]


def test_lines_of_the_log_about_something_else_are_passed_over_in_silence() -> None:
    addresses = b'{"https":null,"http":"http://127.0.0.1:8080","ca":null}'  # the only line on stdout
    found = of_lines(addresses, b'{"event": "listening", "level": "info", "port": 8443}', b"", LINE)
    assert (len(found.attempts), found.bad) == (1, 0)


def test_the_last_record_of_an_attempt_stands() -> None:
    found = of_lines(encode(attempt("ExitCode", cost="retry")), encode(attempt("ExitCode", cost="fatal", settled=True)))
    assert [(one.cost, one.settled) for one in found.attempts.values()] == [("fatal", True)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"Traceback (most recent call last):", "is no record: JSON is malformed"),
        (b'{"type": "Attempt"}', "is no record: Object missing required field `version`"),
        (LINE.replace(b'"version":1', b'"version":2'), "version 2 of the record is not known; this program reads 1"),
        (LINE.replace(b'"version":1', b'"version":"1"'), "is no record: Expected `int`"),
        (b'{"event": "history", "record": {"type": "Attempt"}}', "is no record: Object missing required field"),
        (b'{"event": "history"}', "is no record"),
        (b'{"type": "Attempt", "\xff": 1}', "is no record"),
        (b"[" * (LONGEST_LINE - 1), "is no record"),
        (b"x" * (LONGEST_LINE + 1), f"longer than {LONGEST_LINE:,} bytes"),
        (b"x" * (5 * LONGEST_LINE), f"longer than {LONGEST_LINE:,} bytes"),
    ],
)
def test_a_line_that_is_no_record_is_counted_and_named_and_the_others_are_read(line: bytes, why: str) -> None:
    found = of_lines(LINE, line, encode(attempt(number=2)))
    assert (len(found.attempts), found.bad) == (2, 1)
    assert found.problems[0].startswith("standard input:2: ")
    assert why in found.problems[0]


def test_of_many_bad_lines_only_the_first_are_named() -> None:
    found = of_lines(*[b"x"] * 1000)
    assert (found.bad, len(found.problems)) == (1000, reading.LISTED)


def test_a_folder_is_read_in_the_order_of_the_times_in_the_names_and_other_files_in_it_are_not(tmp_path: Path) -> None:
    later = tmp_path / "history-a-20261117T000000Z-1.ndjson"
    later.write_bytes(encode(attempt("ExitCode", cost="fatal")) + b"\n")
    (tmp_path / "history-b-20261116T000000Z-1.ndjson.gz").write_bytes(
        gzip.compress(encode(attempt("ExitCode", cost="retry")))
    )
    (tmp_path / "README.md").write_text("not a record\n")
    found = read(tmp_path)
    assert [one.cost for one in found.attempts.values()] == ["fatal"]
    assert found.bad == 0


def test_a_compressed_file_that_was_cut_off_gives_what_is_before_the_cut(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(encode(attempt(number=number)) + b"\n" for number in range(2000)))
    (tmp_path / "cut.ndjson.gz").write_bytes(whole[: len(whole) // 2])
    found = read(tmp_path / "cut.ndjson.gz")
    assert 0 < len(found.attempts) < 2000
    assert "the file is damaged from here on" in found.problems[0]


@pytest.mark.parametrize("name", ["missing", "empty", "secret.ndjson"])
def test_a_path_that_cannot_be_read_is_named_with_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "secret.ndjson").touch()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # the tests may run as root
    with pytest.raises(NoHistoryError, match=rf"{name}.*; name another with --history"):
        read(tmp_path / name)


def test_records_beyond_the_bound_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST", 3)
    lines = [encode(attempt(number=number)) for number in range(4)]
    assert len(of_lines(*lines[:3]).attempts) == 3
    with pytest.raises(NoHistoryError, match="more than 3 records are asked for; ask for less with --since"):
        of_lines(*lines)


def test_bytes_beyond_the_bound_are_refused_also_those_of_one_endless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 100_000)
    with pytest.raises(NoHistoryError, match="name fewer with --history"):
        of_lines(b"x" * 200_000)


def test_records_that_are_not_wanted_take_no_memory() -> None:
    def wanted(record: Record) -> bool:
        return record.namespace == "etl"

    lines = b"\n".join(encode(attempt(number=number, end=number)) for number in range(100))
    found = reading.read(["-"], io.BytesIO(lines), wanted, lambda _: None)
    assert (found.attempts, found.shared) == ({}, {})


def test_equal_values_of_records_are_the_same_object() -> None:
    found = of_lines(encode(attempt(number=1, node="spot-1")), encode(attempt(number=2, node="spot-1", end=11)))
    first, second = found.attempts.values()
    assert first.node is second.node
    assert first.resources is second.resources
    assert (first.end, second.end) == (at(10), at(11))


def test_a_later_record_of_a_replica_that_did_not_know_the_node_keeps_what_an_earlier_one_says_of_it() -> None:
    first = attempt("ExitCode", zone="z1", capacity="Spot", price=2.0, currency="USD")
    again = attempt("ExitCode", cost="fatal", settled=True, zone="", capacity="", price=None, currency="")
    (found,) = of_lines(encode(first), encode(again)).attempts.values()
    assert (found.zone, found.capacity, found.price, found.currency) == ("z1", "Spot", 2.0, "USD")
    assert (found.cost, found.settled) == ("fatal", True)
