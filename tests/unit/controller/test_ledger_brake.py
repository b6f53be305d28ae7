"""What the leader leaves undone while it may not act, and when it makes up for it. All times are virtual."""

import asyncio

import pytest

from tests.unit.accounts.pods import disrupted, job, running_pod
from tests.unit.accounts.test_settling import WITHIN, crashed, tell
from tests.unit.controller.leader import (
    BOOKMARK,
    JOB_PATH,
    FakeApi,
    events_of,
    leading,
    new_ledger,
    see_job,
    set_policy,
)
from tests.virtual_time import run
from webhook.controller.brake import HELD_FOR, REPORTED, STOPPED, WINDOW
from webhook.controller.ledger import GATHERING, Ledger
from webhook.objects.problem import Json
from webhook.policy.model import Disruptions, Emergency, Profile, RateLimit
from webhook.tracking.workload_state import INTERVAL, LONGEST_PAUSE, WATCH_DELAY

STOP, RUN = Emergency(actions="Stop"), Emergency()
FAIL, SUSPEND = (Disruptions(limit=0, on_exceed=action) for action in ("Fail", "Suspend"))
FAILS_IT = "would fail it: pod ml/train-1: disruption 1 exceeds the limit of 0"


def see_disrupted(ledger: Ledger, api: FakeApi, name: str = "train", number: int = 1) -> None:
    """Add a Job with a disrupted pod to the watch, one more than its profile allows."""
    root = job(name=name, uid=f"{name}-uid")
    api.objects[f"{JOB_PATH.removesuffix('train')}{name}"] = {
        **root,
        "metadata": {**root["metadata"], "resourceVersion": "7"},
    }
    see_job(ledger, name=name, uid=f"{name}-uid")
    ledger.trackers.see_pod(disrupted(number, job=name, job_uid=f"{name}-uid"))


async def written(ledger: Ledger, api: FakeApi, name: str = "train") -> None:
    """Let the ledger count the pod of a Job, and the watch deliver the account."""
    await asyncio.sleep(GATHERING + 0.01)
    (write,) = api.accounts_of(name)
    see_job(ledger, write.text, name=name, uid=f"{name}-uid")


def failures(api: FakeApi) -> list[float]:
    return [write.at for write in api.writes if write.path.endswith("/status")]


def suspensions(api: FakeApi) -> list[Json]:
    return [one for write in api.writes for one in write.operations if one["path"] == "/spec/suspend"]


def test_while_actions_are_stopped_pods_are_counted_and_no_job_is_failed_until_they_are_allowed_again() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, Profile(disruptions=FAIL))) as ledger:
            set_policy(ledger, emergency=STOP)
            see_disrupted(ledger, api)
            await written(ledger, api)
            await asyncio.sleep(600)
            assert failures(api) == []
            assert [message for reason, message in events_of(ledger) if reason == "ActionNotTaken"] == [
                f"{FAILS_IT}; {STOPPED}"
            ]
            set_policy(ledger, emergency=RUN)
            await asyncio.sleep(HELD_FOR + INTERVAL)
            assert len(failures(api)) == 1
            await asyncio.sleep(600)

    api = FakeApi()
    run(work())
    assert len(failures(api)) == 1
    assert len(api.account_writes()) == 1


def test_a_suspension_that_was_held_is_made_up_for_with_its_event() -> None:
    async def work() -> None:
        profile = Profile(disruptions=Disruptions(limit=1, on_exceed="Suspend"))
        async with leading(new_ledger(api, profile)) as ledger:
            set_policy(ledger, emergency=STOP)
            see_disrupted(ledger, api)
            ledger.trackers.see_pod(disrupted(2, job_uid="train-uid"))
            await written(ledger, api)
            await asyncio.sleep(60)
            assert suspensions(api) == []
            assert ("ActionNotTaken", f"would suspend it: disruptions exceed the limit of 1; {STOPPED}") in events_of(
                ledger
            )
            set_policy(ledger, emergency=RUN)
            await asyncio.sleep(HELD_FOR + INTERVAL)
            ((reason, message),) = events_of(ledger)
            assert reason == "DisruptionLimitExceeded"
            assert message.startswith("suspended: disruptions exceed the limit of 1; ")

    api = FakeApi()
    run(work())
    assert len(suspensions(api)) == 1
    assert [write.account.suspending for write in api.account_writes()] == [False, True]


