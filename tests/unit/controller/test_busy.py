"""What the leader does while the API server is busy: it waits as long as that asks, and loses and repeats nothing."""

import asyncio

import pytest

from tests.unit.accounts.pods import disrupted, failed
from tests.unit.accounts.test_settling import WITHIN, crashed, failures, tell
from tests.unit.controller.leader import BOOKMARK, Answer, FakeApi, Write, leading, new_ledger, see_job
from tests.unit.controller.test_waiting import DELAY, act, gated, ledger, see
from tests.virtual_time import now, run
from webhook.controller.ledger import GATHERING, WRITERS, Ledger
from webhook.controller.waiting import AT_ONCE
from webhook.kube.client import ApiError
from webhook.policy.model import Profile
from webhook.tracking.workload_state import INTERVAL, WATCH_DELAY

JOBS = 100


def busy(seconds: float) -> Answer:
    return Answer(0.0, ApiError(429, "too many requests", seconds))


class BusyApi(FakeApi):
    """Refuses each write before the second `until`, and wants it again after `seconds`; later ones reach the watch."""

    def __init__(self, until: float, seconds: float) -> None:
        super().__init__()
        self.until = until
        self.seconds = seconds
        self.ended: dict[str, list[int]] = {}  # what the stored accounts of a Job say, oldest first
        self.ledger: Ledger | None = None

    async def take(self, write: Write) -> None:
        if now() < self.until:
            self.answers.append(busy(self.seconds))
        await super().take(write)
        assert self.ledger is not None
        name = write.workload
        self.ended.setdefault(name, []).append(write.account.ended)
        see_job(self.ledger, write.text, name=name, uid=f"uid-of-{name}")


@pytest.mark.parametrize("seconds", [1.0, 4.0, 32.0])
def test_a_refused_account_is_written_again_after_the_seconds_that_the_api_server_says(seconds: float) -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as found:
            see_job(found)
            found.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 1.5 * seconds + 0.1)

    api = FakeApi(busy(seconds))
    run(work())
    first, second = api.writes
    assert seconds <= second.at - first.at <= 1.5 * seconds + 0.01
    assert second.account.ended == 1


def test_the_write_after_a_refused_one_counts_what_has_ended_meanwhile() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as found:
            see_job(found)
            found.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
            found.trackers.see_pod(disrupted(2))
            await asyncio.sleep(6)

    api = FakeApi(busy(3.0))
    run(work())
    assert [(write.is_new, write.account.ended) for write in api.writes] == [(True, 1), (True, 2)]


def test_many_accounts_do_not_hammer_a_busy_api_server_and_each_is_written_once_after_it() -> None:
    until, seconds = 20.0, 2.0

    async def work() -> None:
        api.ledger = new_ledger(api)
        async with leading(api.ledger) as found:
            for number in range(JOBS):
                see_job(found, name=f"job-{number}", uid=f"uid-of-job-{number}")
                found.trackers.see_pod(failed(number, job=f"job-{number}", job_uid=f"uid-of-job-{number}"))
            await asyncio.sleep(until + 30)

    api = BusyApi(until, seconds)
    run(work())
    refused = [write for write in api.writes if write.at < until]
    assert WRITERS <= len(refused) <= WRITERS * (until / seconds + 1)
    assert api.ended == {f"job-{number}": [1] for number in range(JOBS)}


def test_a_leader_that_steps_down_while_it_waits_writes_nothing_more() -> None:
    async def work() -> None:
        found = new_ledger(api)
        async with leading(found):
            see_job(found)
            found.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + 0.01)
        await asyncio.sleep(60)

    api = FakeApi(busy(5.0))
    run(work())
    assert len(api.writes) == 1


def test_a_bug_that_could_not_fail_its_job_does_so_when_the_api_server_asks_for_it() -> None:
    async def work() -> None:
        async with crashed(api):
            await asyncio.sleep(WITHIN)
            api.answers.append(busy(6.0))
            tell(api, BOOKMARK)
            await asyncio.sleep(WATCH_DELAY + 9 + 2 * INTERVAL)

    api = FakeApi()
    run(work())
    first, second = failures(api)
    assert 6.0 <= second.at - first.at <= 9.0 + INTERVAL
    assert first.operations[0] == second.operations[0]


def test_waiting_pods_wait_together_while_the_api_server_is_busy() -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,)))
        for number in range(5 * AT_ONCE):
            see(found, gated(until=0, number=number))
        await act(found, 60)

    api = FakeApi(*[busy(10.0)] * AT_ONCE)
    run(work())
    assert len([write for write in api.writes if write.at < 10]) == AT_ONCE
    assert len({write.path for write in api.writes}) == 5 * AT_ONCE
