"""How evictions by Kueue are counted and limited."""

from typing import Any

from tests.unit.accounts.workloads import read, stored_workload
from webhook.accounts.kueue import LARGEST, CountedEvictions

NEW_UID = "80af1c56-0000-4000-8000-000000000001"


def seen(found: CountedEvictions, limit: int | None = None, *, active: bool = True, **stats: Any) -> dict[str, int]:
    uid = {"uid": stats.pop("uid")} if "uid" in stats else {}
    return found.see(read(stored_workload(stats, active=active, **uid)), limit)


def test_each_eviction_is_counted_once_however_often_its_workload_is_seen() -> None:
    found = CountedEvictions()
    assert seen(found, Preempted=1) == {"Preempted": 1}
    assert seen(found, Preempted=1) == {}
    assert seen(found, Preempted=2, PodsReadyTimeout=1) == {"Preempted": 1, "PodsReadyTimeout": 1}
    assert found.reasons == {"Preempted": 2, "PodsReadyTimeout": 1}
    assert found.number == 3


def test_evictions_that_happened_while_nobody_looked_are_counted() -> None:
    found = CountedEvictions()
    seen(found, Preempted=7)
    assert found.reasons == {"Preempted": 7}


def test_a_new_workload_of_the_same_job_continues_the_counts() -> None:
    found = CountedEvictions()
    seen(found, Preempted=2)
    seen(found, Preempted=1, uid=NEW_UID)
    assert found.reasons == {"Preempted": 3}


def test_a_count_that_falls_is_no_eviction_taken_back() -> None:
    found = CountedEvictions()
    seen(found, Preempted=2)
    seen(found, Preempted=1)
    assert found.reasons == {"Preempted": 2}


def test_a_limit_is_exceeded_by_the_next_eviction_and_no_limit_never() -> None:
    found = CountedEvictions()
    seen(found, 1, Preempted=1)
    assert not found.is_exceeded
    seen(found, 1, Preempted=1, PodsReadyTimeout=1)
    assert found.is_exceeded
    seen(found, None, Preempted=9, PodsReadyTimeout=9)
    assert not found.is_exceeded


def test_a_deactivation_is_counted_but_not_limited() -> None:
    found = CountedEvictions()
    seen(found, 0, Deactivated=3, DeactivatedDueToRequeuingLimitExceeded=1)
    assert (found.number, found.limited, found.is_exceeded) == (4, 0, False)


def test_activating_a_workload_after_its_limit_allows_as_many_evictions_again() -> None:
    found = CountedEvictions()
    seen(found, 1, Preempted=2)
    seen(found, 1, active=False, Preempted=2)
    assert found.deactivated
    seen(found, 1, Preempted=2, Deactivated=1)
    assert (found.deactivated, found.is_exceeded, found.before) == (False, False, 2)
    seen(found, 1, Preempted=3, Deactivated=1)
    assert not found.is_exceeded
    seen(found, 1, Preempted=4, Deactivated=1)
    assert found.is_exceeded


def test_activating_a_workload_within_its_limit_changes_nothing() -> None:
    found = CountedEvictions()
    seen(found, 2, active=False, Preempted=1)
    seen(found, 2, Preempted=1)
    assert found.before == 0


def test_counts_stay_within_their_bounds() -> None:
    found = CountedEvictions()
    for number in range(20):
        stats = {f"{'x' * 60}{number}": LARGEST}
        found.see(read(stored_workload(stats, uid=f"{number:08}-0000")), 1)
    assert len(found.reasons) <= 6
    assert max(found.reasons.values()) == LARGEST
