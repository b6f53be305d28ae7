"""The tutorial and the day on real nodes, where programs run: each in a cluster of its own, as `make cluster` does."""

from __future__ import annotations

import pytest

from tests.cluster import tutorial


@pytest.mark.first
def test_each_command_of_the_tutorial_and_of_the_day_prints_on_real_nodes_what_the_page_shows() -> None:
    # There is one node of each pool, and the tutorial shows three.
    for page in (tutorial.PAGE, tutorial.STORY):  # one after the other: each has nodes of its own
        with tutorial.cluster(tutorial.REAL) as exports:
            tutorial.assert_it_prints_what_the_page_shows(page, exports, alike=set)
