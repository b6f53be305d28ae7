"""A replica's tracker of a workload's pods, with any events in any order."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.costs import assert_grows_with_its_input, instructions_of
from tests.unit.ledger.model.test_account import counted
from tests.unit.ledger.pods import disrupted, failed, job, seen
from webhook.ledger.model.account import Account
from webhook.ledger.model.outcomes import outcome_of
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.tracker import DOUBT, LONG_AGO, LONGEST_DOUBT, TOGETHER, Tracker, key_of

DELETED = failed(1, 137, deleting=True, deleted="2026-01-01T00:00:30Z")


def tracker(*pods: Pod, **spec: object) -> Tracker:
    found = Tracker()
    found.see_job(job(spec), steady=True, alone=True)
    for pod in pods:
        found.see(pod, 0.0)
    return found


def uncounted(found: Tracker, account: Account | None = None) -> list[str]:
    return [pod.name for pod in found.uncounted(account or Account())]


def test_a_pods_workload_is_its_set_else_its_job() -> None:
    assert (key_of(seen()).kind, key_of(seen()).name) == ("Job", "train")
    in_set = key_of(seen(job="set-workers-0", job_set="set"))
    assert (in_set.kind, in_set.name) == ("JobSet", "set")


def test_a_pod_that_has_failed_is_uncounted_once_however_often_it_is_seen() -> None:
    found = tracker(seen(1))
    assert uncounted(found) == []
    assert found.see(failed(1), 0.0)
    assert not found.see(failed(1, tracked=False), 0.0)
    assert not found.see_gone(failed(1, tracked=False), 0.0)
    assert uncounted(found) == ["train-1"]


def test_a_pod_that_succeeded_is_none_of_the_ledgers_business() -> None:
    found = tracker(seen(1), seen(1, phase="Succeeded"))
    assert uncounted(found) == []
    assert found.live == {}


def test_a_pod_is_forgotten_once_it_is_counted_and_gone_in_either_order() -> None:
    one, other = failed(1), failed(2)
    found = tracker(one, other)
    found.see_account(counted(one))
    found.see_gone(one, 0.0)
    found.see_gone(other, 0.0)
    assert uncounted(found) == ["train-2"]
    found.see_account(counted(one, other))
    assert found.failed == {}


def test_a_counted_pod_stays_counted_though_the_account_forgets_it() -> None:
    found = tracker(failed(1))
    found.see_account(counted(failed(1)))
    assert uncounted(found, Account()) == []


def test_how_the_job_controller_stood_to_a_pod_when_it_failed_is_what_counts() -> None:
    found = tracker(disrupted(1))
    found.see(disrupted(1, tracked=False), 0.0)
    (pod,) = found.uncounted(Account())
    assert pod.tracked


def test_a_reason_that_is_overwritten_after_the_pod_has_failed_is_not_why_it_did() -> None:
    found = tracker(disrupted(1, "PreemptionByScheduler"))
    found.see(disrupted(1, "DeletionByTaintManager"), 0.0)
    (pod,) = found.uncounted(Account())
    assert pod.disruption is not None
    assert pod.disruption.reason == "PreemptionByScheduler"


def test_a_pod_of_a_job_that_replaces_at_once_has_failed_as_soon_as_it_is_to_be_deleted() -> None:
    found = tracker(podReplacementPolicy="TerminatingOrFailed")
    assert found.see(seen(1, deleting=True), 0.0)
    assert not found.see(seen(1, deleting=True, tracked=False), 0.0)
    assert uncounted(found) == ["train-1"]


def test_a_pod_that_its_job_lets_go_of_before_it_ends_is_stopped() -> None:
    found = tracker(seen(1))
    found.see(seen(1, deleting=True, tracked=False), 0.0)
    found.see(failed(1, deleting=True, tracked=False), 0.0)
    (pod,) = found.uncounted(Account())
    assert not pod.tracked


def test_who_deleted_a_pod_is_open_until_its_job_says_or_a_moment_has_passed() -> None:
    found = tracker(seen(1), DELETED)
    assert found.doubtful(DOUBT - 0.1, current=True) == {DELETED.uid}
    assert not found.doubtful(DOUBT, current=True)
    found.see_job(job(status={"conditions": [{"type": "FailureTarget", "status": "True"}]}), steady=True, alone=True)
    assert not found.doubtful(0.1, current=True)


def test_who_deleted_a_pod_is_open_for_longer_while_others_go_or_nobody_tells_of_the_job() -> None:
    found = tracker(seen(1), DELETED)
    assert found.doubtful(DOUBT, current=False)
    assert not found.doubtful(LONGEST_DOUBT, current=False)
    found.see(seen(2, deleting=True, deleted=DELETED.deleted), 5.0)
    assert found.doubtful(5.0 + DOUBT - 0.1, current=True) == {DELETED.uid}


def test_why_a_pod_was_deleted_with_its_job_is_not_open() -> None:
    found = tracker(seen(1), DELETED, failed(2, 1), disrupted(3))
    found.see_job_gone("job-uid")
    assert not found.doubtful(0.1, current=True)


def test_a_pod_that_crashed_and_is_deleted_afterwards_crashed() -> None:
    found = tracker(failed(1, 1))
    found.see(failed(1, 1, deleting=True, deleted="2026-01-01T00:02:00Z"), 0.1)
    found.see_job_gone("job-uid")
    (pod,) = found.uncounted(Account())
    assert outcome_of(pod, found.jobs["job-uid"]).cost == "fatal"


def test_a_pod_that_is_first_seen_after_the_job_controller_had_counted_it_counts() -> None:
    found = Tracker()
    found.see_job(job(), steady=False, alone=True)
    found.see(disrupted(1, tracked=False), 0.0, news=False)
    (pod,) = found.uncounted(Account())
    assert pod.tracked


def test_what_makes_other_pods_crash_is_remembered_from_when_it_is_announced() -> None:
    found = tracker(seen(1), seen(2), failed(3))
    assert found.disturbed == LONG_AGO
    condition = disrupted(1).conditions
    found.see(seen(1, conditions=condition), 5.0)
    found.see(disrupted(1), 9.0)
    assert found.disturbed == 5.0
    found.see(seen(2, deleting=True), 12.0)
    found.see(failed(2, deleting=True), 13.0)
    assert found.disturbed == 12.0


def test_pods_that_went_in_a_gap_and_neither_succeeded_nor_failed_were_disrupted() -> None:
    found = tracker(*(seen(number) for number in range(5)))
    assert found.see_only({seen(0).uid}, 7.0)
    after = job(status={"succeeded": 1, "failed": 1})
    found.see_job(after, steady=True, alone=True)
    pods = found.disrupted_unseen(after, 1, Account())
    assert len(pods) == 2
    assert {pod.disruption.reason for pod in pods if pod.disruption} == {"Unseen"}
    assert found.disrupted_unseen(after, 1, counted(*pods)) == []


def test_pods_of_a_job_that_is_gone_are_counted_by_what_it_said() -> None:
    found = Tracker()
    found.see_job(job(), steady=True, alone=False)
    found.see(failed(1), 0.0)
    found.see_job_gone("job-uid")
    assert "job-uid" in found.jobs
    found.see_gone(failed(1), 0.0)
    found.see_account(counted(failed(1)))
    assert found.is_empty


def test_a_job_that_was_made_anew_under_its_name_begins_a_new_book() -> None:
    found = tracker(failed(1))
    found.see_job(job(uid="other"), steady=True, alone=True)
    assert uncounted(found) == []


def test_a_pod_of_no_known_job_is_not_waited_for() -> None:
    found = Tracker()
    found.see(failed(1), 0.0)
    found.see_gone(failed(1), 0.0)
    assert found.is_empty


INDEXED = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}


def test_a_pod_of_an_index_that_seems_to_run_shows_that_the_watch_is_behind() -> None:
    found = tracker(seen(1, index="0"), seen(2, index="1"), **INDEXED)
    assert found.is_behind("job-uid", "0")
    found.see(failed(1, index="0"), 0.0)
    assert not found.is_behind("job-uid", "0")
    assert found.is_behind("job-uid", "1")


def test_a_pod_too_many_shows_that_the_watch_is_behind() -> None:
    found = tracker(seen(1), parallelism=2)
    assert not found.is_behind("job-uid", "")
    found.see(seen(2), 0.0)
    assert found.is_behind("job-uid", "")
    found.see(replace(failed(1)), 0.0)
    assert not found.is_behind("job-uid", "")


def test_counted_pods_that_stay_bear_no_mark_yet() -> None:
    found = tracker(failed(1), failed(2), failed(3, deleting=True))
    found.see_account(counted(failed(1), failed(3)))
    assert [pod.name for pod in found.staying()] == ["train-1"]


def fail_and_go(pods: list[Pod]) -> None:
    found = tracker(*(replace(pod, phase="Running") for pod in pods), parallelism=len(pods))
    for pod in pods:
        found.see(pod, 0.0)
    for pod in pods:
        found.see_gone(pod, 0.0)


def count_all(pods: list[Pod]) -> None:
    found, account = tracker(*pods), Account()
    while new := found.uncounted(account)[:60]:
        account = counted(*new, account=Account())
        found.see_account(account)
        found.doubtful(0.0, current=True)
        found.staying_ids(account.recent)
        list(found.staying())
    for pod in pods:
        found.see_gone(pod, 0.0)
    assert found.failed == {}


def relist(pods: list[Pod]) -> None:
    found = tracker(*pods)
    found.see_only({pod.uid for pod in pods[::2]}, 0.0)
    found.see_only(set(), 0.0)


@pytest.mark.parametrize("work", [fail_and_go, count_all, relist])
def test_what_a_pod_costs_does_not_depend_on_how_many_there_are(
    work: Callable[[list[Pod]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.ledger.model.tracker.TOGETHER", 100)
    assert_grows_with_its_input(work, lambda number: [failed(one) for one in range(number)], 200)


def test_whether_a_watch_is_behind_is_told_at_once_of_any_number_of_pods() -> None:
    found = tracker(*(seen(number, deleting=number % 2 == 1) for number in range(2000)), parallelism=2000)
    assert instructions_of(lambda: found.is_behind("job-uid", "")) <= 300
    assert found.is_behind("job-uid", "")


def test_so_many_uncounted_pods_are_looked_at_together() -> None:
    found = tracker(*map(failed, range(TOGETHER + 5)))
    assert len(found.uncounted(Account())) == TOGETHER


def test_pods_of_a_job_that_is_not_known_keep_no_others_from_being_counted() -> None:
    forged = [failed(number, job_uid="forged") for number in range(TOGETHER)]
    assert uncounted(tracker(*forged, failed(TOGETHER))) == [f"train-{TOGETHER}"]


def test_a_pod_that_bears_the_mark_is_counted_though_no_account_names_it() -> None:
    found = tracker(failed(1))
    found.see(failed(1, counted=True), 0.0)
    assert uncounted(found) == []
    found.see_gone(failed(1, counted=True), 0.0)
    assert found.failed == {}


def test_a_pod_that_is_seen_after_the_account_that_has_it_is_counted() -> None:
    found = tracker()
    found.see_account(counted(failed(1)))
    found.see(failed(1), 0.0)
    assert uncounted(found, Account()) == []
    assert found.has_counted(failed(1).uid)
