"""What restarts in place add to an account, and what they cost."""

from typing import Any

import pytest

from tests.unit.accounts.pods import job
from tests.unit.accounts.restarting_pods import container, ended, read, restarted, stored
from tests.unit.controller.alone import Alone
from webhook.accounts import words
from webhook.accounts.account import KEPT_RESTARTED, MOST_RESTARTED, Account, Left, id_of
from webhook.accounts.cached import CachedJob
from webhook.accounts.counting import FREE_TOO_OFTEN, CountingPass
from webhook.accounts.in_place import forget, last_attempt
from webhook.accounts.stored import LARGEST, decode, encode
from webhook.accounts.tracker import Key
from webhook.history.usage import Used
from webhook.objects.times import between
from webhook.pods.pods import Pod
from webhook.policy.model import Diagnostics, Profile, Retries
from webhook.policy.settings import resolve
from webhook.systems.job import spec as batch


def counting(
    *pods: Pod, account: Account | None = None, root: CachedJob | None = None, limit: int = 10, last_words: bool = False
) -> CountingPass:
    root = root or job()
    tracker = Alone()
    tracker.see_job(root, steady=True, alone=True)
    for pod in pods:
        tracker.see(pod, 0.0)
    profile = Profile(retries=Retries(limit=limit), diagnostics=Diagnostics(last_words=last_words))
    settings = resolve("default", profile, {})

    def used(pod: Pod) -> Used:
        return Used(between(pod.started, pod.finished), (("cpu", 2.0),), "Spot")

    found = CountingPass(
        Key("ml", batch.JOB, "train"), root, None, tracker, account or Account(), lambda _: settings, used
    )
    found.count_restarts()
    found.count(tracker.uncounted(found.account))
    return found


def on_failure(restarts: int, code: int = 1, **fields: Any) -> Pod:
    return restarted(restarts, code, policy="OnFailure", **fields)


def test_a_restart_that_the_job_controller_counts_costs_a_retry() -> None:
    found = counting(on_failure(1))
    assert found.account.in_place == {"retry": 1}
    assert (found.account.ended, found.account.cost) == (0, {})
    assert found.account.causes == {"ExitCode": {"main 1": 1}}
    assert found.sentence() == (
        "pod train-1, attempt 0 (max-retries 3), restarted in place (1): container main exit code 1; cost 1 retry; "
        "left: 2 retries, 1 disruption"
    )


def test_the_restart_that_reaches_the_backoff_limit_ends_the_job() -> None:
    found = counting(on_failure(3), account=Account(restarted={id_of(on_failure(1)): 2}))
    assert found.account.in_place == {"fatal": 1}
    assert found.account.last[-1].left == Left(retries=0, disruptions=1)


def test_pods_that_run_side_by_side_share_the_backoff_limit() -> None:
    found = counting(on_failure(2, number=1), on_failure(1, number=2))
    assert found.details[-1].cost == "fatal"


def test_a_restart_that_nothing_in_the_api_counts_is_free() -> None:
    found = counting(restarted(1))
    assert found.account.in_place == {"free": 1}
    assert found.account.free.of("") == 1
    assert "cost 1 free restart" in found.sentence()


def test_too_many_free_restarts_in_place_end_the_workload() -> None:
    assert counting(restarted(2), limit=2).end(counting(restarted(2), limit=2).details) is None
    found = counting(restarted(3), limit=2)
    end = found.end(found.details)
    assert end is not None
    assert (end.reason, end.pod, end.limit) == (FREE_TOO_OFTEN, "train-1", 2)


def test_the_watch_may_miss_restarts_and_all_are_counted() -> None:
    found = counting(restarted(5, 75), account=Account(restarted={id_of(restarted()): 2}))
    assert found.account.in_place == {"free": 3}
    assert found.account.causes == {"Other": {"Unseen": 2}, "ExitCode": {"main 75": 1}}
    assert [detail.restart for detail in found.details] == [5]


@pytest.mark.parametrize(
    ("counted", "seen", "spent"),
    [
        (0, 2, {"retry": 2}),
        (0, 3, {"retry": 2, "fatal": 1}),
        (0, 6, {"retry": 2, "fatal": 4}),
        (1, 7, {"retry": 1, "fatal": 5}),
        (4, 7, {"fatal": 3}),
    ],
)
def test_of_the_restarts_that_the_watch_missed_those_from_the_limit_on_end_the_job(
    counted: int, seen: int, spent: dict[str, int]
) -> None:
    pod = on_failure(seen)
    account = Account(restarted={id_of(pod): counted} if counted else {})
    assert counting(pod, account=account).account.in_place == spent


