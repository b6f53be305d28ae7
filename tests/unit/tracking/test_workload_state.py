"""The state of a workload while its account is being written."""

from tests.unit.accounts.pods import job, running_pod
from tests.unit.controller.alone import Alone, state_alone
from webhook.accounts.account import Account
from webhook.tracking.workload_state import INTERVAL, LONGEST_PAUSE, WATCH_DELAY, WorkloadState


def with_vanished(*numbers: int) -> tuple[WorkloadState, Alone]:
    """Return the state of a Job whose pods were deleted while the watch was interrupted."""
    state, tracker = state_alone()
    tracker.see_job(job(), alone=True)
    for number in numbers:
        tracker.see(running_pod(number), 0.0)
    tracker.see_only((), 1.0)
    return state, tracker


def test_pods_that_vanish_during_a_write_are_kept_for_the_next_write() -> None:
    state, tracker = with_vanished(1)
    counted = list(tracker.vanished)
    tracker.see(running_pod(2), 2.0)
    tracker.see_only((), 3.0)
    state.see_written("text", 4.0, counted)
    assert [pod.name for pod in tracker.vanished.values()] == ["train-2"]


def test_a_written_account_is_awaited_until_the_watch_brings_it_or_a_time_has_passed() -> None:
    state = WorkloadState()
    state.see_written("text", 10.0, ())
    assert state.awaits_watch(10.0 + WATCH_DELAY / 2)
    state.see_account("another", Account())
    assert state.awaits_watch(10.0 + WATCH_DELAY / 2)
    state.see_account("text", Account())
    assert not state.awaits_watch(10.0 + WATCH_DELAY / 2)
    state.see_written("next", 20.0, ())
    assert not state.awaits_watch(20.0 + WATCH_DELAY)


def test_pauses_after_failed_writes_double_up_to_a_maximum_until_a_write_succeeds() -> None:
    state = WorkloadState()
    assert [state.back_off() for _ in range(7)] == [INTERVAL, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE]
    state.forget_failures()
    assert state.back_off() == INTERVAL
