"""The tutorial's commands print what the tutorial shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.cluster import tutorial
from tests.cluster.conftest import with_operators

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# What differs from one reader to the next.
DIFFERS: Final = (
    (r"^[IWE]\d{4} [\d:.]+ .*\n", ""),  # kubectl's own log: a watch that ended and goes on
    (r"\b(train|nightly|load)-[a-z0-9]{5}\b", r"\1-POD"),
    (r"\b(spot|on-demand)-\d\b", r"\1-N"),
    (r"\b(job-(train|nightly|load))-[0-9a-f]{16}\b", r"\1-HASH"),
    (r"\d{4}-\d\d-\d\dT[\d:]+(Z|\+00:00)", "TIME"),
    (r"\b(\d+m)?\d+ ?s\b", "DURATION"),
    (r"\b(kwok|v1\.\d+\.\d+)$", "VERSION"),
    (r"\b\d+\.\d+\b|\b\d+ %", "AMOUNT"),
    (r" +", " "),
)


@with_operators
@pytest.mark.first
def test_each_command_of_the_tutorial_prints_what_the_page_shows() -> None:
    assert_it_prints_what_the_page_shows()


def assert_it_prints_what_the_page_shows(
    *options: str, alike: Callable[[list[str]], object] = sorted, page: Path = tutorial.PAGE
) -> None:
    """Fail unless `alike` makes the same of the lines that are shown and printed, which are in any order by default."""
    with tutorial.cluster(*options) as exports:
        for command, shown in tutorial.steps(page.read_text()):
            printed = tutorial.output(command, exports)
            lines, expected = (alike(without_differences(text)) for text in (printed, shown))
            assert lines == expected, f"{command}\n{printed}"


def without_differences(text: str) -> list[str]:
    """Return the lines of an output, without what differs."""
    for pattern, name in DIFFERS:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return [line.strip() for line in text.splitlines()]
