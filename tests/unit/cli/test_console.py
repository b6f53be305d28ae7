"""The input and output of commands."""

import pytest

from webhook.cli import console


@pytest.mark.parametrize("character", ["\n", "\x1b", "\u202e", "\x00", "\x9b"])
def test_control_characters_are_escaped(character: str) -> None:
    line = console.printable(f"name{character}rest")
    assert line.isprintable()
    assert line.startswith("name\\")
    assert line.endswith("rest")


def test_words_of_any_language_are_printed_unchanged() -> None:
    assert console.printable("Größe 大きさ") == "Größe 大きさ"


def test_a_long_line_is_cut_in_the_middle() -> None:
    line = console.printable("a" * 10_000 + "b" * 10_000)
    assert len(line) < 5000
    assert line.startswith("aaa")
    assert line.endswith("bbb")
