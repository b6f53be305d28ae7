"""How many of 300 labelled endings the leader calls what they were, with the noise that real clusters have.

Half of them are faults of hardware, of the sources in docs/reference/policy.md: a detector tells of them before the
crash, seconds after it, or, of few, too late. Half are bugs. Half of the nodes have a condition that is no fault.
"""

import asyncio
import random
from typing import Any, Final, NamedTuple

from tests.objects import DISRUPTION
from tests.unit.accounts.pods import job
from tests.unit.controller.leader import BOOKMARK, FakeApi, new_ledger, running, see_job, watch_event
from tests.virtual_time import now, run
from webhook.accounts.account import Account
from webhook.objects.problem import Json
from webhook.policy.model import FailurePolicy, Hardware, Profile
from webhook.policy.parse import load_default

PODS: Final = "/api/v1/pods"
SPEC: Final[Json] = {"podFailurePolicy": {"rules": [DISRUPTION]}}
PROFILE: Final = Profile(failure_policy=FailurePolicy(hardware=Hardware()))
ENDINGS: Final = 300
FAULTS: Final = (
    *("KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown", "GPUMissing", "XIDErrors", "NebiusGPUError"),
    *("GpuNvlinkWatch", "SysLogsXIDError", "AcceleratedHardwareReady", "Ready", "gone", "taint", "device"),
)
NOISE: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "FrequentKubeletRestart", "VMEventScheduled")
LATE: Final = 300.0  # seconds: too late to explain a crash


class Ending(NamedTuple):
    """The end of a pod; `fault`: what is told of its node, so many seconds `after` the crash; empty for a bug."""

    name: str
    fault: str
    after: float
    noise: str


def endings() -> list[Ending]:
    """Draw the endings: of 100 faults, 60 are told before the crash, 36 within 25 s after it, and 4 too late."""
    draw = random.Random(42)  # noqa: S311
    found = []
    for number in range(ENDINGS):
        is_fault, chance = number % 2 == 0, draw.random()
        after = -1.0 if chance < 0.6 else draw.uniform(1, 25) if chance < 0.96 else LATE
        fault = draw.choice(FAULTS) if is_fault else ""
        after = -1.0 if fault == "device" else after  # the kubelet says it with the end of the pod
        found.append(Ending(f"train-{number}", fault, after, draw.choice(NOISE) if draw.random() < 0.5 else ""))
    return found


class Cluster(FakeApi):
    """A cluster in which each pod runs on a node of its own; `crashed`: when."""

    def __init__(self, found: list[Ending]) -> None:
        super().__init__()
        self.endings = {f"node-{one.name}": one for one in found}
        self.crashed = float("inf")

    async def get(self, path: str, query: dict[str, str] | None = None, accept: str = "", kind: Any = Any) -> Json:
        if path != "/api/v1/nodes" or query is None:
            return await super().get(path, query, accept, kind)
        name = query["fieldSelector"].removeprefix("metadata.name=")
        one = self.endings[name]
        shown = one.fault if now() >= self.crashed + one.after else ""
        if shown == "gone":
            return {"items": []}
        conditions = [{"type": "Ready", "status": "Unknown" if shown == "Ready" else "True"}]
        if shown not in {"", "Ready", "taint", "device"}:
            conditions.append({"type": shown, "status": "False" if shown.endswith("Ready") else "True"})
        if one.noise:
            conditions.append({"type": one.noise, "status": "True"})
        taints = [{"key": "node.kubernetes.io/out-of-service"}] if shown == "taint" else []
        return {
            "items": [{"metadata": {"name": name}, "spec": {"taints": taints}, "status": {"conditions": conditions}}]
        }


def crashed_pod(one: Ending) -> Json:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": one.name, "uid": one.name, "controller": True}
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:01:00Z"}
    status: Json = {"name": "main", "state": {"terminated": ended}}
    if one.fault == "device":
        devices = [{"resourceID": "GPU-1", "health": "Unhealthy"}]
        status["allocatedResourcesStatus"] = [{"name": "nvidia.com/gpu", "resources": devices}]
    return {
        "metadata": {
            "namespace": "ml",
            "name": f"{one.name}-a",
            "uid": f"{one.name}-a",
            "resourceVersion": "1",
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": f"node-{one.name}"},
        "status": {"phase": "Failed", "containerStatuses": [status]},
    }


def called_under(profile: Profile, drawn: list[Ending]) -> dict[str, Account]:
    """Return the account of each Job, by its name, once all crashes are judged."""

    async def work() -> None:
        async with running(new_ledger(api, profile)) as ledger:
            for one in drawn:
                stored = job(SPEC, name=one.name, uid=one.name)
                api.objects[f"/apis/batch/v1/namespaces/ml/jobs/{one.name}"] = stored
                see_job(ledger, spec=SPEC, name=one.name, uid=one.name)
                pod = crashed_pod(one)
                api.watches[PODS].put_nowait(watch_event("ADDED", {**pod, "status": {"phase": "Running"}}))
            await asyncio.sleep(1)
            api.crashed = now()
            for one in drawn:
                api.watches[PODS].put_nowait(watch_event("MODIFIED", crashed_pod(one)))
            seen = 0
            for _ in range(20):
                await asyncio.sleep(5)
                api.watches[PODS].put_nowait(BOOKMARK)
                written = {write.workload: write.text for write in api.writes[seen:] if write.is_of_account}
                seen = len(api.writes)
                for name, text in written.items():
                    see_job(ledger, text, spec=SPEC, status={"failed": 1}, name=name, uid=name)

    api = Cluster(drawn)
    run(work())
    return {one.name: api.accounts_of(one.name)[-1].account for one in drawn}


def test_nine_of_ten_faults_are_found_and_at_most_one_bug_in_a_hundred_is_called_one() -> None:
    drawn = endings()
    called = called_under(PROFILE, drawn)
    faults = [one for one in drawn if one.fault]
    found = [one for one in faults if "Hardware" in called[one.name].causes]
    wrongly = [one for one in drawn if not one.fault and "Hardware" in called[one.name].causes]
    ended = [one for one in drawn if not one.fault and called[one.name].cost.get("fatal")]
    assert len(found) >= 0.9 * len(faults)
    assert len(wrongly) <= 0.01 * (ENDINGS - len(faults))
    assert len(ended) == ENDINGS - len(faults)
    assert all(one.after == LATE for one in faults if one not in found)


def test_under_the_packaged_profile_no_fault_is_called_a_bug_even_if_it_is_told_too_late() -> None:
    """What nothing explains in time is tried once more there."""
    faults = [one for one in endings() if one.fault]
    called = called_under(load_default().profiles["confirm"], faults)
    assert any(one.after == LATE for one in faults)
    assert not any(account.cost.get("fatal") for account in called.values())
    assert sum("Hardware" in account.causes for account in called.values()) >= 0.9 * len(faults)
