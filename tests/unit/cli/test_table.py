"""Tables and lines: plain in a pipe, coloured and as wide as it is on a terminal."""

import os
import pty
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import yaml
from click.testing import CliRunner

from tests.objects import job, job_spec
from webhook.cli import terminal
from webhook.cli.main import main
from webhook.objects.columns import Part

PARTS: Final[list[Part]] = [
    "Job ml/train: Failed: BackoffLimitExceeded",
    [("VERDICT", "OBJECT", "WHAT"), ("DENIED", "ml/job/[bold]x[/bold]", "too many :smile: \x1b[31m retries")],
    "",
    "1 object",
]
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_in_a_pipe_it_is_plain_and_rich_is_not_imported(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show(PARTS)
    assert capsys.readouterr().out.splitlines() == [
        "Job ml/train: Failed: BackoffLimitExceeded",
        "VERDICT   OBJECT                  WHAT",
        r"DENIED    ml/job/[bold]x[/bold]   too many :smile: \x1b[31m retries",
        "",
        "1 object",
    ]


@pytest.mark.usefixtures("for_people")
def test_states_are_coloured_and_texts_of_others_are_neither_markup_nor_control_sequences(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    terminal.show(PARTS)
    out = capsys.readouterr().out
    assert "\x1b[1;31mDENIED" in out
    assert "\x1b[1;31mFailed: BackoffLimitExceeded\x1b[0m" in out
    plain = [line.rstrip() for line in COLOUR.sub("", out).splitlines()]
    assert "\x1b" not in "".join(plain)
    assert plain[2] == r"DENIED   ml/job/[bold]x[/bold]  too many :smile: \x1b[31m retries"


@pytest.mark.usefixtures("for_people")
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_table_is_as_wide_as_the_terminal_at_most_and_loses_no_text(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    words = [f"word{number}" for number in range(60)]
    terminal.show([[("VERDICT", "WHAT"), ("DENIED", " ".join(words))]])
    lines = COLOUR.sub("", capsys.readouterr().out).splitlines()
    assert all(len(line) <= width for line in lines)
    assert " ".join(lines).split() == ["VERDICT", "WHAT", "DENIED", *words]


@pytest.mark.usefixtures("for_people")
def test_a_table_of_many_columns_on_a_narrow_terminal_has_a_line_for_each_cell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    headings = ("ATTEMPT", "POD", "START")
    rows = [(str(number), f"train-{number}-abcdefgh", "2026-01-01T00:00:00Z") for number in range(2)]
    monkeypatch.setenv("COLUMNS", "60")
    terminal.show([[headings, *rows]])
    assert len(capsys.readouterr().out.splitlines()) == 3
    monkeypatch.setenv("COLUMNS", "40")
    terminal.show([[headings, *rows]])
    lines = [line.rstrip() for line in COLOUR.sub("", capsys.readouterr().out).splitlines()]
    assert lines == [
        "ATTEMPT  0",
        "POD      train-0-abcdefgh",
        "START    2026-01-01T00:00:00Z",
        "",
        "ATTEMPT  1",
        "POD      train-1-abcdefgh",
        "START    2026-01-01T00:00:00Z",
    ]


def test_columns_share_the_width_that_their_longest_words_leave() -> None:
    rows = [["A", "B", "C"], ["1", "four words are here", "and more than four words are here, quite a lot"]]
    assert terminal.widths_of(rows, 100) == [1, 19, 46]
    assert terminal.widths_of(rows, 50) == [1, 19, 26]
    assert terminal.widths_of(rows, 16) == [1, 5, 6]
    assert terminal.widths_of(rows, 14) is None


@pytest.mark.usefixtures("for_people")
def test_with_no_color_a_terminal_gets_no_colour(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.show(PARTS)
    assert not re.search(r"\x1b\[(1;)?3", capsys.readouterr().out)


def in_terminal(arguments: list[str], **environment: str) -> str:
    """Run the command with stdout on a terminal of 60 columns; return what it prints there."""
    end, other = pty.openpty()
    with pytest.MonkeyPatch.context() as patched, os.fdopen(other, "w", encoding="utf-8") as stdout:
        patched.delenv("FORCE_COLOR", raising=False)
        for name, value in {"COLUMNS": "60", "TERM": "xterm-256color", **environment}.items():
            patched.setenv(name, value)
        patched.setattr(sys, "stdout", stdout)
        with suppress(SystemExit):
            main(arguments)
    found = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(end, 65536):
            found += part
    os.close(end)
    return found.decode().replace("\r\n", "\n")


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    file = tmp_path / "dump.yaml"
    root = job(job_spec(backoffLimit=25), uid="u")
    root["status"] = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
    file.write_text(yaml.safe_dump(root))
    return file


@pytest.mark.parametrize("command", ["check", "explain", "render -o diff"])
def test_a_command_prints_on_a_terminal_what_it_prints_to_a_pipe_but_for_colours(command: str, dump: Path) -> None:
    arguments = [*command.split(), "-f", str(dump)]
    piped = CliRunner().invoke(main, arguments).stdout
    assert piped
    assert "\x1b" not in piped
    shown = in_terminal(arguments)
    assert COLOUR.search(shown)
    assert COLOUR.sub("", shown).split() == piped.split()
    assert not re.search(r"\x1b\[(\d*;)?3\dm", in_terminal(arguments, NO_COLOR="1"))
