"""The tutorial's commands print what the tutorial shows."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.cluster import tutorial
from tests.cluster.conftest import with_operators

# What differs from one reader to the next.
DIFFERS: Final = (
    (r"train-[a-z0-9]{5}\b", "train-POD"),
    (r"\b(spot|on-demand)-\d\b", r"\1-N"),
    (r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME"),
    (r"\b(\d+m)?\d+ ?s\b", "DURATION"),
    (r"\b(kwok|v1\.\d+\.\d+)$", "VERSION"),
    (r" +", " "),
)


@with_operators
@pytest.mark.first
def test_each_command_of_the_tutorial_prints_what_the_page_shows() -> None:
    assert_it_prints_what_the_page_shows()


def assert_it_prints_what_the_page_shows(*options: str) -> None:
    with tutorial.cluster(*options) as exports:
        for command, shown in tutorial.steps(tutorial.PAGE.read_text()):
            printed = tutorial.output(command, exports)
            assert without_differences(printed) == without_differences(shown), f"{command}\n{printed}"


def without_differences(text: str) -> set[str]:
    """Return the lines of an output, whatever the number of nodes, and whichever is drained first."""
    for pattern, name in DIFFERS:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return {line.strip() for line in text.splitlines()}
