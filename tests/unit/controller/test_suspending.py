"""A Job is suspended in two writes: its account says so first. All times are virtual."""

import asyncio

import pytest

from tests.unit.accounts.pods import disrupted, running_pod
from tests.unit.controller.leader import (
    Answer,
    FakeApi,
    events_of,
    leading,
    new_ledger,
    see_job,
    set_policy,
    spec_writes,
)
from tests.virtual_time import run
from webhook.controller.brake import HELD_FOR
from webhook.controller.ledger import GATHERING
from webhook.kube.client import ApiError
from webhook.policy.model import Disruptions, Emergency, Profile
from webhook.tracking.workload_state import INTERVAL

PROFILE = Profile(disruptions=Disruptions(limit=0, on_exceed="Suspend"))
SOON = 2 * INTERVAL


def intended(api: FakeApi) -> str:
    """Return the account in which a leader that died says that it is about to suspend the Job."""

    async def work() -> None:
        async with leading(new_ledger(api, PROFILE)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(disrupted(1))
            await asyncio.sleep(GATHERING + 0.01)

    run(work())
    (write,) = api.account_writes()
    assert (write.account.suspending, write.account.suspended) == (True, False)
    return write.text


def test_a_leader_that_dies_between_the_two_writes_leaves_the_suspension_to_the_next_one() -> None:
    text = intended(FakeApi(Answer(), Answer(after=60)))  # it dies while the API server suspends the Job

    async def work() -> None:
        async with leading(new_ledger(api, PROFILE)) as ledger:
            see_job(ledger, text)
            ledger.trackers.see_pod(disrupted(1))
            await asyncio.sleep(SOON)
            assert len(spec_writes(api)) == 1
            see_job(ledger, text, spec={"suspend": True})
            await asyncio.sleep(SOON)
            (write,) = api.account_writes()
            assert (write.account.suspending, write.account.suspended) == (False, True)
            assert [one.status for one in write.account.conditions if one.type == "Suspended"] == ["True"]
            see_job(ledger, write.text)  # a person has resumed it
            await asyncio.sleep(SOON)
            resumed = api.account_writes()[-1].account
            assert (resumed.suspended, resumed.grants, resumed.scopes.of("")) == (False, 1, 0)
            assert [reason for reason, _ in events_of(ledger)] == ["DisruptionLimitExceeded"]

    api = FakeApi()
    run(work())
    assert len(spec_writes(api)) == 1


def test_a_leader_that_dies_after_both_writes_leaves_only_the_account_to_the_next_one() -> None:
    text = intended(FakeApi())

    async def work() -> None:
        async with leading(new_ledger(api, PROFILE)) as ledger:
            see_job(ledger, text, spec={"suspend": True})
            await asyncio.sleep(SOON)

    api = FakeApi()
    run(work())
    (write,) = api.writes
    assert (write.account.suspending, write.account.suspended, write.account.ended) == (False, True, 1)


@pytest.mark.parametrize("status", [409, 422])
def test_a_job_that_has_changed_is_suspended_once_the_watch_has_delivered_it(status: int) -> None:
    async def work() -> None:
        async with leading(new_ledger(api, PROFILE)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(disrupted(1))
            await asyncio.sleep(GATHERING + 0.01)
            see_job(ledger, api.account_writes()[0].text)
            await asyncio.sleep(SOON)

    api = FakeApi(Answer(), Answer(error=ApiError(status, "it has changed")))
    run(work())
    assert len(spec_writes(api)) == 2
    assert len(api.account_writes()) == 1


def test_the_intention_is_withdrawn_once_the_profile_suspends_no_job() -> None:
    text = intended(FakeApi(Answer(), Answer(after=60)))

    async def work() -> None:
        async with leading(new_ledger(api, Profile())) as ledger:
            see_job(ledger, text)
            ledger.wake(next(iter(ledger.trackers.states)))
            await asyncio.sleep(SOON)

    api = FakeApi()
    run(work())
    (write,) = api.writes
    assert (write.account.suspending, write.account.suspended) == (False, False)


def test_a_suspension_that_was_begun_waits_while_actions_are_stopped_and_while_a_pod_runs() -> None:
    text = intended(FakeApi(Answer(), Answer(after=60)))

    async def work() -> None:
        async with leading(new_ledger(api, PROFILE)) as ledger:
            set_policy(ledger, emergency=Emergency(actions="Stop"))
            see_job(ledger, text)
            await asyncio.sleep(60)
            set_policy(ledger, emergency=Emergency())
            ledger.trackers.see_pod(running_pod(2))
            await asyncio.sleep(60)
            assert api.writes == []
            ledger.trackers.see_pod_gone(disrupted(2))
            await asyncio.sleep(HELD_FOR + SOON)
            assert len(spec_writes(api)) == 1

    api = FakeApi()
    run(work())
