"""When the leader fails a Job by the rules of onFailure: as soon as the end of the pod is in the account."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from msgspec.structs import replace

from tests.objects import DISRUPTION
from tests.unit.accounts.pods import job
from tests.unit.controller.leader import (
    JOB_PATH,
    KEY,
    PODS,
    Answer,
    FakeApi,
    failures,
    new_ledger,
    running,
    see_job,
    stored_pod,
    tell,
    watch_event,
)
from tests.virtual_time import run
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.policy.model import FailureRule, Match, Next, Profile, Retries
from webhook.tracking.workload_state import INTERVAL

EVICTED: Final = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
PROFILE: Final = Profile(
    on_failure=(
        FailureRule(match=Match(cause="OOMKilled"), next=Next(avoid="Node")),
        FailureRule(match=Match(cause="Disruption", reasons=("EvictionByEvictionAPI",)), next=Next(cost="Fatal")),
    )
)
SPEC: Final[Json] = {"podFailurePolicy": {"rules": [DISRUPTION]}, "parallelism": 2, "completions": 2}


@asynccontextmanager
async def watching(api: FakeApi, spec: Json = SPEC, profile: Profile = PROFILE) -> AsyncIterator[Ledger]:
    """Yield a leader that has just begun to watch two pods which do not depend on each other."""
    api.objects[JOB_PATH] = {**job(spec), "metadata": {**job()["metadata"], "resourceVersion": "7"}}
    async with running(new_ledger(api, profile)) as ledger:
        see_job(ledger, spec=spec)
        for number in (1, 2):
            tell(api, watch_event("ADDED", stored_pod(number)))
        await asyncio.sleep(INTERVAL)
        yield ledger


def ends(api: FakeApi, number: int, code: int, reason: str = "Error", progress: str = "0") -> None:
    pod = stored_pod(number, "Failed", code)
    pod["metadata"].setdefault("annotations", {})[names.PROGRESS] = progress
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = reason
    tell(api, watch_event("MODIFIED", pod))


async def counted(api: FakeApi, ledger: Ledger, spec: Json = SPEC) -> None:
    """Wait until the account is written, and let the watch deliver it."""
    await asyncio.sleep(INTERVAL)
    see_job(ledger, api.account_writes()[-1].text, spec=spec)
    await asyncio.sleep(2 * INTERVAL)


def test_an_end_that_no_rule_retries_fails_the_job_whatever_happens_to_other_pods() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            ends(api, 1, 137)
            disturbed = stored_pod(2)
            disturbed["status"]["conditions"] = [{**EVICTED, "reason": "PreemptionByScheduler"}]
            tell(api, watch_event("MODIFIED", disturbed))
            await counted(api, ledger)
            assert ledger.crashes.pending == {}

    api = FakeApi()
    run(work())
    (failure,) = failures(api)
    assert failure.at < 5 * INTERVAL
    message = failure.operations[1]["value"][0]["message"]
    assert message == "Container main for pod ml/train-1 failed with exit code 137, and no rule of onFailure retries it"
    assert api.account_writes()[-1].account.cost == {"fatal": 1}


def test_an_end_is_judged_only_once_the_account_has_it() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            ends(api, 1, 137)
            await asyncio.sleep(4 * INTERVAL)
            assert len(ledger.crashes.pending) == 1

    api = FakeApi()
    run(work())
    assert failures(api) == []


def test_a_job_without_a_retry_left_is_failed_by_its_own_controller_alone() -> None:
    """Which of the two came first would else decide whether its reason is BackoffLimitExceeded."""

    async def work() -> None:
        async with watching(api, spec) as ledger:
            ends(api, 1, 137)
            await counted(api, ledger, spec)
            ended = {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"}
            see_job(ledger, api.account_writes()[-1].text, spec=spec, status={"failed": 1, "conditions": [ended]})
            await asyncio.sleep(10 * INTERVAL)
            assert ledger.crashes.pending == {}

    api, spec = FakeApi(), {**SPEC, "backoffLimit": 0}
    run(work())
    assert api.account_writes()[-1].account.cost == {"fatal": 1}
    assert failures(api) == []


def test_a_bug_fails_a_job_that_gets_its_retries_back_by_the_same_attempt() -> None:
    """The leader may raise backoffLimit before the Job controller has seen that the pod failed."""

    async def work() -> None:
        async with watching(api, spec, replace(PROFILE, retries=Retries(renew_on_progress=True))) as ledger:
            ends(api, 1, 137, "OOMKilled", progress="0.2")
            await counted(api, ledger, spec)
            ends(api, 2, 137, progress="0.6")
            await counted(api, ledger, spec)
            assert [one.account.cost for one in api.account_writes()[1:]] == [{"retry": 2}, {"retry": 1, "fatal": 1}]
            (raised,) = [write for write in api.writes if write.path == JOB_PATH]
            assert raised.operations[-1] == {"op": "replace", "path": "/spec/backoffLimit", "value": 2}

    api, spec = FakeApi(), {**SPEC, "backoffLimit": 1, "parallelism": 1, "completions": 1}
    run(work())
    assert len(failures(api)) == 1


def test_an_end_that_a_rule_retries_fails_nothing() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            ends(api, 1, 137, "OOMKilled")
            await counted(api, ledger)
            assert ledger.crashes.pending == {}

    api = FakeApi()
    run(work())
    assert failures(api) == []


def test_a_fatal_disruption_fails_the_job_although_its_pod_is_deleted_meanwhile() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            pod = stored_pod(1, "Failed", 137, deletionTimestamp="2026-01-01T00:01:00Z")
            pod["status"]["conditions"] = [EVICTED]
            tell(api, watch_event("MODIFIED", pod))
            tell(api, watch_event("DELETED", pod))
            await counted(api, ledger)

    api = FakeApi()
    run(work())
    (failure,) = failures(api)
    assert "was disrupted (EvictionByEvictionAPI), which rule 1 of onFailure makes fatal" in str(failure.operations)
    assert api.account_writes()[-1].account.cost == {"fatal": 1}


@pytest.mark.parametrize("status", [409, 500])
def test_a_job_that_could_not_be_failed_is_failed_later(status: int) -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            ends(api, 1, 137)
            await counted(api, ledger)
            await asyncio.sleep(60)
            assert ledger.crashes.pending == {}

    api = FakeApi(Answer(), Answer(error=ApiError(status, "no")))
    run(work())
    assert len(failures(api)) == 2


def test_the_event_about_an_end_says_that_no_rule_retries_it() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            ends(api, 1, 137)
            await asyncio.sleep(INTERVAL)
            message = ledger.events.waiting.get_nowait().message
            assert "; no rule of onFailure retries it, which ends the Job" in message

    api = FakeApi()
    run(work())


def test_the_end_of_an_init_container_is_not_judged_and_its_event_does_not_say_that_it_ends_the_job() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            pod = stored_pod(1, "Failed", 4)
            pod["status"]["initContainerStatuses"] = pod["status"].pop("containerStatuses")
            tell(api, watch_event("MODIFIED", pod))
            await asyncio.sleep(INTERVAL)
            assert "ends the Job" not in ledger.events.waiting.get_nowait().message
            await counted(api, ledger)

    api = FakeApi()
    run(work())
    assert failures(api) == []


@asynccontextmanager
async def begun_after(api: FakeApi, pod: Json) -> AsyncIterator[Ledger]:
    """Yield a leader that finds a pod in its first list."""
    api.objects[JOB_PATH] = {**job(SPEC), "metadata": {**job()["metadata"], "resourceVersion": "7"}}
    api.lists[PODS] = [pod]
    ledger = new_ledger(api, PROFILE)
    ledger.trackers.pods.synced.clear()
    see_job(ledger, spec=SPEC)
    async with running(ledger):
        await asyncio.sleep(20 * INTERVAL)  # a deletion is counted after its Job may have said why
        see_job(ledger, api.account_writes()[-1].text, spec=SPEC)
        await asyncio.sleep(3 * INTERVAL)
        yield ledger


def test_an_end_while_nobody_watched_is_judged_by_the_next_leader() -> None:
    async def work() -> None:
        async with begun_after(api, stored_pod(1, "Failed", 137)) as ledger:
            assert ledger.crashes.pending == {}

    api = FakeApi()
    run(work())
    (failure,) = failures(api)
    assert "failed with exit code 137, and no rule of onFailure retries it" in str(failure.operations)


def test_a_deletion_while_nobody_watched_is_no_crash() -> None:
    async def work() -> None:
        async with begun_after(api, stored_pod(1, "Failed", 137, deletionTimestamp="2026-01-01T00:01:00Z")):
            pass

    api = FakeApi()
    run(work())
    assert failures(api) == []


@pytest.mark.parametrize(("spec", "recorded"), [({}, 1), ({"completionMode": "Indexed"}, 0)])
def test_an_unwatched_crash_is_left_alone_where_a_disruption_may_have_caused_it(spec: Json, recorded: int) -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi(), PROFILE)
        see_job(ledger, spec={**SPEC, **spec})
        pod = pods.read(stored_pod(1, "Failed", 1, labels={"batch.kubernetes.io/job-name": "train"}))
        ledger.crashes.see_unwatched(KEY, ledger.trackers.state_of(KEY), [pod])
        assert len(ledger.crashes.pending) == recorded

    run(work())


def test_what_a_leader_has_counted_is_not_judged_again_by_the_next_one() -> None:
    async def work() -> None:
        async with begun_after(api, stored_pod(1, "Failed", 137)):
            text = api.account_writes()[-1].text
        after.objects[JOB_PATH] = api.objects[JOB_PATH]
        after.lists[PODS] = api.lists[PODS]
        ledger = new_ledger(after, PROFILE)
        see_job(ledger, text, spec=SPEC)
        async with running(ledger):
            await asyncio.sleep(5 * INTERVAL)

    api, after = FakeApi(), FakeApi()
    run(work())
    assert len(failures(api)) == 1
    assert failures(after) == []