def test_a_suspension_that_was_held_is_dropped_once_the_next_pod_runs() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, Profile(disruptions=SUSPEND))) as ledger:
            set_policy(ledger, emergency=STOP)
            see_disrupted(ledger, api)
            await written(ledger, api)
            ledger.trackers.see_pod(running_pod(2, job_uid="train-uid"))
            set_policy(ledger, emergency=RUN)
            await asyncio.sleep(60)

    api = FakeApi()
    run(work())
    assert suspensions(api) == []


def test_a_profile_that_only_reports_fails_no_job_and_says_once_what_it_would_do() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, Profile(disruptions=FAIL, actions="Report"))) as ledger:
            see_disrupted(ledger, api)
            await written(ledger, api)
            await asyncio.sleep(600)
            assert [message for reason, message in events_of(ledger) if reason == "ActionNotTaken"] == [
                f"{FAILS_IT}; {REPORTED}"
            ]

    api = FakeApi()
    run(work())
    assert failures(api) == []


def test_what_a_profile_only_reported_is_done_once_it_acts() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, Profile(disruptions=FAIL, actions="Report"))) as ledger:
            see_disrupted(ledger, api)
            await written(ledger, api)
            await asyncio.sleep(60)
            set_policy(ledger, profiles={"default": Profile(disruptions=FAIL)})
            await asyncio.sleep(HELD_FOR + INTERVAL)

    api = FakeApi()
    run(work())
    assert len(failures(api)) == 1


def test_actions_beyond_the_rate_limit_follow_a_minute_later() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, Profile(disruptions=FAIL))) as ledger:
            set_policy(ledger, rate_limit=RateLimit(cluster=100, namespace=2))
            names = ("one", "two", "three")
            for number, name in enumerate(names):
                see_disrupted(ledger, api, name, number)
            await asyncio.gather(*(written(ledger, api, name) for name in names))
            await asyncio.sleep(WINDOW + HELD_FOR + INTERVAL)
            assert [reason for reason, _ in events_of(ledger)] == ["AttemptEnded"] * 3

    api = FakeApi()
    run(work())
    first, second, third = failures(api)
    assert second - first < INTERVAL
    assert third - second >= WINDOW


def test_a_new_pod_of_a_job_that_is_held_is_counted() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, Profile(disruptions=FAIL))) as ledger:
            set_policy(ledger, emergency=STOP)
            see_disrupted(ledger, api)
            await written(ledger, api)
            ledger.trackers.see_pod(disrupted(2, job_uid="train-uid"))
            await asyncio.sleep(HELD_FOR + INTERVAL)

    api = FakeApi()
    run(work())
    assert [write.account.ended for write in api.account_writes()] == [1, 2]


@pytest.mark.parametrize("emergency", [STOP, RUN])
def test_a_crash_that_is_a_bug_is_settled_only_while_actions_are_allowed(emergency: Emergency) -> None:
    async def work() -> None:
        async with crashed(api) as ledger:
            set_policy(ledger, emergency=emergency)
            await asyncio.sleep(WITHIN)
            await asyncio.sleep(WATCH_DELAY - INTERVAL)
            tell(api, BOOKMARK)
            await asyncio.sleep(WATCH_DELAY)
            assert len(failures(api)) == (emergency == RUN)
            told = [message for reason, message in events_of(ledger) if reason == "ActionNotTaken"]
            assert len(told) == (emergency == STOP)
            assert all(
                message.startswith("would fail it: Container main for pod ml/train-1 failed") for message in told
            )
            set_policy(ledger, emergency=RUN)
            await asyncio.sleep(LONGEST_PAUSE + INTERVAL)
            assert ledger.crashes.pending == {}

    api = FakeApi()
    run(work())
    assert len(failures(api)) == 1


def test_with_the_default_limits_500_jobs_of_a_namespace_that_lose_their_nodes_together_are_done_in_a_minute() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, Profile(disruptions=FAIL))) as ledger:
            for number in range(jobs):
                see_disrupted(ledger, api, f"job-{number}", number)
            await asyncio.sleep(INTERVAL)
            for write in api.account_writes():
                name = write.workload
                see_job(ledger, write.text, name=name, uid=f"{name}-uid")
            await asyncio.sleep(WINDOW + HELD_FOR + INTERVAL)

    api, jobs = FakeApi(), 500
    run(work())
    assert len(failures(api)) == jobs
    first = failures(api)[0]
    assert sum(at < first + WINDOW for at in failures(api)) == RateLimit().namespace
