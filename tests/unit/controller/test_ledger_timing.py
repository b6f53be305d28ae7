"""When the leader writes, and what it does after each answer of the API. All times are virtual."""

import asyncio
from itertools import pairwise

import pytest

from tests.metrics import counted
from tests.unit.accounts.pods import disrupted, failed, job, running_pod
from tests.unit.controller.leader import JOB_PATH, KEY, VERSION, Answer, FakeApi, leading, new_ledger, see_job
from tests.virtual_time import now, run
from webhook.accounts.account import Account, Attempt
from webhook.accounts.stored import encode
from webhook.accounts.tracker import Key
from webhook.controller.ledger import GATHERING, Ledger
from webhook.kube.client import ApiError
from webhook.policy.model import Disruptions, Profile
from webhook.systems.job import spec as batch
from webhook.tracking.trackers import UNSEEN_AFTER
from webhook.tracking.workload_state import INTERVAL, LONGEST_PAUSE, WATCH_DELAY, Verdict

ANOTHER = encode(Account(ended=1, cost={"retry": 1}, recent=["another"]))
ONE_RETRY = encode(
    Account(ended=1, cost={"retry": 1}, last=[Attempt(attempt=0, pod="train-1", cause="ExitCode", cost="retry")])
)
OTHER = {"name": "other", "uid": "other-uid"}


def refused(status: int, after: float = 0.0) -> Answer:
    return Answer(after, ApiError(status, "no"))


def times(api: FakeApi) -> list[float]:
    return [round(write.at, 3) for write in api.writes]


def test_pods_that_end_together_are_written_together() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING / 2)
            ledger.trackers.see_pod(failed(2))
            await asyncio.sleep(INTERVAL)

    api = FakeApi()
    run(work())
    (write,) = api.writes
    assert (round(write.at, 3), write.account.ended) == (GATHERING, 2)


def test_a_pod_that_fails_before_the_watch_delivers_its_job_is_counted_once_it_does() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            ledger.trackers.see_pod(disrupted(1))
            await asyncio.sleep(INTERVAL)  # the watch of Jobs has a gap
            see_job(ledger)
            await asyncio.sleep(INTERVAL + WATCH_DELAY)

    api = FakeApi()
    run(work())
    (write,) = api.account_writes()
    assert write.account.cost == {"disruption": 1}


def test_an_account_is_written_no_more_than_once_in_an_interval() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
            see_job(ledger, api.writes[0].text)
            ledger.trackers.see_pod(failed(2))
            await asyncio.sleep(2 * INTERVAL)

    api = FakeApi()
    run(work())
    assert times(api) == [GATHERING, GATHERING + INTERVAL]
    assert [write.is_new for write in api.writes] == [True, False]
    assert api.writes[1].account.ended == 2


def test_nothing_is_written_until_the_watch_has_brought_the_last_write() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
            ledger.trackers.see_pod(failed(2))
            await asyncio.sleep(2 * INTERVAL)
            assert len(api.writes) == 1
            see_job(ledger, api.writes[0].text)
            await asyncio.sleep(INTERVAL)

    api = FakeApi()
    run(work())
    assert [write.account.ended for write in api.writes] == [1, 2]


def test_a_write_that_the_watch_never_brings_is_written_again() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
            ledger.trackers.see_pod(failed(2))
            await asyncio.sleep(WATCH_DELAY + INTERVAL)

    api = FakeApi()
    run(work())
    assert WATCH_DELAY <= api.writes[1].at - api.writes[0].at <= WATCH_DELAY + INTERVAL
    assert [(write.is_new, write.account.ended) for write in api.writes] == [(True, 1), (True, 2)]


@pytest.mark.parametrize("status", [404, 409, 422])
def test_after_a_conflict_the_next_write_builds_on_the_account_that_the_watch_has_brought(status: int) -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + INTERVAL / 2)
            see_job(ledger, ANOTHER)
            await asyncio.sleep(INTERVAL)

    api = FakeApi(refused(status))
    run(work())
    assert times(api) == [GATHERING, GATHERING + INTERVAL]
    assert [(write.is_new, write.account.ended) for write in api.writes] == [(True, 1), (False, 2)]


@pytest.mark.parametrize(
    ("error", "pause"),
    [
        (ApiError(429, "too many requests"), LONGEST_PAUSE),
        (ApiError(500, "etcd"), LONGEST_PAUSE),
        (ApiError(403, "no Role"), LONGEST_PAUSE),
        (TimeoutError(), INTERVAL),
        (KeyError("an unexpected answer"), LONGEST_PAUSE),
    ],
)
def test_after_an_error_the_write_is_repeated_and_other_accounts_are_not_delayed(
    error: Exception, pause: float
) -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
            see_job(ledger, **OTHER)
            ledger.trackers.see_pod(failed(2, job="other", job_uid="other-uid"))
            await asyncio.sleep(pause)

    api = FakeApi(Answer(0.0, error))
    run(work())
    assert [write.workload for write in api.writes] == ["train", "other", "train"]
    assert api.writes[2].at == pytest.approx(GATHERING + pause)


