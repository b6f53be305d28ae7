"""The form of log lines, in a separate process because logging is configured per process; and their number."""

import json
import subprocess
import sys

import pytest

from tests.awaiting import LONGEST
from webhook.program.logs import LINES, NAMESPACE_LINES, PERIOD, LogLines

PROGRAM = """
import structlog
from webhook.program import logs

def read(password):
    raise ValueError("cannot be read")

logs.to_stderr()
log = structlog.get_logger()
log.debug("too much")
try:
    read("hunter2")
except ValueError:
    log.exception("failed", namespace="ml\\nx")
"""


def test_a_line_is_one_json_object_and_an_exception_shows_no_values_of_its_frames() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, timeout=LONGEST, text=True)
    (line,) = done.stderr.splitlines()
    said = json.loads(line)
    assert (said["event"], said["level"], said["namespace"]) == ("failed", "error", "ml\nx")
    assert said["exception"][0]["exc_value"] == "cannot be read"
    assert "hunter2" not in line.replace('read(\\"hunter2\\")', "")
    assert done.stdout == ""


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_the_same_line_is_written_once_in_a_period() -> None:
    clock = Clock()
    lines = LogLines(clock)
    assert [lines.has_room("ml", name) for name in ("a", "b", "a", "b")] == [True, True, False, False]
    assert lines.has_room("team", "a")
    clock.seconds += PERIOD
    assert lines.has_room("ml", "a")


def test_one_namespace_does_not_use_up_the_lines_of_others() -> None:
    lines = LogLines(Clock())
    assert [lines.has_room("hostile", number) for number in range(1000)].count(True) == NAMESPACE_LINES
    assert lines.has_room("ml", "a")


def test_the_lines_of_all_namespaces_and_the_memory_for_them_are_limited() -> None:
    lines = LogLines(Clock())
    found = [lines.has_room(f"team-{number}", "a") for number in range(10_000)]
    assert found.count(True) == LINES
    assert len(lines.written) == len(lines.of_namespace) == LINES


def test_the_number_of_lines_that_were_left_out_is_logged_in_the_next_period(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    lines = LogLines(clock)
    for number in range(NAMESPACE_LINES + 7):
        lines.has_room("ml", number)
        lines.has_room("ml", 0)  # not counted as left out, because it was written
    assert "left out" not in capsys.readouterr().out
    clock.seconds += PERIOD
    lines.has_room("ml", "a")
    assert "lines=7" in capsys.readouterr().out
    clock.seconds += PERIOD
    lines.has_room("ml", "a")
    assert "left out" not in capsys.readouterr().out
