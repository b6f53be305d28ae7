"""The accounts beside workloads: when an Account is created, changed and deleted. All times are virtual."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.accounts import stored
from tests.metrics import counted
from tests.unit.ledger.leader import FakeApi, Write, beside, events_of, leading, new_ledger, see_job, stored_pod
from tests.unit.ledger.pods import disrupted
from tests.virtual_time import run
from webhook.kinds import batch
from webhook.kinds.accounts import account
from webhook.kinds.accounts.airflow import DAG_RUN
from webhook.kinds.flyte import FLYTE_WORKFLOW
from webhook.kinds.places import Place
from webhook.kube.bulkhead import repeat
from webhook.kube.informer import Event
from webhook.ledger.controller import Ledger
from webhook.ledger.model import pods
from webhook.ledger.model.account import Account, Attempt
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.stored.status import decode
from webhook.ledger.model.tracker import Key
from webhook.ledger.store import cached, store
from webhook.ledger.tracking import trackers
from webhook.ledger.tracking.admission_counts import AdmissionCounts
from webhook.objects.problem import Json
from webhook.policy.model import Disruptions, Profile

ACCOUNTS = "/apis/retry-policy.dev/v1alpha1/namespaces/ml/accounts"
RUN = "etl.one"
KEY = Key("ml", DAG_RUN, RUN)
PLACE = Place(DAG_RUN, RUN, RUN, "load (pod)", "etl")
NOW = 1_800_000_000.0  # Unix time: long after the pods of these tests ended
FAIL = Profile(disruptions=Disruptions(limit=0, on_exceed="Fail"))
SUSPEND = Profile(disruptions=Disruptions(limit=0, on_exceed="Suspend"))
EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "lastTransitionTime": "2026-01-01T00:01:00Z",
}


def of_airflow(number: int, code: int = 1, run: str = "one", **metadata: Any) -> Pod:
    """Return the pod of a try of the task `load`; it runs with the code 0."""
    labels = {"dag_id": "etl", "run_id": run, "task_id": "load", "try_number": str(number + 1)}
    root = stored_pod(number, "Failed" if code else "Running", code, finalizers=[], labels=labels, **metadata)
    root["metadata"] |= {"ownerReferences": [], "uid": f"{run}-{number}"}
    return pods.read(root)


def of_flyte(number: int, code: int = 137, **status: Any) -> Pod:
    """Return the pod of an attempt of the node `n0`."""
    owner = {"apiVersion": "flyte.lyft.com/v1alpha1", "kind": "flyteworkflow", "name": "f1", "uid": "u-1"}
    root = stored_pod(number, "Failed", code, finalizers=[], ownerReferences=[{**owner, "controller": True}])
    root["metadata"]["name"] = f"f1-n0-{number}"
    root["status"] |= status
    return pods.read(root)


def deliver(ledger: Ledger, root: Json, kind: str = "ADDED") -> None:
    """Let the watch deliver an Account."""
    metadata = {"uid": "account-uid", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
    full = {**root, "metadata": metadata | root["metadata"]}
    ledger.trackers.accounts.take(Event(kind, msgspec.Raw(msgspec.json.encode(full))))


@asynccontextmanager
async def playing(api: FakeApi, profile: Profile | None = None) -> AsyncIterator[Ledger]:
    """Let a ledger lead that knows a FlyteWorkflow."""
    ledger = new_ledger(api, profile)
    informers = (ledger.trackers.accounts, ledger.trackers.roots[FLYTE_WORKFLOW])
    for informer in informers:
        informer.synced.set()
        informer.live = True
    metadata = {"namespace": "ml", "name": "f1", "uid": "u-1", "resourceVersion": "1"}
    raw = msgspec.Raw(msgspec.json.encode({"metadata": metadata}))
    ledger.trackers.roots[FLYTE_WORKFLOW].take(Event("ADDED", raw))
    async with (
        leading(ledger),
        beside(repeat("forget idle runs", trackers.LOOK_EVERY, ledger.trackers.forget_idle_runs)),
    ):
        yield ledger


def created(api: FakeApi) -> list[tuple[str, Json]]:
    """Return path and content of the Accounts that were created."""
    return [(write.path.rpartition("/")[0], write.root) for write in api.writes if write.root is not None]


def changed(api: FakeApi) -> list[Write]:
    """Return the writes of existing objects."""
    return [write for write in api.writes if write.root is None]


def account_of(root: Json) -> Account:
    return decode(msgspec.json.encode(root["status"]))


async def settled() -> None:
    """Wait until the leader has nothing left to do."""
    await asyncio.sleep(30)


def test_the_first_failed_try_of_a_run_creates_its_account_and_the_second_changes_it() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api) as ledger:
            ledger.trackers.see_pod(of_airflow(0, code=0))
            await settled()
            assert created(api) == []
            ledger.trackers.see_pod(of_airflow(0))
            await settled()
            ((path, root),) = created(api)
            assert (path, root["spec"]["name"], account_of(root).cost) == (ACCOUNTS, RUN, {"retry": 1})
            deliver(ledger, root)
            ledger.trackers.see_pod(of_airflow(1))
            await settled()
            (write,) = changed(api)
            assert (write.path, write.account.cost) == (path_of(RUN), {"retry": 2})
            assert len(created(api)) == 1
            assert [reason for reason, _ in events_of(ledger)] == ["AttemptEnded", "AttemptEnded"]

    run(work())


def test_the_attempts_of_a_flyte_workflow_are_counted_beside_it_and_it_is_never_written() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api) as ledger:
            ledger.trackers.see_pod(of_flyte(0, conditions=[EVICTED]))
            await settled()
            ((path, root),) = created(api)
            found = account_of(root)
            assert (path, found.cost, found.scopes.of("n0")) == (ACCOUNTS, {"disruption": 1}, 1)  # and not 7 others
            deliver(ledger, root)
            await settled()
            assert changed(api) == []
            counts = await AdmissionCounts(ledger.trackers).of_scope("ml", Place(FLYTE_WORKFLOW, "f1", "u-1", "n0"))
            assert counts is not None
            assert (counts.disruptions, counts.failures) == (1, 0)

    run(work())


@pytest.mark.parametrize("profile", [FAIL, SUSPEND], ids=["Fail", "Suspend"])
def test_beyond_the_limit_of_disruptions_nothing_is_done_to_a_flyte_workflow(profile: Profile) -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api, profile) as ledger:
            api.objects["/apis/flyte.lyft.com/v1alpha1/namespaces/ml/flyteworkflows/f1"] = {
                "metadata": {"namespace": "ml", "name": "f1", "uid": "u-1"},
                "status": {"phase": 1},
            }
            ledger.trackers.see_pod(of_flyte(0, conditions=[EVICTED]))
            await settled()
            assert [path for path, _ in created(api)] == [ACCOUNTS]
            assert changed(api) == []

    run(work())


def test_the_next_try_is_admitted_with_the_counts_of_its_task_and_the_first_one_with_none() -> None:
    async def work() -> None:
        async with playing(FakeApi()) as ledger:
            first = await AdmissionCounts(ledger.trackers).of_scope("ml", PLACE)
            ledger.trackers.see_pod(of_airflow(0))
            second = await AdmissionCounts(ledger.trackers).of_scope("ml", PLACE)
            assert first is not None
            assert second is not None
            assert (first.failures, second.failures, second.disruptions) == (0, 1, 0)
            assert [pod.name for pod in second.ended] == ["train-0"]

    run(work())


def test_a_namespace_gets_no_more_than_a_thousand_accounts_however_many_runs_its_users_invent() -> None:
    api = FakeApi()
    before = counted("retry_policy_ledger_writes_total", result="full")

    async def work() -> None:
        async with playing(api) as ledger:
            for number in range(store.MOST):
                deliver(ledger, account.new(DAG_RUN, account.run_of("ml", f"etl.{number}", "etl")))
            ledger.trackers.see_pod(of_airflow(0))
            await settled()
            assert created(api) == []
            assert counted("retry_policy_ledger_writes_total", result="full") > before
            deliver(ledger, account.new(DAG_RUN, account.run_of("ml", "etl.7", "etl")), "DELETED")
            ledger.trackers.see_pod(of_airflow(1))
            await settled()
            assert [root["spec"]["name"] for _, root in created(api)] == [RUN]

    run(work())


def test_without_the_crd_no_account_is_written_and_no_job_is_suspended() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api, SUSPEND) as ledger:
            ledger.trackers.accounts.missing = True
            see_job(ledger)
            ledger.trackers.see_pod(disrupted(1))
            await settled()
            assert ledger.accounts.is_missing_told

    run(work())
    assert api.writes == []


def test_a_run_without_an_account_is_forgotten_when_its_pods_are_gone() -> None:
    async def work() -> None:
        async with playing(FakeApi()) as ledger:
            ledger.trackers.see_pod(of_airflow(0, code=0))
            assert KEY in ledger.trackers.states
            ledger.trackers.see_pod_gone(pods.read(succeeded(0)))
            assert (KEY in ledger.trackers.states, ledger.trackers.dag_runs.seen) == (False, {})

    run(work())


def succeeded(number: int) -> Json:
    labels = {"dag_id": "etl", "run_id": "one", "task_id": "load", "try_number": "1"}
    root = stored_pod(number, "Succeeded", finalizers=[], labels=labels)
    root["metadata"] |= {"ownerReferences": [], "uid": f"one-{number}"}
    return root


def test_failed_pods_that_nobody_counts_are_forgotten_after_ten_minutes() -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi(), opted_in=False)  # where users may label pods as they like
        async with beside(repeat("forget idle runs", trackers.LOOK_EVERY, ledger.trackers.forget_idle_runs)):
            ledger.trackers.see_pod(of_airflow(0))
            ledger.trackers.see_pod_gone(of_airflow(0))
            await asyncio.sleep(trackers.UNCOUNTED_FOR - 1)
            assert KEY in ledger.trackers.states
            await asyncio.sleep(2 * trackers.LOOK_EVERY)
            assert KEY not in ledger.trackers.states

    run(work())


def test_an_account_outlives_its_pods_and_starts_again_once_it_is_deleted() -> None:
    async def work() -> None:
        api = FakeApi()
        async with playing(api) as ledger:
            ledger.trackers.see_pod(of_airflow(0))
            await settled()
            ((_, root),) = created(api)
            deliver(ledger, root)
            ledger.trackers.see_pod_gone(of_airflow(0))
            found = await AdmissionCounts(ledger.trackers).of_scope("ml", PLACE)
            assert found is not None
            assert found.failures == 1
            deliver(ledger, root, "DELETED")
            assert KEY not in ledger.trackers.states

    run(work())


def old_accounts(ledger: Ledger, *ends: str) -> None:
    """Let the watch deliver the accounts of runs whose last attempts ended at these times."""
    for number, end in enumerate(ends):
        last = [Attempt(attempt=0, pod="p", cause="ExitCode", cost="retry", end=end)]
        deliver(ledger, stored(DAG_RUN, account.run_of("ml", f"etl.{number}", "etl"), Account(ended=1, last=last)))


def test_accounts_of_runs_without_pods_are_deleted_a_week_after_the_last_attempt() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api) as ledger:
            ledger.accounts.now = lambda: NOW
            old_accounts(ledger, "2027-01-07T00:00:00Z", "2027-01-14T00:00:00Z", "2027-01-01T00:00:00Z")
            ledger.trackers.see_pod(of_airflow(0, code=0, run="2"))  # it has a pod
            await ledger.accounts.delete_old()
            assert api.deleted == [(path_of("etl.0"), "account-uid")]

    run(work())


def test_the_leader_looks_for_old_accounts_and_other_replicas_do_not() -> None:
    async def work() -> None:
        for is_leading, number in ((False, 0), (True, store.AT_ONCE)):
            api = FakeApi()
            async with playing(api) as ledger, beside(ledger.accounts.run(lambda: is_leading)):  # noqa: B023
                ledger.accounts.now = lambda: NOW
                old_accounts(ledger, *(["2026-01-01T00:00:00Z"] * (store.AT_ONCE + 1)))
                await asyncio.sleep(store.LOOK_EVERY + 1)
                assert len(api.deleted) == number

    run(work())


def path_of(run: str) -> str:
    return account.path_of(DAG_RUN, account.run_of("ml", run, ""))


def test_an_account_that_has_lost_its_owner_is_deleted_a_week_after_its_last_attempt() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api) as ledger:
            ledger.accounts.now = lambda: NOW
            job = {"metadata": {"namespace": "ml", "name": "train", "uid": "job-uid"}}
            orphan = stored(batch.JOB, job, Account(ended=1), ownerReferences=[])
            deliver(ledger, orphan)
            deliver(ledger, stored(batch.JOB, {"metadata": {**job["metadata"], "uid": "another"}}, Account(ended=1)))
            await ledger.accounts.delete_old()
            assert [path.rpartition("/")[2] for path, _ in api.deleted] == [orphan["metadata"]["name"]]

    run(work())


@pytest.mark.parametrize(
    "status",
    [b"{}", b"[]", b'"x"', b'{"attempts":1e400}', b"[" * 2000 + b"]" * 2000, b"{" + b" " * 300_000 + b"}"],
    ids=lambda status: status[:10].decode(),
)
def test_an_account_that_cannot_be_read_is_cached_as_such(status: bytes) -> None:
    root = account.new(DAG_RUN, account.run_of("ml", "r", ""))
    root["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    found = cached.trimmed_account({**root, "status": msgspec.Raw(status)})
    assert found["text"] == ""


def test_a_long_name_is_cut_as_it_is_read() -> None:
    long = account.new(DAG_RUN, account.run_of("ml", "r" * 10_000, ""))
    long["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    assert len(cached.trimmed_account(long)["spec"]["name"]) == pods.LONGEST_NAME
