"""What is kept of a Workload of Kueue, and which pods its eviction has ended."""

from typing import get_args

import pytest
from msgspec.structs import replace

from tests.unit.accounts.pods import running_pod
from tests.unit.accounts.workloads import EVICTED_AT, read, stored_workload
from webhook.accounts.account import MOST_RECENT, Account
from webhook.accounts.kueue import LARGEST, CountedEvictions, Eviction, has_ended
from webhook.accounts.stored import decode, encode
from webhook.objects.problem import Json
from webhook.policy.applied import applied
from webhook.policy.causes import Cause
from webhook.policy.model import Profile


def of_stats(*stats: Json) -> dict[str, int]:
    stored = stored_workload()
    stored["status"]["schedulingStats"]["evictions"] = list(stats)
    return dict(read(stored).evictions)


def test_a_workload_says_who_owns_it_how_often_it_was_evicted_and_why_it_is_evicted_now() -> None:
    found = read(stored_workload({"Preempted": 2, "PodsReadyTimeout": 1}, "Preempted"))
    assert (found.namespace, found.owner, found.owner_name) == ("ml", "job-uid", "train")
    assert found.evictions == (("Preempted", 2), ("PodsReadyTimeout", 1))
    assert found.eviction == Eviction("Preempted", EVICTED_AT)
    assert found.active
    assert not found.finished


def test_a_workload_that_is_admitted_again_is_not_evicted_but_keeps_its_counts() -> None:
    stored = stored_workload({"Preempted": 1}, "Preempted")
    stored["status"]["conditions"][0] |= {"status": "False", "reason": "QuotaReserved"}
    assert (read(stored).eviction, read(stored).evictions) == (None, (("Preempted", 1),))


def test_the_underlying_cause_of_a_deactivation_is_part_of_its_reason_as_in_the_condition() -> None:
    limit = {"reason": "Deactivated", "underlyingCause": "RequeuingLimitExceeded", "count": 1}
    slow = {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 2}
    assert of_stats(limit, slow) == {"DeactivatedDueToRequeuingLimitExceeded": 1, "PodsReadyTimeout": 2}


def test_requeues_are_read_with_the_end_of_the_delay() -> None:
    stored = stored_workload()
    stored["status"]["requeueState"] = {"count": 3, "requeueAt": "2026-01-01T00:11:00Z"}
    assert (read(stored).requeues, read(stored).requeue_at) == (3, "2026-01-01T00:11:00Z")


def test_a_workload_that_has_just_been_created_has_nothing_yet() -> None:
    stored = stored_workload()
    del stored["status"], stored["spec"]["active"]
    found = read(stored)
    assert (found.active, found.finished, found.eviction, found.evictions, found.requeues) == (True, False, None, (), 0)


def test_no_controller_is_no_owner() -> None:
    stored = stored_workload()
    stored["metadata"]["ownerReferences"][0]["controller"] = False
    assert not read(stored).owner


def test_however_much_a_hostile_user_writes_little_is_kept() -> None:
    stats = [
        {"reason": f"{'x' * 300}{number}"[-316:], "underlyingCause": "y" * 1000, "count": 2**62}
        for number in range(256)
    ]
    stored = stored_workload()
    stored["status"]["schedulingStats"]["evictions"] = [*stats, {"reason": "Low", "underlyingCause": "", "count": -5}]
    stored["status"]["requeueState"] = {"count": -1, "requeueAt": "z" * 10_000}
    stored["status"]["conditions"] = [
        {"type": "Evicted", "status": "True", "reason": "r" * 10_000, "lastTransitionTime": "t" * 10_000}
    ]
    stored["metadata"]["ownerReferences"][0]["uid"] = "u" * 10_000
    found = read(stored)
    assert len(repr(found)) < 2000
    assert all(0 <= number <= LARGEST for _, number in found.evictions)
    assert found.requeues == 0


@pytest.mark.parametrize(
    ("created", "deleted", "expected"),
    [
        ("2026-01-01T00:01:00Z", "2026-01-01T00:10:01Z", True),
        ("2026-01-01T00:01:00Z", "2026-01-01T00:09:58Z", True),  # the clocks differ a little
        ("2026-01-01T00:01:00Z", "2026-01-01T00:09:00Z", False),  # deleted before
        ("2026-01-01T00:10:30Z", "2026-01-01T00:11:00Z", False),  # of the next admission
        ("2026-01-01T00:01:00Z", "", False),
    ],
)
def test_an_eviction_ends_the_pods_that_were_there_and_are_deleted_after_it(
    created: str, deleted: str, *, expected: bool
) -> None:
    pod = running_pod(created=created, deleted=deleted)
    assert has_ended(pod, Eviction("Preempted", EVICTED_AT)) is expected


def test_an_eviction_without_a_time_ends_no_pod() -> None:
    assert not has_ended(running_pod(created="", deleted="2026-01-01T00:09:58Z"), Eviction("Preempted", ""))


@pytest.mark.parametrize("character", ["\x01", "😀", '"', "x"])
def test_whatever_the_reasons_of_a_workload_are_its_account_can_be_read_again(character: str) -> None:
    stats = [{"reason": f"{number}{character * 300}", "count": 2**31 - 1} for number in range(256)]
    evictions = CountedEvictions()
    workload = read(stored_workload())
    evictions.see(replace(workload, evictions=tuple(of_stats(*stats).items())), limit=1)
    account = Account(evictions=evictions, recent=["x" * 8] * MOST_RECENT, applied=applied(Profile()))
    for cause in get_args(Cause):
        for number in range(10):
            account.add_cause(cause, f"{number}{character * 60}", 2**31 - 1)
    assert decode(encode(account)).evictions == evictions
