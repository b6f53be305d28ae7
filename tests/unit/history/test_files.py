"""Records in files of a folder: rotated, bounded, and whole."""

import asyncio
import os
import stat
import time
from pathlib import Path

import pytest

from webhook.history import sinks
from webhook.history.sinks import KEPT, FileSink

NOW = 1_800_000_000.0


def written(sink: FileSink, *lines: bytes) -> None:
    asyncio.run(sink.write([*lines]))


def texts(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("*"), key=lambda path: path.stat().st_mtime_ns)]


def test_lines_are_appended_to_a_file_of_the_replica(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    sink = FileSink(folder, "pod-a", lambda: NOW)
    written(sink, b"1", b"2")
    written(sink, b"3")
    (path,) = folder.iterdir()
    assert path.name == "history-pod-a-20270115T080000Z-1.ndjson"
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode) & ~0o640) == (b"1\n2\n3\n", 0)


def test_two_replicas_and_a_restart_write_files_of_their_own(tmp_path: Path) -> None:
    for sink in (FileSink(tmp_path, name) for name in ("a", "b", "a")):
        written(sink, b"1")
    assert len(list(tmp_path.iterdir())) == 3


def test_a_large_file_is_closed_and_another_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "LARGEST_FILE", 3)
    sink = FileSink(tmp_path, "a")
    for line in (b"1", b"2", b"3"):
        written(sink, line)
    assert sorted(texts(tmp_path)) == [b"1\n2\n", b"3\n"]


def test_the_oldest_files_are_deleted_when_all_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "LARGEST_FILE", 10)
    monkeypatch.setattr(sinks, "LARGEST_FOLDER", 45)
    for number in range(5):
        old = tmp_path / f"history-old-{number}.ndjson"
        old.write_bytes(b"x" * 10)
        os.utime(old, (NOW - 100 + number, NOW - 100 + number))
    other = tmp_path / "notes.txt"
    other.write_bytes(b"x" * 100)
    written(FileSink(tmp_path, "a", lambda: NOW), b"1")
    assert sorted(path.name for path in tmp_path.glob("history-old-*")) == [
        f"history-old-{number}.ndjson" for number in (2, 3, 4)
    ]
    assert other.exists()


def test_a_file_is_deleted_thirty_days_after_its_last_line(tmp_path: Path) -> None:
    for name, age in (("old", KEPT + 1), ("young", KEPT - 1)):
        path = tmp_path / f"history-{name}.ndjson"
        path.write_bytes(b"x\n")
        os.utime(path, (NOW - age, NOW - age))
    written(FileSink(tmp_path, "a", lambda: NOW), b"1")
    assert [path.name for path in tmp_path.glob("history-[oy]*")] == ["history-young.ndjson"]


def test_a_full_disk_leaves_no_half_line_and_the_next_try_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(tmp_path, "a")
    written(sink, b"1")
    write = os.write

    def half(opened: int, text: bytes) -> int:
        if len(text) < 6:
            raise OSError(28, "No space left on device")
        return write(opened, text[:3])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        written(sink, b"23456")
    monkeypatch.setattr(os, "write", write)
    written(sink, b"23456")
    assert sorted(texts(tmp_path)) == [b"1\n", b"23456\n"]


def test_on_a_full_disk_the_oldest_file_gives_way_and_no_empty_one_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, newer = tmp_path / "history-b-1.ndjson", tmp_path / "history-b-2.ndjson"
    for age, path in ((2000, oldest), (1000, newer)):
        path.write_bytes(b"old\n")
        os.utime(path, (time.time() - age, time.time() - age))
    sink = FileSink(tmp_path, "a")

    def full(_: int, __: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            written(sink, b"1")
    assert [*tmp_path.iterdir()] == [newer]
    written(sink, b"1")
    assert sorted(texts(tmp_path)) == [b"1\n", b"old\n"]


def test_an_error_on_closing_a_file_does_not_reach_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(tmp_path, "a")
    written(sink, b"1")
    close = os.close

    def broken(opened: int) -> None:
        close(opened)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", broken)
        with pytest.raises(OSError, match="Input/output"):
            sink.close()
    written(sink, b"2")
    assert sorted(texts(tmp_path)) == [b"1\n", b"2\n"]


def test_a_folder_that_cannot_be_made_is_an_error_each_time(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "no" / "parent", "a")
    for _ in range(2):
        with pytest.raises(OSError, match="No such file"):
            written(sink, b"1")
    (tmp_path / "no").mkdir()
    written(sink, b"1")
    assert texts(tmp_path / "no" / "parent") == [b"1\n"]


def test_a_file_that_somebody_deletes_is_begun_anew(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, "a")
    written(sink, b"1")
    for path in tmp_path.iterdir():
        path.unlink()
    written(sink, b"2")
    assert texts(tmp_path) == [b"2\n"]
