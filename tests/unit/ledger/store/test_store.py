"""The accounts beside workloads: when an Account is created, changed and deleted. All times are virtual."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.metrics import counted
from tests.unit.ledger.leader import FakeApi, beside, events_of, leading, new_ledger, stored_pod
from tests.virtual_time import run
from webhook.kinds import account
from webhook.kinds.airflow import DAG_RUN
from webhook.kinds.flyte import FLYTE_WORKFLOW
from webhook.kinds.places import Place
from webhook.kube import names
from webhook.kube.informer import Event
from webhook.ledger.controller import Ledger
from webhook.ledger.model import pods
from webhook.ledger.model.account import Account
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.status import decode
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
    """Let a ledger lead that knows a FlyteWorkflow, in which a user has written an account."""
    ledger = new_ledger(api, profile)
    informers = (ledger.trackers.accounts, ledger.trackers.roots[FLYTE_WORKFLOW])
    for informer in informers:
        informer.synced.set()
        informer.live = True
    annotations = {names.LEDGER: '{"attempts": 7}'}
    metadata = {"namespace": "ml", "name": "f1", "uid": "u-1", "resourceVersion": "1", "annotations": annotations}
    raw = msgspec.Raw(msgspec.json.encode({"metadata": metadata}))
    ledger.trackers.roots[FLYTE_WORKFLOW].take(Event("ADDED", raw))
    async with leading(ledger), beside(ledger.trackers.forget_idle_runs()):
        yield ledger


def account_of(root: Json) -> Account:
    return decode(root["metadata"]["annotations"][names.LEDGER])


async def settled() -> None:
    """Wait until the leader has nothing left to do."""
    await asyncio.sleep(30)


def test_the_first_failed_try_of_a_run_creates_its_account_and_the_second_changes_it() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api) as ledger:
            ledger.trackers.see_pod(of_airflow(0, code=0))
            await settled()
            assert api.created == []
            ledger.trackers.see_pod(of_airflow(0))
            await settled()
            ((path, root),) = api.created
            assert (path, root["spec"]["name"], account_of(root).cost) == (ACCOUNTS, RUN, {"retry": 1})
            deliver(ledger, root)
            ledger.trackers.see_pod(of_airflow(1))
            await settled()
            (write,) = api.writes
            assert (write.path, write.account.cost) == (account.path_of(DAG_RUN, "ml", RUN), {"retry": 2})
            assert len(api.created) == 1
            assert [reason for reason, _ in events_of(ledger)] == ["AttemptEnded", "AttemptEnded"]

    run(work())


def test_the_attempts_of_a_flyte_workflow_are_counted_beside_it_and_it_is_never_written() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api) as ledger:
            ledger.trackers.see_pod(of_flyte(0, conditions=[EVICTED]))
            await settled()
            ((path, root),) = api.created
            found = account_of(root)
            assert (path, found.cost, found.scopes.of("n0")) == (ACCOUNTS, {"disruption": 1}, 1)  # and not 7 others
            deliver(ledger, root)
            await settled()
            assert api.writes == []
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
            assert [path for path, _ in api.created] == [ACCOUNTS]
            assert api.writes == []

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
                deliver(ledger, account.new(DAG_RUN, account.run_of("ml", f"etl.{number}", "etl"), "{}"))
            ledger.trackers.see_pod(of_airflow(0))
            await settled()
            assert api.created == []
            assert counted("retry_policy_ledger_writes_total", result="full") > before
            deliver(ledger, account.new(DAG_RUN, account.run_of("ml", "etl.7", "etl"), "{}"), "DELETED")
            ledger.trackers.see_pod(of_airflow(1))
            await settled()
            assert [root["spec"]["name"] for _, root in api.created] == [RUN]

    run(work())


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
        async with beside(ledger.trackers.forget_idle_runs()):
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
            ((_, root),) = api.created
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
        last = [{"attempt": 0, "pod": "p", "cause": "ExitCode", "cost": "retry", "end": end}]
        text = msgspec.json.encode({"attempts": 1, "last": last}).decode()
        deliver(ledger, account.new(DAG_RUN, account.run_of("ml", f"etl.{number}", "etl"), text))


def test_accounts_of_runs_without_pods_are_deleted_a_week_after_the_last_attempt() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api) as ledger:
            ledger.accounts.now = lambda: NOW
            old_accounts(ledger, "2027-01-07T00:00:00Z", "2027-01-14T00:00:00Z", "2027-01-01T00:00:00Z")
            ledger.trackers.see_pod(of_airflow(0, code=0, run="2"))  # it has a pod
            await ledger.accounts.delete_old()
            assert api.deleted == [(account.path_of(DAG_RUN, "ml", "etl.0"), "account-uid")]

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


def test_a_long_account_and_a_long_name_are_cut_as_they_are_read() -> None:
    long = account.new(DAG_RUN, account.run_of("ml", "r" * 10_000, ""), "x" * 100_000)
    long["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    found = cached.trimmed_account(long)
    assert len(found["metadata"]["annotations"][names.LEDGER]) < 5000
    assert len(found["spec"]["name"]) == pods.LONGEST_NAME