def test_restarts_are_counted_once() -> None:
    first = counting(restarted(2))
    again = counting(restarted(2), account=decode(encode(first.account)))
    assert not again.changed
    marked = restarted(2, annotations={"retry-policy.dev/counted": "restarts 2"})
    assert not counting(marked).changed


def test_a_pod_that_fails_after_restarts_is_counted_with_all_of_them_and_its_id_is_forgotten() -> None:
    status = {"name": "main", "restartCount": 2, "state": ended(1, 90), "lastState": ended(143, 30)}
    pod = read(stored(status, phase="Failed"))
    found = counting(pod, account=Account(restarted={id_of(pod): 1}))
    assert (found.account.in_place, found.account.cost) == ({"free": 1}, {"fatal": 1})
    assert found.account.restarted == {}
    assert not counting(pod, account=found.account).changed


def test_restarts_of_which_only_the_last_was_seen_used_all_seconds_since_the_pod_started() -> None:
    pod = on_failure(3)
    account = counting(pod).account
    (row,) = account.lost["ExitCode"].values()
    assert pod.restarts is not None
    assert pod.restarts.last is not None
    assert row.seconds == between(pod.started, pod.restarts.last.end)


def test_each_attempt_used_its_own_seconds() -> None:
    status = {"name": "main", "restartCount": 1, "state": ended(1, 90), "lastState": ended(143, 30)}
    found = counting(read(stored(status, phase="Failed")))
    rows = found.account.lost["ExitCode"]["Spot"]
    assert (rows.attempts, rows.seconds) == (2, 20.0)
    assert last_attempt(restarted(0)).started == restarted(0).started


def test_the_killed_for_memory_have_that_cause_and_a_removed_container_none() -> None:
    killed = container(1, 137, lastState=ended(137, reason="OOMKilled"))
    assert counting(read(stored(killed))).account.causes == {"OOMKilled": {"main": 1}}
    removed = container(1, lastState=ended(137, reason="RestartingAllContainers"))
    assert counting(read(stored(removed))).account.causes == {"Other": {"RestartingAllContainers": 1}}


def test_last_words_are_kept_if_the_profile_says_so() -> None:
    last = ended(75)
    last["terminated"]["message"] = "no slot\nfree"
    pod = read(stored(container(1, lastState=last)))
    assert counting(pod).account.last[-1].message == ""
    assert counting(pod, last_words=True).account.last[-1].message == "no slot free"


def test_a_full_account_leaves_the_rest_for_the_next_pass() -> None:
    account = Account(restarted={f"id{number:06}": 1 for number in range(MOST_RESTARTED)})
    found = counting(restarted(1), account=account)
    assert not found.changed
    assert not found.count_restarts()


def test_an_account_forgets_the_oldest_restarted_pods_but_none_that_it_would_count_again() -> None:
    account = Account(restarted={f"id{number:06}": 1 for number in range(MOST_RESTARTED)})
    forget(account, KEPT_RESTARTED, {"id000003"})
    assert len(account.restarted) == KEPT_RESTARTED + 1
    assert "id000003" in account.restarted


@pytest.mark.parametrize("number", [2**31 - 1, 2**40])
def test_no_number_of_restarts_makes_an_account_unreadable(number: int) -> None:
    account = counting(restarted(number)).account
    for _ in range(2):
        text = encode(account)
        assert len(text) <= LARGEST
        account = counting(restarted(number, number=2), account=decode(text)).account
    assert decode(encode(account)).in_place == {"free": 2**31 - 1}


def test_the_summary_tells_restarts_apart_from_ended_pods() -> None:
    assert words.summary(counting(restarted(2)).account) == "0 attempts ended; 2 restarts in place: 2 free restarts"


def test_restarts_are_not_among_the_pods_that_ended_since_a_requested_retry() -> None:
    status = {"name": "main", "restartCount": 2, "state": ended(1, 90), "lastState": ended(143, 30)}
    account = counting(read(stored(status, phase="Failed"))).account
    assert [detail.restart for detail in account.last] == [2, 0]
    assert [detail.restart for detail in account.last_now] == [0]
    account.begin_anew("2026-01-01T00:00:00Z")
    assert counting(restarted(1, number=2), account=account).account.last_now == []
