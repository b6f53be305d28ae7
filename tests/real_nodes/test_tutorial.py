"""The tutorial on real nodes, where its program runs: a cluster of its own, as `make cluster` starts it here."""

from __future__ import annotations

import pytest

from tests.cluster.test_tutorial import assert_it_prints_what_the_page_shows


@pytest.mark.first
def test_each_command_of_the_tutorial_prints_on_real_nodes_what_the_page_shows() -> None:
    # There is one node of each pool, and the page shows three.
    assert_it_prints_what_the_page_shows("--real-nodes-where-possible", alike=set)
