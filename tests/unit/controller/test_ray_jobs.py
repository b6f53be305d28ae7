"""What the leader does for RayJobs, whose pods do not say which RayJob they are of. All times are virtual."""

import asyncio
from typing import Any

from msgspec.structs import replace

from tests.unit.controller.leader import FakeApi, beside, leading, new_ledger, stored_pod
from tests.unit.controller.test_elsewhere import EVICTED, RULES, beside_accounts, owner_of, see_root
from tests.virtual_time import run
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods import on_failure, pods
from webhook.pods.pods import Pod
from webhook.pods.waiting import Waiting
from webhook.policy.model import Disruptions, Profile, Retries
from webhook.systems.ray.spec import RAY_JOB

PATH = "/apis/ray.io/v1/namespaces/ml/rayjobs/tune"
BEGINNING = "1970-01-01T00:16:40Z"  # of virtual time


def ray_job(**metadata: Any) -> Json:
    return {
        "metadata": {
            "namespace": "ml",
            "name": "tune",
            "uid": "tune-uid",
            "resourceVersion": "7",
            "annotations": {},
            **metadata,
        },
        "spec": {"shutdownAfterJobFinishes": True},
        "status": {"jobDeploymentStatus": "Running"},
    }


def ray_pod(number: int, role: str = "head", phase: str = "Running", **metadata: Any) -> Pod:
    root = stored_pod(
        number,
        phase,
        137 if phase == "Failed" else 0,
        finalizers=[],
        labels={"ray.io/node-type": role, "ray.io/group": "gpu"},
        annotations={names.MAX_RETRIES: "2"},
        ownerReferences=[owner_of("ray.io/v1", "RayCluster", "tune-abcde", "cluster-uid")],
        **metadata,
    )
    root["status"]["conditions"] = [EVICTED] if phase == "Failed" else []
    return pods.read(root)


async def seen(ledger: Ledger, api: FakeApi, *found: Pod, **metadata: Any) -> None:
    """Let the watch deliver pods, one after the other, and each account that was written."""
    for pod in found:
        ledger.trackers.see_pod(pod)
        for _ in range(4):
            await asyncio.sleep(0.5)
            for write in api.account_writes()[-1:]:
                see_root(ledger, RAY_JOB, ray_job(**metadata), write.text)


def test_a_job_is_suspended_for_its_head_also_if_many_workers_were_replaced() -> None:
    api = FakeApi()
    api.objects[PATH] = ray_job()
    limited = Disruptions(limit=0, on_exceed="Suspend")

    async def work() -> None:
        ledger = new_ledger(api, Profile(retries=Retries(limit=1, default=1), disruptions=limited))
        async with leading(ledger):
            see_root(ledger, RAY_JOB, ray_job())
            workers = [ray_pod(number, "worker", "Failed") for number in range(3)]
            await seen(ledger, api, *workers, ray_pod(9, phase="Failed"))

    run(work())
    ((path, operations),) = beside_accounts(api)
    assert (path, operations[-1]) == (PATH, {"op": "add", "path": "/spec/suspend", "value": True})


def test_pods_of_a_former_job_of_that_name_are_not_counted() -> None:
    api = FakeApi()
    created = {"creationTimestamp": "2026-01-01T00:02:00Z"}
    before, after = "2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z"

    async def work() -> None:
        ledger = new_ledger(api)
        async with leading(ledger):
            early = ray_pod(1, creationTimestamp=before)
            ledger.trackers.see_pod(early)  # before the watch delivers the job
            see_root(ledger, RAY_JOB, ray_job(**created))
            ended = ray_pod(1, phase="Failed", creationTimestamp=before)
            await seen(ledger, api, ended, ray_pod(2, phase="Failed", creationTimestamp=before), **created)
            assert api.writes == []
            await seen(ledger, api, ray_pod(3, phase="Failed", creationTimestamp=after), **created)

    run(work())
    assert api.account_writes()[-1].account.ended == 1


def test_a_delay_holds_back_a_pod_that_does_not_name_its_job() -> None:
    api = FakeApi()
    after = on_failure.written(on_failure.FailureState(rule=1, not_before="1970-01-01T00:17:10Z"))
    held = replace(ray_pod(1), phase="Pending", after=after, waiting=Waiting(BEGINNING, gate=0, gated=True))

    async def work() -> None:
        ledger = new_ledger(api, Profile(on_failure=RULES))
        ledger.waiting.clock = asyncio.get_running_loop().time
        see_root(ledger, RAY_JOB, ray_job())
        ledger.trackers.see_pod(held)
        ledger.waiting.seen(held)
        async with leading(ledger), beside(ledger.waiting.run(lambda: True)):
            await asyncio.sleep(25)
            assert api.writes == []
            await asyncio.sleep(25)

    run(work())
    assert [write.operations[-1]["path"] for write in api.writes][:1] == ["/spec/schedulingGates/0"]
