"""Which Workload of Kueue is known for an object, and why Kueue has ended a pod."""

import asyncio
import sys
from typing import Any

from tests.unit.accounts.pods import job, job_set, running_pod
from tests.unit.accounts.workloads import read, stored_workload
from tests.unit.controller.leader import FakeApi, api_of, beside, watch_event
from tests.virtual_time import run
from webhook.accounts import kueue
from webhook.kube.client import ApiError
from webhook.tracking.kueue_workloads import MOST_OF_ONE, KueueWorkloads

POD = running_pod(created="2026-01-01T00:01:00Z", deleted="2026-01-01T00:10:01Z", deleting=True)


def known(*stored: Any) -> KueueWorkloads:
    found = KueueWorkloads(api_of(FakeApi()))
    for one in stored:
        found.seen(read(one))
    return found


def owned_by(uid: str, **metadata: Any) -> Any:
    stored = stored_workload({"Preempted": 1}, "Preempted", **metadata)
    stored["metadata"]["ownerReferences"][0]["uid"] = uid
    return stored


def test_a_pod_is_evicted_for_the_reason_of_the_workload_of_its_job() -> None:
    found = known(stored_workload({"Preempted": 1}, "Preempted"))
    assert found.reason_of(job(), POD) == "Preempted"


def test_the_reason_is_known_also_after_the_workload_was_admitted_again() -> None:
    found = known(stored_workload({"Preempted": 1}, "Preempted"), stored_workload({"Preempted": 1}))
    assert found.reason_of(job(), POD) == "Preempted"


def test_the_first_reason_of_an_eviction_stays_if_the_workload_is_deactivated_before_it_is_admitted_again() -> None:
    found = known(stored_workload({"Preempted": 1}, "Preempted"), stored_workload({"Preempted": 1}, "Deactivated"))
    assert found.reason_of(job(), POD) == "Preempted"


def test_a_workload_of_another_job_or_of_another_namespace_says_nothing() -> None:
    found = known(owned_by("other-uid"), owned_by("job-uid", namespace="others"))
    assert found.of(job()) is None
    assert not found.reason_of(job(), POD)


def test_the_workload_of_the_controller_counts_for_what_it_controls() -> None:
    owner = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "t",
        "uid": "t",
        "controller": True,
    }
    root = job_set()
    root["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    found = known(owned_by("t"))
    assert found.of(root) is not None
    assert found.reason_of(root, POD) == "Preempted"


def test_of_several_workloads_the_newest_counts_and_finished_ones_are_forgotten() -> None:
    new = stored_workload(name="new", uid="new", creationTimestamp="2026-01-01T00:05:00Z")
    found = known(stored_workload(), new)
    assert name_of(found) == "new"
    new["status"]["conditions"] = [{"type": "Finished", "status": "True", "reason": "Succeeded"}]
    found.seen(read(new))
    assert name_of(found) == "job-train-70af1"
    found.deleted(read(stored_workload()))
    assert not found.by_owner


def name_of(found: KueueWorkloads) -> str:
    """Return the name of the Workload that is known for the Job."""
    current = found.of(job())
    return "" if current is None else current.name


def test_a_user_who_creates_thousands_of_workloads_for_one_job_makes_few_be_kept() -> None:
    found = known(*(stored_workload(name=f"w-{number}") for number in range(5000)))
    assert [len(kept) for kept in found.by_owner.values()] == [MOST_OF_ONE]


def test_a_kept_workload_is_small() -> None:
    one = read(stored_workload({"Preempted": 1}, "Preempted"))
    fields = (getattr(one, name) for name in one.__struct_fields__)
    assert sys.getsizeof(one) + sum(map(sys.getsizeof, fields)) < 1200


def test_without_kueue_there_is_nothing_and_once_it_is_installed_its_workloads_are_found() -> None:
    async def work() -> tuple[bool, bool]:
        api = NotInstalled()
        found = KueueWorkloads(api_of(api), clock=asyncio.get_running_loop().time)
        async with beside(found.informer.run()):
            await asyncio.sleep(60)
            before = found.informer.missing and not found.is_behind
            api.is_installed = True
            api.lists[kueue.LIST] = [stored_workload()]
            await asyncio.sleep(60)
            return before, found.of(job()) is not None and not found.is_behind

    assert run(work()) == (True, True)


def test_a_workload_that_was_deleted_during_a_gap_is_forgotten() -> None:
    async def work() -> int:
        api = FakeApi()
        api.lists[kueue.LIST] = [stored_workload({"Preempted": 1}, "Preempted")]
        found = KueueWorkloads(api_of(api), clock=asyncio.get_running_loop().time)
        async with beside(found.informer.run()):
            await asyncio.sleep(1)
            assert found.last
            api.lists[kueue.LIST] = []
            api.watches[kueue.LIST].put_nowait(ApiError(410, "Gone"))
            await asyncio.sleep(60)
            api.watches[kueue.LIST].put_nowait(watch_event("ADDED", stored_workload(name="other")))
            await asyncio.sleep(1)
            assert not found.last
            return len(found.by_owner)

    assert run(work()) == 1


class NotInstalled(FakeApi):
    """An API server without the CRD of Workloads, until `is_installed`."""

    is_installed = False

    async def pages(self, path: str, *arguments: object) -> Any:
        if not self.is_installed:
            raise ApiError(404, "not found")
        async for page in super().pages(path, *arguments):
            yield page