def test_an_event_during_a_failing_write_does_not_shorten_the_pause_after_it() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
            ledger.trackers.see_pod(failed(2))
            await asyncio.sleep(LONGEST_PAUSE + 2)

    api = FakeApi(Answer(1.0, ApiError(500, "etcd")))
    run(work())
    assert times(api) == [GATHERING, GATHERING + 1 + LONGEST_PAUSE]


def test_repeated_errors_make_the_pauses_longer_and_a_successful_write_makes_them_short_again() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(10)
            see_job(ledger, api.writes[-1].text)
            ledger.trackers.see_pod(failed(2))
            await asyncio.sleep(3)

    api = FakeApi(refused(409), refused(409), refused(409), Answer(), refused(409))
    run(work())
    at = times(api)
    pauses = [round(after - before, 3) for before, after in pairwise(at)]
    assert pauses[:3] == [1, 2, 4]
    assert pauses[-1] == 1


def test_an_answer_that_comes_after_the_watch_event_of_the_write_delays_nothing() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
            see_job(ledger, api.writes[0].text)
            await asyncio.sleep(1)
            ledger.trackers.see_pod(failed(2))
            await asyncio.sleep(2 * INTERVAL)

    api = FakeApi(Answer(after=0.5))
    run(work())
    assert [write.account.ended for write in api.writes] == [1, 2]
    assert api.writes[1].at - api.writes[0].at < WATCH_DELAY


def test_an_account_has_only_one_write_at_a_time_however_long_the_api_takes() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            for number in range(1, 8):
                ledger.trackers.see_pod(failed(number))
                await asyncio.sleep(1)
            await asyncio.sleep(WATCH_DELAY + INTERVAL)

    api = FakeApi(Answer(after=5))
    run(work())
    first, second = api.writes[:2]
    assert second.at >= first.at + 5


def test_a_bug_that_is_found_during_a_write_is_written_with_the_next_write() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger, ONE_RETRY)
            ledger.trackers.see_pod(failed(2))
            await asyncio.sleep(1)
            ledger.trackers.states[KEY].see_verdict(Verdict("train-1"))
            ledger.wake(KEY)
            await asyncio.sleep(2)
            see_job(ledger, api.writes[0].text)
            await asyncio.sleep(INTERVAL)

    api = FakeApi(Answer(after=2))
    run(work())
    assert [write.account.cost for write in api.writes] == [{"retry": 2}, {"retry": 1, "fatal": 1}]


def test_a_leader_that_loses_leadership_during_a_write_writes_nothing_more() -> None:
    async def work() -> None:
        ledger = new_ledger(api)
        async with leading(ledger):
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
            assert len(api.writes) == 1
        ledger.trackers.see_pod(failed(2))
        await asyncio.sleep(LONGEST_PAUSE)
        assert len(api.writes) == 1

    api = FakeApi(Answer(after=10))
    run(work())


@pytest.mark.parametrize("arrived", [True, False])
def test_a_replica_that_leads_again_counts_each_pod_once_after_an_interrupted_write(arrived: bool) -> None:  # noqa: FBT001
    async def work() -> None:
        ledger = new_ledger(api)
        async with leading(ledger):
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
        if arrived:
            see_job(ledger, api.writes[0].text)
        ledger.trackers.see_pod(failed(2))
        async with leading(ledger):
            await asyncio.sleep(2 * INTERVAL)

    api = FakeApi(Answer(after=10))
    run(work())
    _, again = api.writes
    assert again.is_new is not arrived
    assert (again.account.ended, len(set(again.account.recent))) == (2, 2)


def test_a_write_that_was_planned_when_leadership_was_lost_is_dropped() -> None:
    async def work() -> None:
        ledger = new_ledger(api)
        async with leading(ledger):
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
        see_job(ledger, ANOTHER)
        async with leading(ledger):
            await asyncio.sleep(INTERVAL)
        assert now() >= INTERVAL

    api = FakeApi()
    run(work())
    (write,) = api.writes
    assert (write.is_new, write.account.ended) == (False, 2)


def test_a_new_leader_counts_pods_that_ended_before_it_led() -> None:
    async def work() -> None:
        ledger = new_ledger(api)
        see_job(ledger)
        ledger.trackers.see_pod(running_pod(1))
        ledger.trackers.see_pod(failed(1))
        await asyncio.sleep(60)
        assert api.writes == []
        async with leading(ledger):
            await asyncio.sleep(INTERVAL)

    api = FakeApi()
    run(work())
    assert [write.account.ended for write in api.writes] == [1]


