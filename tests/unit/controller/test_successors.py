"""The account of a Job that failed goes on in the Job that replaces it. All times are virtual."""

import asyncio
from typing import Any

import msgspec

from tests.accounts import stored
from tests.unit.accounts.pods import job
from tests.unit.controller.leader import JOB_PATH, FakeApi, leading, new_ledger, see_account, see_job
from tests.virtual_time import run
from webhook.accounts.account import Account
from webhook.accounts.stored import encode
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.kube.informer import Event
from webhook.objects.problem import Json
from webhook.systems.job import spec as batch
from webhook.tracking.workload_state import INTERVAL

SPENT = encode(Account(ended=4, cost={"retry": 3, "fatal": 1}))
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
OLD: Json = {"metadata": {"namespace": "ml", "name": "train", "uid": "old-uid"}}
AT = "2026-01-01T01:00:00Z"
HISTORY = msgspec.json.encode([{"at": AT, "by": "alice", "of": "old-uid"}]).decode()


def see(ledger: Ledger, *, labels: Json | None = None, **metadata: Any) -> None:
    """Let the watch deliver a Job."""
    root = job(None, metadata.pop("status", {}), resourceVersion="7", **metadata)
    root["metadata"]["labels"] = {names.PROFILE: "default", **(labels or {})}
    ledger.cluster.jobs.take(Event("ADDED", msgspec.Raw(msgspec.json.encode(root))))


def placeholder(ledger: Ledger) -> None:
    see(ledger, name="train-retry-old", uid="placeholder-uid", labels={names.RETRY_OF: "old-uid"})


def test_the_placeholder_of_a_retry_keeps_the_account_of_the_failed_job_alive_once() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see(ledger, uid="old-uid", status=FAILED)
            see_account(ledger.trackers, batch.JOB, OLD, SPENT)
            placeholder(ledger)
            await asyncio.sleep(2 * INTERVAL)
            (write,) = api.writes
            assert [one["path"] for one in write.operations] == [
                "/metadata/resourceVersion",
                "/metadata/ownerReferences/-",
            ]
            owner = write.operations[1]["value"]
            assert (owner["name"], owner["uid"], owner["kind"]) == ("train-retry-old", "placeholder-uid", "Job")
            kept = stored(batch.JOB, OLD, SPENT, ownerReferences=[{"uid": "old-uid"}, {"uid": "placeholder-uid"}])
            ledger.trackers.accounts.take(Event("MODIFIED", msgspec.Raw(msgspec.json.encode(kept))))
            placeholder(ledger)
            await asyncio.sleep(2 * INTERVAL)
            assert len(api.writes) == 1

    api = FakeApi()
    run(work())


def test_a_successor_gets_an_account_of_its_own_that_keeps_the_counts_and_begins_its_budgets_anew() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_account(ledger.trackers, batch.JOB, OLD, SPENT)
            known = {"labels": {names.RETRY_OF: "old-uid"}, "annotations": {names.RETRY_OF: "old-uid"}}
            see(ledger, uid="new-uid", creationTimestamp=AT, **known)
            await asyncio.sleep(2 * INTERVAL)
            (write,) = api.writes
            assert write.root is not None
            assert write.root["spec"]["uid"] == "new-uid"
            assert (write.account.ended, write.account.spent("retry"), write.account.spent_now("retry")) == (4, 3, 0)

    api = FakeApi()
    run(work())


def test_no_job_takes_over_the_account_of_a_job_of_another_name() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_account(ledger.trackers, batch.JOB, OLD, SPENT)
            known = {"labels": {names.RETRY_OF: "old-uid"}, "annotations": {names.RETRY_OF: "old-uid"}}
            see(ledger, name="other", uid="new-uid", **known)
            await asyncio.sleep(2 * INTERVAL)

    api = FakeApi()
    run(work())
    assert api.writes == []


def test_the_account_of_a_workload_that_runs_again_in_place_begins_anew_once_for_each_retry() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger, SPENT, uid="old-uid")
            await asyncio.sleep(2 * INTERVAL)
            assert api.writes == []
            see(ledger, uid="old-uid", annotations={names.RETRY_HISTORY: HISTORY})
            (state,) = ledger.trackers.states.values()
            assert state.account.spent_now("retry") == 0  # at once, for the next admission
            await asyncio.sleep(2 * INTERVAL)
            (write,) = api.writes
            assert (write.account.requested_at, write.account.spent_now("retry"), write.account.ended) == (AT, 0, 4)
            see_account(ledger.trackers, batch.JOB, OLD, write.text)
            see(ledger, uid="old-uid", annotations={names.RETRY_HISTORY: HISTORY})
            await asyncio.sleep(2 * INTERVAL)
            assert len(api.writes) == 1

    api = FakeApi()
    run(work())
    assert JOB_PATH not in {write.path for write in api.writes}
