"""The tracker that a replica has of a workload's pods, with any events in any order."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.costs import assert_grows_with_its_input, lines_of
from tests.unit.accounts.pods import disrupted, failed, job, running_pod
from tests.unit.accounts.test_account import counted
from tests.unit.controller.alone import Alone
from webhook.accounts.account import Account
from webhook.accounts.tracker import DOUBT, LONG_AGO, LONGEST_DOUBT, TOGETHER, key_of
from webhook.pods.outcomes import outcome_of
from webhook.pods.pods import Condition, Pod

DELETED = failed(1, 137, deleting=True, deleted="2026-01-01T00:00:30Z")


def tracker(*pods: Pod, **spec: object) -> Alone:
    found = Alone()
    found.see_job(job(spec), steady=True, alone=True)
    for pod in pods:
        found.see(pod, 0.0)
    return found


def uncounted(found: Alone, account: Account | None = None) -> list[str]:
    return [pod.name for pod in found.uncounted(account or Account())]


def test_the_workload_of_a_pod_is_its_job_set_or_else_its_job() -> None:
    assert (key_of(running_pod()).kind_name, key_of(running_pod()).name) == ("Job", "train")
    in_set = key_of(running_pod(job="set-workers-0", job_set="set"))
    assert (in_set.kind_name, in_set.name) == ("JobSet", "set")


def test_a_failed_pod_waits_once_to_be_counted_after_any_number_of_events() -> None:
    found = tracker(running_pod(1))
    assert uncounted(found) == []
    assert found.see(failed(1), 0.0)
    assert not found.see(failed(1, tracked=False), 0.0)
    assert not found.see_gone(failed(1, tracked=False), 0.0)
    assert uncounted(found) == ["train-1"]


def test_a_pod_that_succeeded_is_not_tracked() -> None:
    found = tracker(running_pod(1), running_pod(1, phase="Succeeded"))
    assert uncounted(found) == []
    assert not found.running.packed


def test_the_pod_that_ran_longest_is_looked_for_again_only_once_it_has_ended() -> None:
    young, old = (running_pod(number, started=f"2026-01-01T00:0{9 - number}:00Z") for number in (1, 2))
    others = (running_pod(number, job_uid="another") for number in range(3, 1000))
    found = tracker(young, old, *others)

    def outlived() -> bool:
        return found.has_outlived("job-uid", "2026-01-01T00:10:00Z", 150)

    assert outlived()
    assert lines_of(outlived) <= 54
    found.see(failed(2), 0.0)
    assert not outlived()


def test_a_pod_is_forgotten_after_it_is_both_counted_and_deleted() -> None:
    first, second = failed(1), failed(2)
    found = tracker(first, second)
    found.see_account(counted(first))
    found.see_gone(first, 0.0)
    found.see_gone(second, 0.0)
    assert uncounted(found) == ["train-2"]
    found.see_account(counted(first, second))
    assert found.failed_now == {}


def test_a_pod_is_not_counted_again_after_the_account_forgets_it() -> None:
    found = tracker(failed(1))
    found.see_account(counted(failed(1)))
    assert uncounted(found, Account()) == []


def test_whether_the_job_controller_tracks_a_pod_is_read_when_the_pod_fails() -> None:
    found = tracker(disrupted(1))
    found.see(disrupted(1, tracked=False), 0.0)
    (pod,) = found.uncounted(Account())
    assert pod.tracked


def test_a_disruption_reason_that_is_written_after_the_pod_failed_is_ignored() -> None:
    found = tracker(disrupted(1, "PreemptionByScheduler"))
    found.see(disrupted(1, "DeletionByTaintManager"), 0.0)
    (pod,) = found.uncounted(Account())
    assert pod.disruption is not None
    assert pod.disruption.reason == "PreemptionByScheduler"


def test_a_disrupted_pod_whose_node_is_deleted_keeps_the_disruption_that_was_announced_first() -> None:
    collected = disrupted(1, "DeletionByPodGC", exits=())
    found = tracker(running_pod(1, conditions=disrupted(1, "DeletionByTaintManager").conditions, deleting=True))
    found.see(collected, 0.0)
    (pod,) = found.uncounted(Account())
    assert pod.disruption is not None
    assert pod.disruption.reason == "DeletionByTaintManager"


def test_a_pod_that_was_to_be_disrupted_and_was_not_has_its_later_disruption() -> None:
    withdrawn = (Condition("DisruptionTarget", "False", "PreemptionByScheduler", "2026-01-01T00:00:20Z"),)
    found = tracker(running_pod(1, conditions=withdrawn))
    found.see(disrupted(1, "DeletionByPodGC"), 0.0)
    (pod,) = found.uncounted(Account())
    assert pod.disruption is not None
    assert pod.disruption.reason == "DeletionByPodGC"


def test_with_terminating_or_failed_a_pod_has_failed_when_its_deletion_begins() -> None:
    found = tracker(podReplacementPolicy="TerminatingOrFailed")
    assert found.see(running_pod(1, deleting=True), 0.0)
    assert not found.see(running_pod(1, deleting=True, tracked=False), 0.0)
    assert uncounted(found) == ["train-1"]


def test_a_pod_that_the_job_controller_releases_before_it_ends_stays_untracked() -> None:
    found = tracker(running_pod(1))
    found.see(running_pod(1, deleting=True, tracked=False), 0.0)
    found.see(failed(1, deleting=True, tracked=False), 0.0)
    (pod,) = found.uncounted(Account())
    assert not pod.tracked


def test_who_deleted_a_pod_is_in_doubt_until_its_job_has_ended_or_a_short_time_has_passed() -> None:
    found = tracker(running_pod(1), DELETED)
    assert found.doubtful(DOUBT - 0.1, current=True) == {DELETED.uid}
    assert not found.doubtful(DOUBT, current=True)
    found.see_job(job(status={"conditions": [{"type": "FailureTarget", "status": "True"}]}), steady=True, alone=True)
    assert not found.doubtful(0.1, current=True)


def test_who_deleted_a_pod_is_in_doubt_longer_while_the_watch_is_behind_or_other_pods_end() -> None:
    found = tracker(running_pod(1), DELETED)
    assert found.doubtful(DOUBT, current=False)
    assert not found.doubtful(LONGEST_DOUBT, current=False)
    found.see(running_pod(2, deleting=True, deleted=DELETED.deleted), 5.0)
    assert found.doubtful(5.0 + DOUBT - 0.1, current=True) == {DELETED.uid}


def test_who_deleted_a_pod_is_not_in_doubt_if_its_job_is_deleted() -> None:
    found = tracker(running_pod(1), DELETED, failed(2, 1), disrupted(3))
    found.see_job_gone("job-uid")
    assert not found.doubtful(0.1, current=True)


def test_a_crash_remains_a_crash_if_the_pod_is_deleted_afterwards() -> None:
    found = tracker(failed(1, 1))
    found.see(failed(1, 1, deleting=True, deleted="2026-01-01T00:02:00Z"), 0.1)
    found.see_job_gone("job-uid")
    (pod,) = found.uncounted(Account())
    assert outcome_of(pod, found.job_of(pod)).cost == "fatal"


def test_a_pod_is_counted_even_if_the_job_controller_counted_it_before_it_was_first_seen() -> None:
    found = Alone()
    found.see_job(job(), steady=False, alone=True)
    found.see(disrupted(1, tracked=False), 0.0, news=False)
    (pod,) = found.uncounted(Account())
    assert pod.tracked


def test_pods_are_disturbed_when_a_disruption_or_deletion_is_announced_and_when_the_pod_has_ended() -> None:
    found = tracker(running_pod(1), running_pod(2), failed(3))
    assert found.disturbed == LONG_AGO
    condition = disrupted(1).conditions
    found.see(running_pod(1, conditions=condition), 5.0)
    assert found.disturbed == 5.0
    found.see(disrupted(1), 9.0)
    assert found.disturbed == 9.0
    found.see(running_pod(2, deleting=True), 12.0)
    assert found.disturbed == 12.0
    found.see(failed(2, deleting=True), 13.0)
    assert found.disturbed == 13.0


def test_later_updates_of_a_disrupted_pod_that_has_ended_disturb_no_other_pod() -> None:
    found = tracker(running_pod(1), disrupted(1))
    disturbed = found.disturbed
    found.see(disrupted(1, tracked=False), 20.0)
    found.see_gone(disrupted(1, tracked=False), 20.1)
    assert found.disturbed == disturbed


def test_pods_that_vanished_in_a_watch_gap_without_success_or_failure_were_disrupted() -> None:
    found = tracker(*(running_pod(number) for number in range(5)))
    assert found.see_only({running_pod(0).uid}, 7.0)
    after = job(status={"succeeded": 1, "failed": 1})
    found.see_job(after, steady=True, alone=True)
    pods = found.disrupted_unseen(after, 1, Account())
    assert len(pods) == 2
    assert {pod.disruption.reason for pod in pods if pod.disruption} == {"Unseen"}
    assert found.disrupted_unseen(after, 1, counted(*pods)) == []


def test_pods_of_a_deleted_job_are_counted_by_its_last_known_state() -> None:
    found = Alone()
    found.see_job(job(), steady=True, alone=False)
    found.see(failed(1), 0.0)
    found.see_job_gone("job-uid")
    assert found.job_of(failed(1)) is not None
    found.see_gone(failed(1), 0.0)
    found.see_account(counted(failed(1)))
    assert found.is_empty


def test_a_job_that_was_created_again_has_no_pods_to_count() -> None:
    found = tracker(failed(1))
    found.see_job(job(uid="other"), steady=True, alone=True)
    assert uncounted(found) == []


def test_a_deleted_pod_of_an_unknown_job_is_forgotten() -> None:
    found = Alone()
    found.see(failed(1), 0.0)
    found.see_gone(failed(1), 0.0)
    assert found.is_empty


INDEXED = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}


def test_the_watch_is_behind_if_a_pod_of_the_same_index_seems_to_run() -> None:
    found = tracker(running_pod(1, index="0"), running_pod(2, index="1"), **INDEXED)
    assert found.is_behind("job-uid", "0")
    found.see(failed(1, index="0"), 0.0)
    assert not found.is_behind("job-uid", "0")
    assert found.is_behind("job-uid", "1")


def test_the_watch_is_behind_if_one_more_pod_would_exceed_parallelism() -> None:
    found = tracker(running_pod(1), parallelism=2)
    assert not found.is_behind("job-uid", "")
    found.see(running_pod(2), 0.0)
    assert found.is_behind("job-uid", "")
    found.see(replace(failed(1)), 0.0)
    assert not found.is_behind("job-uid", "")


def test_counted_pods_that_stay_are_listed_for_the_counted_annotation() -> None:
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
    assert found.failed_now == {}


def relist(pods: list[Pod]) -> None:
    found = tracker(*pods)
    found.see_only({pod.uid for pod in pods[::2]}, 0.0)
    found.see_only(set(), 0.0)


@pytest.mark.parametrize("work", [fail_and_go, count_all, relist])
def test_the_work_for_one_pod_does_not_grow_with_the_number_of_pods(
    work: Callable[[list[Pod]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.accounts.tracker.TOGETHER", 100)
    assert_grows_with_its_input(work, lambda size: [failed(number) for number in range(size)], 200)


def test_checking_whether_the_watch_is_behind_costs_little_with_any_number_of_pods() -> None:
    found = tracker(*(running_pod(number, deleting=number % 2 == 1) for number in range(2000)), parallelism=2000)
    assert lines_of(lambda: found.is_behind("job-uid", "")) <= 32
    assert found.is_behind("job-uid", "")


def test_a_limited_number_of_pods_is_counted_together() -> None:
    found = tracker(*map(failed, range(TOGETHER + 5)))
    assert len(found.uncounted(Account())) == TOGETHER


def test_pods_of_an_unknown_job_do_not_prevent_the_counting_of_others() -> None:
    forged = [failed(number, job_uid="forged") for number in range(TOGETHER)]
    assert uncounted(tracker(*forged, failed(TOGETHER))) == [f"train-{TOGETHER}"]


def test_a_pod_with_the_counted_annotation_is_not_counted_again() -> None:
    found = tracker(failed(1))
    found.see(failed(1, counted=True), 0.0)
    assert uncounted(found) == []
    found.see_gone(failed(1, counted=True), 0.0)
    assert found.failed_now == {}


def test_a_pod_that_is_seen_after_its_account_is_not_counted_again() -> None:
    found = tracker()
    found.see_account(counted(failed(1)))
    found.see(failed(1), 0.0)
    assert uncounted(found, Account()) == []
    assert found.failed_pod(failed(1).uid) is not None
    assert not found.is_open(failed(1).uid)


def test_the_ends_of_pods_that_are_listed_before_their_job_are_remembered() -> None:
    found = Alone()
    found.see(failed(1), 0.0, news=False)
    found.see_job(job(), steady=True, alone=True)
    assert [*found.ends.values()] == [(failed(1),)]


def test_a_new_job_with_the_name_of_an_old_one_has_none_of_its_ends() -> None:
    found = tracker(failed(1))
    found.see_job(job(uid="new-uid"), steady=True, alone=True)
    assert found.ends == {}
