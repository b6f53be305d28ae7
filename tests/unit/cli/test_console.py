"""The input and output of commands."""

import pytest

from webhook.cli import console


@pytest.mark.parametrize("character", ["\n", "\x1b", "\u202e", "\x00", "\x9b"])
def test_what_would_steer_a_terminal_is_escaped(character: str) -> None:
    line = console.printable(f"name{character}rest")
    assert line.isprintable()
    assert line.startswith("name\\")
    assert line.endswith("rest")


def test_words_of_any_language_are_printed_as_they_are() -> None:
    assert console.printable("Größe 大きさ") == "Größe 大きさ"


def test_of_a_long_line_both_ends_are_printed() -> None:
    line = console.printable("a" * 10_000 + "b" * 10_000)
    assert len(line) < 5000
    assert line.startswith("aaa")
    assert line.endswith("bbb")
