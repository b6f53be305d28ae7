"""The accounts beside workloads: when an Account is created, changed and deleted. All times are virtual."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.unit.accounts.pods import disrupted
from tests.unit.controller.leader import FakeApi, Write, events_of, leading, new_ledger, see_job, stored_pod
from tests.virtual_time import run
from webhook.accounts import cached_account
from webhook.accounts.account import Account
from webhook.accounts.stored import decode
from webhook.controller.ledger import Ledger
from webhook.controller.store import AccountStore
from webhook.kube.informer import Event
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.policy.model import Disruptions, Profile
from webhook.systems import account_object as account
from webhook.systems.flyte.spec import FLYTE_WORKFLOW
from webhook.systems.pod_source import Place
from webhook.tracking.admission_counts import AdmissionCounts

ACCOUNTS = "/apis/retry-policy.dev/v1alpha1/namespaces/ml/accounts"
PLACE = Place(FLYTE_WORKFLOW, "f1", "u-1", "n0")
ROOT: Json = {"metadata": {"namespace": "ml", "name": "f1", "uid": "u-1"}}
FAIL = Profile(disruptions=Disruptions(limit=0, on_exceed="Fail"))
SUSPEND = Profile(disruptions=Disruptions(limit=0, on_exceed="Suspend"))
EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "lastTransitionTime": "2026-01-01T00:01:00Z",
}


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
    async with leading(ledger):
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


def test_the_first_failed_pod_of_a_workload_creates_its_account_and_the_second_changes_it() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api) as ledger:
            ledger.trackers.see_pod(of_flyte(0, code=0, phase="Running"))
            await settled()
            assert created(api) == []
            ledger.trackers.see_pod(of_flyte(0, conditions=[EVICTED]))
            await settled()
            ((path, root),) = created(api)
            assert (path, root["spec"]["name"], account_of(root).cost) == (ACCOUNTS, "f1", {"disruption": 1})
            deliver(ledger, root)
            ledger.trackers.see_pod(of_flyte(1, conditions=[EVICTED]))
            await settled()
            (write,) = changed(api)
            assert (write.path, write.account.cost) == (account.path_of(FLYTE_WORKFLOW, ROOT), {"disruption": 2})
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


def test_the_next_pod_is_admitted_with_the_counts_of_its_node_and_the_first_one_with_none() -> None:
    async def work() -> None:
        async with playing(FakeApi()) as ledger:
            first = await AdmissionCounts(ledger.trackers).of_scope("ml", PLACE)
            ledger.trackers.see_pod(of_flyte(0, conditions=[EVICTED]))
            second = await AdmissionCounts(ledger.trackers).of_scope("ml", PLACE)
            assert first is not None
            assert second is not None
            assert (first.disruptions, second.disruptions, second.failures) == (0, 1, 0)
            assert [pod.name for pod in second.ended] == ["f1-n0-0"]

    run(work())


def test_without_the_crd_no_account_is_written_and_no_job_is_suspended() -> None:
    api = FakeApi()

    async def work() -> None:
        async with playing(api, SUSPEND) as ledger:
            ledger.trackers.accounts.missing = True
            see_job(ledger)
            ledger.trackers.see_pod(disrupted(1))
            await settled()
            accounts: AccountStore = ledger.accounts
            assert accounts.is_missing_told

    run(work())
    assert api.writes == []


def test_an_account_outlives_its_pods_and_starts_again_once_it_is_deleted() -> None:
    async def work() -> None:
        api = FakeApi()
        async with playing(api) as ledger:
            ledger.trackers.see_pod(of_flyte(0, conditions=[EVICTED]))
            await settled()
            ((_, root),) = created(api)
            deliver(ledger, root)
            ledger.trackers.see_pod_gone(of_flyte(0, conditions=[EVICTED]))
            found = await AdmissionCounts(ledger.trackers).of_scope("ml", PLACE)
            assert found is not None
            assert found.disruptions == 1
            deliver(ledger, root, "DELETED")
            anew = await AdmissionCounts(ledger.trackers).of_scope("ml", PLACE)
            assert anew is not None
            assert anew.disruptions == 0

    run(work())


@pytest.mark.parametrize(
    "status",
    [b"{}", b"[]", b'"x"', b'{"attempts":1e400}', b"[" * 2000 + b"]" * 2000, b"{" + b" " * 300_000 + b"}"],
    ids=lambda status: status[:10].decode(),
)
def test_an_account_that_cannot_be_read_is_cached_as_such(status: bytes) -> None:
    root = account.new(FLYTE_WORKFLOW, ROOT)
    root["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    found = cached_account.trimmed_account({**root, "status": msgspec.Raw(status)})
    assert found["text"] == ""


def test_a_long_name_is_cut_as_it_is_read() -> None:
    long = account.new(FLYTE_WORKFLOW, {"metadata": {**ROOT["metadata"], "name": "r" * 10_000}})
    long["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    assert len(cached_account.trimmed_account(long)["spec"]["name"]) == pods.LONGEST_NAME
