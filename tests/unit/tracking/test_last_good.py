"""The last good policy of a pod, in a file for its next container."""

import errno
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from webhook.tracking.policy_source import LAST_GOOD, LastGood


def test_the_next_container_reads_the_last_policy_that_was_written(tmp_path: Path) -> None:
    last_good = LastGood(tmp_path)
    assert last_good.read() is None
    for text in ("profiles: {a: {}}\n", "profiles: {ü: {}}\n"):
        last_good.write(text)
        assert LastGood(tmp_path).read() == text
    assert [file.name for file in tmp_path.iterdir()] == [LAST_GOOD]
    assert (tmp_path / LAST_GOOD).stat().st_mode & 0o777 == 0o600


def test_a_container_that_is_killed_while_it_writes_leaves_the_former_policy(tmp_path: Path) -> None:
    last_good = LastGood(tmp_path)
    last_good.write("before")
    last_good.file.with_suffix(".new").write_text("ha")
    assert last_good.read() == "before"
    last_good.write("after")
    assert last_good.read() == "after"


def test_a_symlink_and_a_file_of_another_user_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("of another")
    last_good = LastGood(tmp_path)
    last_good.file.symlink_to(elsewhere)
    assert last_good.read() is None
    last_good.write("own")
    assert (last_good.read(), elsewhere.read_text()) == ("own", "of another")
    monkeypatch.setattr(os, "getuid", lambda: -1)
    assert last_good.read() is None


def test_a_file_that_is_no_text_is_not_read(tmp_path: Path) -> None:
    (tmp_path / LAST_GOOD).write_bytes(b"\xff")
    assert LastGood(tmp_path).read() is None


def test_a_policy_for_which_there_is_no_space_leaves_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LastGood(tmp_path).write("first")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with capture_logs():
        LastGood(tmp_path).write("second")
    assert [file.name for file in tmp_path.iterdir()] == [LAST_GOOD]
    assert LastGood(tmp_path).read() == "first"


def test_a_policy_that_cannot_be_written_is_logged(tmp_path: Path) -> None:
    with capture_logs() as lines:
        LastGood(tmp_path / "absent").write("text")
    assert [line["event"] for line in lines] == ["last good policy not kept"]