def test_a_leader_writes_nothing_until_it_has_read_the_lists() -> None:
    async def work() -> None:
        ledger = new_ledger(api)
        ledger.trackers.pods.synced.clear()
        async with leading(ledger):
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(60)
            assert api.writes == []
            ledger.trackers.pods.synced.set()
            await asyncio.sleep(INTERVAL)

    api = FakeApi()
    run(work())
    assert [write.account.ended for write in api.writes] == [1]


def test_pods_are_counted_after_their_namespace_is_opted_in_later() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, opted_in=False)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(INTERVAL)
            ledger.cluster.namespaces.items["", "ml"] = ("default", None)
            await asyncio.sleep(LONGEST_PAUSE)

    api = FakeApi()
    run(work())
    assert times(api) == [GATHERING + LONGEST_PAUSE]


@pytest.mark.parametrize("turns", range(6))
def test_a_failure_that_only_the_status_shows_is_counted_even_if_the_job_changes_meanwhile(turns: int) -> None:
    """`turns`: iterations of the event loop between the time when the workload is due and the change."""

    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger, status={"failed": 1})
            await asyncio.sleep(GATHERING)
            for _ in range(turns):
                await asyncio.sleep(0)
            see_job(ledger, status={"failed": 1})
            await asyncio.sleep(UNSEEN_AFTER + 1)

    api = FakeApi()
    run(work())
    assert [write.account.ended for write in api.writes] == [1]


def test_the_account_of_a_deleted_workload_is_not_written() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            cached = see_job(ledger)
            ledger.trackers.see_pod(failed(1))
            ledger.cluster.jobs.items.clear()
            ledger.trackers.see_gone(batch.JOB, cached)
            await asyncio.sleep(INTERVAL)
            assert Key(*KEY) not in ledger.trackers.states

    api = FakeApi()
    run(work())
    assert api.writes == []


FAIL = Profile(disruptions=Disruptions(limit=0, on_exceed="Fail"))


def see_disrupted(ledger: Ledger, api: FakeApi) -> None:
    """Add a disrupted pod to the watch, one more than the profile allows; the Job does not change."""
    root = {**job(), "metadata": {**job()["metadata"], "resourceVersion": "7"}}
    api.objects[JOB_PATH] = root
    see_job(ledger)
    ledger.trackers.see_pod(disrupted(1))


def failures(api: FakeApi) -> list[float]:
    return [write.at for write in api.writes if write.path == f"{JOB_PATH}/status"]


def test_a_job_beyond_its_disruption_limit_is_failed_after_its_account_is_written() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, FAIL)) as ledger:
            see_disrupted(ledger, api)
            await asyncio.sleep(INTERVAL)
            see_job(ledger, api.writes[0].text)
            await asyncio.sleep(LONGEST_PAUSE)

    api = FakeApi(Answer(after=0.5))
    run(work())
    assert failures(api) == [pytest.approx(GATHERING + 0.5)]


@pytest.mark.parametrize(("status", "pause"), [(409, INTERVAL), (429, LONGEST_PAUSE), (500, LONGEST_PAUSE)])
def test_failing_a_job_beyond_its_limit_is_tried_again_after_an_error(status: int, pause: float) -> None:
    async def work() -> None:
        async with leading(new_ledger(api, FAIL)) as ledger:
            see_disrupted(ledger, api)
            await asyncio.sleep(GATHERING + 0.01)
            see_job(ledger, api.writes[0].text)
            await asyncio.sleep(pause + INTERVAL)

    api = FakeApi(Answer(), refused(status))
    run(work())
    assert len(api.account_writes()) == 1
    first, second = failures(api)
    assert second - first <= pause + INTERVAL


def test_no_job_is_failed_before_its_account_is_written() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, FAIL)) as ledger:
            see_disrupted(ledger, api)
            await asyncio.sleep(10)

    api = FakeApi(*[refused(409)] * 10)
    run(work())
    assert len(api.account_writes()) > 1
    assert failures(api) == []


def test_a_job_is_suspended_once_its_account_says_so_and_an_event_says_how_to_resume_it() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, Profile(disruptions=Disruptions(limit=0, on_exceed="Suspend")))) as ledger:
            see_disrupted(ledger, api)
            await asyncio.sleep(INTERVAL)
            events = [ledger.events.waiting.get_nowait() for _ in range(ledger.events.waiting.qsize())]
            assert [event.reason for event in events] == ["AttemptEnded", "DisruptionLimitExceeded"]
            assert events[1].message.startswith(
                "suspended: disruptions exceed the limit of 0; to allow as many again: kubectl patch job"
            )

    def suspended() -> float:
        labels = {"action": "Suspended", "reason": "DisruptionLimitExceeded"}
        return counted("retry_policy_ledger_workloads_stopped_total", **labels)

    api, before = FakeApi(), suspended()
    run(work())
    assert suspended() == before + 1
    first, second = api.writes
    assert (first.account.suspending, first.account.suspended) == (True, False)
    assert second.path == JOB_PATH
    assert second.operations == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": VERSION},
        {"op": "add", "path": "/spec/suspend", "value": True},
    ]
