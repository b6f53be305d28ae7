"""A leader is killed between every two of its writes, in virtual time; `python -m tests.bench.leaders` plays more."""

from typing import get_args
from unittest.mock import patch

import pytest

from tests.bench.leaders.scenarios import RETRIES, VIRTUAL, Scenario
from tests.bench.leaders.store import Store
from tests.bench.leaders.virtual import Kill, Moment, Run, kills
from webhook.accounts.tracked import FailedPods
from webhook.accounts.tracker import Tracker
from webhook.objects.problem import Json


@pytest.mark.parametrize("scenario", VIRTUAL.values(), ids=list(VIRTUAL))
def test_nothing_is_stuck_and_nothing_is_done_twice_wherever_the_leader_is_killed(scenario: Scenario) -> None:
    found = {str(kill): Run(scenario, kill).play().problems for kill in kills(scenario, 1)}
    assert [*filter(None, found.values())] == [], found


def test_a_leader_is_killed_before_and_after_each_of_its_writes_alone_and_beside_a_standby() -> None:
    found = kills(RETRIES, 1)
    writes = Run(RETRIES).play().writes
    assert len(writes) == 2
    assert len(found) == len(set(found)) == len(writes) * len(get_args(Moment)) * 2


def test_a_pod_that_is_counted_twice_is_found() -> None:
    kill = Kill(1, "after", standby=False)
    every_open = patch.object(FailedPods, "uncounted", lambda failed, _: failed.open_pods())
    with every_open, patch.object(Tracker, "see_account", lambda *_: None):
        assert any("ended pods of 2" in problem for problem in Run(RETRIES, kill).play().problems)


def test_a_job_that_is_stuck_is_found() -> None:
    async def unchanged(store: Store, path: str, _: list[Json]) -> Json:
        return store.found(path)

    with patch.object(Store, "patch", unchanged):
        assert any("is stuck" in problem for problem in Run(RETRIES).play().problems)


def test_a_leader_that_was_to_die_at_a_write_that_never_came_is_reported() -> None:
    assert Run(RETRIES, Kill(3, "before", standby=False)).play().problems == ["there was no write 3"]
