"""Which restarts in place an account lacks, over missed events, marks, ends and deletions."""

import pytest
from msgspec.structs import replace

from tests.costs import lines_of
from tests.unit.accounts.pods import job
from tests.unit.accounts.restarting_pods import restarted
from tests.unit.controller.alone import Alone
from webhook.accounts.account import MOST_RESTARTED, Account, id_of
from webhook.accounts.tracked import LONGEST_DELAY, delay, uncounted
from webhook.pods.pods import Pod


def tracked(*pods: Pod, counted: dict[str, int] | None = None, replacement: str | None = "Failed") -> Alone:
    tracker = Alone()
    tracker.see_job(job({"podReplacementPolicy": replacement}), steady=True, alone=True)
    for pod in pods:
        tracker.see(pod, 0.0)
    tracker.see_account(Account(restarted=counted or {}))
    return tracker


def open_in(tracker: Alone) -> list[str]:
    return [pod.name for pod in tracker.uncounted_restarts(Account())]


def test_a_restart_is_open_until_an_account_says_that_it_is_counted() -> None:
    pod = restarted(2)
    tracker = tracked(pod, counted={id_of(pod): 1})
    assert open_in(tracker) == ["train-1"]
    tracker.see_account(Account(restarted={id_of(pod): 2}))
    assert open_in(tracker) == []
    tracker.see(restarted(3), 1.0)
    assert open_in(tracker) == ["train-1"]


def test_a_mark_says_it_too_and_the_higher_number_counts() -> None:
    pod = restarted(5, annotations={"retry-policy.dev/counted": "restarts 4 proof"})
    assert uncounted(pod, {}) == 1
    assert uncounted(pod, {id_of(pod): 5}) == 0
    assert uncounted(pod, {id_of(pod): 2}) == 1


def test_restarts_of_a_pod_that_has_succeeded_and_was_deleted_stay_until_they_are_counted() -> None:
    pod = restarted(1, phase="Succeeded")
    tracker = tracked(pod)
    tracker.see_gone(pod, 1.0)
    assert open_in(tracker) == ["train-1"]
    tracker.see_account(Account(restarted={id_of(pod): 1}))
    assert tracker.restarted_now == {}


def test_restarts_of_a_failed_pod_are_left_to_the_count_of_its_end() -> None:
    tracker = tracked(restarted(2), restarted(2, phase="Failed"))
    assert tracker.restarted_now == {}
    (failed,) = tracker.failed_now.values()
    assert uncounted(failed, {}) == 2


def test_restarts_of_a_pod_that_failed_by_its_deletion_are_counted_once_though_it_still_terminates() -> None:
    pod = replace(restarted(4), deleting=True, tracked=True)
    tracker = tracked(pod, replacement=None)
    assert open_in(tracker) == []
    (failed,) = tracker.failed_now.values()
    tracker.see_account(Account(recent=[id_of(failed)]))  # with its end, and so without its restarts
    tracker.see(replace(pod, tracked=False), 1.0)  # the Job controller has counted it too
    assert open_in(tracker) == []
    assert not tracker.running.packed


def test_a_pod_that_fails_keeps_the_restarts_that_its_last_status_lacks() -> None:
    tracker = tracked(restarted(2), restarted(0, phase="Failed"))
    (failed,) = tracker.failed_now.values()
    assert uncounted(failed, {}) == 2


def test_deleted_pods_of_a_deleted_job_are_forgotten() -> None:
    pod = restarted(1, phase="Succeeded")
    tracker = tracked(pod)
    tracker.see_gone(pod, 1.0)
    tracker.see_job_gone("job-uid")
    assert tracker.restarted_now == {}
    assert tracker.is_empty


def test_a_job_of_the_same_name_does_not_inherit_the_restarts() -> None:
    tracker = tracked(restarted(1))
    tracker.see_job(job(uid="another"), steady=True, alone=True)
    assert tracker.restarted_now == {}


def test_a_pod_that_is_missing_after_a_gap_is_gone() -> None:
    tracker = tracked(restarted(1, number=1), restarted(1, number=2))
    tracker.see_account(Account(restarted={id_of(restarted(1, number=number)): 1 for number in (1, 2)}))
    tracker.see_only({restarted(1, number=2).uid}, 1.0)
    assert [pod.name for pod in tracker.restarted_now.values()] == ["train-2"]


def test_at_most_as_many_pods_as_an_account_has_room_for_are_counted_at_once() -> None:
    tracker = tracked(*(restarted(1, number=number) for number in range(MOST_RESTARTED + 9)))
    assert len(open_in(tracker)) == MOST_RESTARTED


def test_the_job_controller_counts_the_restarts_of_pods_that_have_not_ended() -> None:
    mine = restarted(2, number=1)
    tracker = tracked(mine, restarted(3, number=2), restarted(4, number=3, phase="Succeeded"))
    assert tracker.restarts_by_api(mine) == 5


def test_a_pod_that_ends_or_is_deleted_no_longer_counts_for_the_others() -> None:
    mine, ending, leaving = (restarted(1, number=number) for number in (1, 2, 3))
    tracker = tracked(mine, restarted(2), ending, leaving)
    tracker.see(restarted(5, number=2, phase="Succeeded"), 1.0)
    tracker.see_only({mine.uid, ending.uid}, 2.0)
    tracker.see(mine, 3.0)
    assert tracker.restarts_by_api(mine) == 1
    assert tracker.restarted is not None
    tracker.restarted.forget(mine.uid)
    assert tracker.restarted.sums == {}


def test_the_restarts_beside_a_pod_cost_no_more_however_many_pods_have_restarted() -> None:
    def work(number: int) -> int:
        tracker = tracked(*(restarted(1, number=one) for one in range(number)))
        return lines_of(lambda: tracker.restarts_by_api(restarted(1)))

    assert work(400) <= 1.1 * work(100)


def test_an_account_must_remember_unmarked_pods_and_failed_ones_that_are_not_counted() -> None:
    marked = restarted(1, number=1, annotations={"retry-policy.dev/counted": "restarts 1"})
    unmarked, failed, gone = (restarted(1, number=number) for number in (2, 3, 4))
    tracker = tracked(marked, unmarked, failed, gone)
    tracker.see(restarted(1, number=3, phase="Failed"), 1.0)
    found = {id_of(pod): 1 for pod in (marked, unmarked, failed, gone)}
    tracker.see_account(Account(restarted=found))
    tracker.see_only({marked.uid, unmarked.uid, failed.uid}, 2.0)
    assert tracker.staying_restarted(found.items()) == {id_of(unmarked), id_of(failed)}


@pytest.mark.parametrize(("number", "seconds"), [(0, 0.0), (10, 0.0), (11, 11.0), (10_000, LONGEST_DELAY)])
def test_a_pod_that_restarts_for_weeks_is_counted_once_a_minute(number: int, seconds: float) -> None:
    assert delay(Account(in_place={"free": number})) == seconds
