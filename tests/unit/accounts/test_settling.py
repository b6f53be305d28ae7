"""When the leader decides that a crash was a bug: after the time in which it would have seen a disruption."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from tests.objects import DISRUPTION, exit_codes
from tests.unit.accounts.pods import job
from tests.unit.controller.leader import (
    BOOKMARK,
    JOB_PATH,
    Answer,
    FakeApi,
    Write,
    new_ledger,
    running,
    see_job,
    stored_pod,
    watch_event,
)
from tests.virtual_time import run
from webhook.controller.crashes import REMEMBERED
from webhook.controller.ledger import Ledger
from webhook.kube.client import ApiError
from webhook.policy.model import Duration, FailurePolicy, Profile
from webhook.tracking.workload_state import INTERVAL, LONGEST_PAUSE, WATCH_DELAY

PODS = "/api/v1/pods"
WATCHED = 60  # seconds
LONG = Duration(1200)
WITHIN = 30  # seconds: settleWithin of the packaged policy
COUPLED = {
    "completionMode": "Indexed",
    "completions": 4,
    "parallelism": 4,
    "podFailurePolicy": {"rules": [DISRUPTION]},
}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@asynccontextmanager
async def crashed(api: FakeApi, profile: Profile | None = None, **fields: Any) -> AsyncIterator[Ledger]:
    """Yield a leader that watched before one of four coupled pods ended with exit code 1."""
    spec = {**COUPLED, **fields}
    api.objects[JOB_PATH] = {**job(spec), "metadata": {**job()["metadata"], "resourceVersion": "7"}}
    async with running(new_ledger(api, profile)) as ledger:
        see_job(ledger, spec=spec)
        for number in (1, 2):
            tell(api, watch_event("ADDED", stored_pod(number)))
        await watch(api, WATCHED if profile is None else LONG)
        tell(api, watch_event("MODIFIED", stored_pod(1, "Failed", 1)))
        await asyncio.sleep(INTERVAL)
        see_job(ledger, api.account_writes()[-1].text, spec=spec)
        yield ledger


def tell(api: FakeApi, event: Any) -> None:
    api.watches[PODS].put_nowait(event)


async def watch(api: FakeApi, seconds: int) -> None:
    """Let time pass, with a bookmark each minute, as the API server sends it."""
    for _ in range(seconds // 60):
        tell(api, BOOKMARK)
        await asyncio.sleep(60)


def pod_writes(api: FakeApi) -> list[Write]:
    return [write for write in api.writes if "/pods/" in write.path]


def failures(api: FakeApi) -> list[Write]:
    return [write for write in api.writes if write.path == f"{JOB_PATH}/status"]


def test_a_crash_that_no_disruption_explains_fails_the_job_after_a_later_watch_event() -> None:
    async def work() -> None:
        async with crashed(api) as ledger:
            await asyncio.sleep(WITHIN)
            (mark,) = pod_writes(api)
            assert mark.at >= WATCHED + WITHIN
            await asyncio.sleep(WATCH_DELAY - INTERVAL)
            assert failures(api) == []
            tell(api, BOOKMARK)
            await asyncio.sleep(WATCH_DELAY)
            assert ledger.crashes.pending == {}

    api = FakeApi()
    run(work())
    (failure,) = failures(api)
    test, condition = failure.operations
    assert test == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert (condition["value"][0]["type"], condition["value"][0]["reason"]) == ("FailureTarget", "PodFailurePolicy")
    last = api.account_writes()[-1]
    assert last.at > failure.at
    assert last.account.cost == {"fatal": 1}


def test_a_crash_fails_the_job_also_if_a_disruption_twenty_minutes_away_would_explain_it() -> None:
    async def work() -> None:
        profile = Profile(failure_policy=FailurePolicy(settle_within=LONG))
        async with crashed(api, profile):
            await watch(api, LONG)
            assert failures(api) == []
            await watch(api, WATCHED)

    api = FakeApi()
    run(work())
    assert len(failures(api)) == 1


def event_message(ledger: Ledger) -> str:
    (event,) = [ledger.events.waiting.get_nowait() for _ in range(ledger.events.waiting.qsize())]
    return event.message


@pytest.mark.parametrize(
    "fields",
    [
        {"podFailurePolicy": {"rules": [DISRUPTION, exit_codes("Count", "In", 1)]}},
        {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
    ],
    ids=["a rule of its author matches it", "the Job may still succeed"],
)
def test_the_event_about_a_crash_that_is_not_settled_announces_no_verdict(fields: Any) -> None:
    async def work() -> None:
        async with crashed(api, **fields) as ledger:
            assert "bug" not in event_message(ledger)

    api = FakeApi()
    run(work())


def test_the_event_about_a_crash_says_that_its_cost_is_not_decided_yet() -> None:
    async def work() -> None:
        async with crashed(api) as ledger:
            assert event_message(ledger).endswith(
                "; it is a bug, which ends the Job, if no other pod of it is disrupted within 30 s before or after it"
            )

    api = FakeApi()
    run(work())


def test_a_crash_close_to_the_disruption_of_another_pod_is_left_to_the_job_controller() -> None:
    async def work() -> None:
        async with crashed(api) as ledger:
            await asyncio.sleep(WITHIN - 5)
            pod = stored_pod(2)
            pod["status"]["conditions"] = [DISRUPTED]
            tell(api, watch_event("MODIFIED", pod))
            await asyncio.sleep(WITHIN)
            assert ledger.crashes.pending == {}

    api = FakeApi()
    run(work())
    assert failures(api) == []


def test_a_crash_is_not_judged_if_the_watch_was_lost_close_to_it() -> None:
    async def work() -> None:
        async with crashed(api) as ledger:
            assert len(ledger.crashes.pending) == 1
            api.lists[PODS] = [stored_pod(1, "Failed", 1), stored_pod(2)]
            tell(api, TimeoutError())
            await asyncio.sleep(WITHIN)
            tell(api, BOOKMARK)
            await asyncio.sleep(2 * WATCH_DELAY)
            assert ledger.crashes.pending == {}

    api = FakeApi()
    run(work())
    assert failures(api) == []


def test_while_the_watch_is_silent_the_pod_is_patched_again_and_the_crash_is_not_judged() -> None:
    async def work() -> None:
        async with crashed(api) as ledger:
            await asyncio.sleep(WITHIN + 3 * WATCH_DELAY)
            assert len(ledger.crashes.pending) == 1

    api = FakeApi()
    run(work())
    assert failures(api) == []
    at = [write.at for write in pod_writes(api)]
    assert len(at) >= 3
    assert all(after - before >= WATCH_DELAY for before, after in pairwise(at))


@pytest.mark.parametrize(("status", "pause"), [(409, INTERVAL), (429, LONGEST_PAUSE), (500, LONGEST_PAUSE)])
def test_failing_a_job_is_tried_again_after_an_error(status: int, pause: float) -> None:
    async def work() -> None:
        async with crashed(api):
            await asyncio.sleep(WITHIN)
            api.answers.append(Answer(0.0, ApiError(status, "no")))
            tell(api, BOOKMARK)
            await asyncio.sleep(WATCH_DELAY + pause + INTERVAL)

    api = FakeApi()
    run(work())
    first, second = failures(api)
    assert pause <= second.at - first.at <= pause + INTERVAL
    assert first.operations[0] == second.operations[0]


def test_a_replica_fails_a_job_only_after_it_has_become_the_leader() -> None:
    async def work() -> None:
        async with crashed(api) as ledger:
            ledger.queue.close()
            await asyncio.sleep(WITHIN)
            tell(api, BOOKMARK)
            await asyncio.sleep(60)
            assert failures(api) == pod_writes(api) == []
            ledger.queue.open()
            await asyncio.sleep(INTERVAL)

    api = FakeApi()
    run(work())
    assert len(failures(api)) == 1


def test_a_replica_that_never_leads_forgets_a_crash_in_the_end() -> None:
    async def work() -> None:
        async with crashed(FakeApi()) as ledger:
            ledger.queue.close()
            await asyncio.sleep(WITHIN + REMEMBERED - 10)
            assert len(ledger.crashes.pending) == 1
            await asyncio.sleep(20)
            assert ledger.crashes.pending == {}

    run(work())
