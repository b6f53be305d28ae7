"""Plays kubelet, scheduler and Job controller for a Plan, at a constant rate, whatever the answers take (open loop)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from tests.bench.replay.plan import RETRIABLE, End, Workload

if TYPE_CHECKING:
    from webhook.objects.problem import Json

TICK: Final = 0.01  # seconds
SECONDS: Final = 60  # that each pod has run
AT_ONCE: Final = 64  # writes; more wait here, where no time-out ends them, and `late` says for how long


class Writes(Protocol):
    """What the player needs of an API."""

    async def patch(self, path: str, operations: list[Json]) -> Json: ...

    async def write(self, method: str, path: str, body: Any) -> Json: ...


class Player:
    """Ends pods through an API. `done`: how many; `late`: the longest delay of an end, in seconds."""

    def __init__(self, api: Writes, ends: list[End], pods: dict[tuple[int, int], str]) -> None:
        self.api = api
        self.ends = ends
        self.pods = pods  # uids, by number of workload and pod
        self.began = self.done = 0
        self.late = 0.0
        self.calls: Counter[str] = Counter()
        self.tasks: set[asyncio.Task[None]] = set()
        self.room = asyncio.Semaphore(AT_ONCE)

    async def play(self, rate: float) -> None:
        """End all pods at so many a second; return when the Job controller has counted all of them."""
        begin = time.monotonic()
        while self.began < len(self.ends):
            due = min(len(self.ends), int((time.monotonic() - begin) * rate) + 1)
            for number in range(self.began, due):
                self.start(self.end(self.ends[number], begin + number / rate))
            self.began = due
            await asyncio.sleep(TICK)
        while self.tasks:
            await asyncio.gather(*self.tasks)

    def start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.ended)

    def ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.result()

    async def end(self, end: End, due: float) -> None:
        """End a pod as scheduler and kubelet do, and let the Job controller count it."""
        one, way, path = end.workload, end.way, end.workload.pod_path(end.pod)
        one.ends[end.pod] = way
        await self.patch("pods/status", f"{path}/status", [replacement(status_of(end))])
        self.done += 1
        self.late = max(self.late, time.monotonic() - due)
        if way.deletes:
            async with self.room:
                self.calls["delete"] += 1
                await self.api.write("DELETE", path, {"gracePeriodSeconds": 0})
        one.waiting.append(end.pod)
        if not one.syncing:
            one.syncing = True
            self.start(self.sync(one))

    async def sync(self, one: Workload) -> None:
        """Count ended pods as the Job controller does: note them in the status, remove finalizers, add them up."""
        one.status.setdefault("startTime", stamp(-SECONDS))
        while one.waiting:
            pods, one.waiting = one.waiting, []
            counted = [pod for pod in pods if one.ends[pod].code]  # a rule ignores the others
            fatal = [pod for pod in counted if one.ends[pod].code != RETRIABLE]
            if counted:
                noted = [self.pods[one.number, pod] for pod in counted]
                one.status["uncountedTerminatedPods"] = {"failed": noted}
            if fatal and not one.indexed:
                one.status["conditions"] = [condition("FailureTarget", one, fatal[0])]
            if counted:
                await self.write_status(one)
            for pod in pods:
                await self.patch("pods", one.pod_path(pod), [{"op": "remove", "path": "/metadata/finalizers"}])
            if counted:
                del one.status["uncountedTerminatedPods"]
                one.status["failed"] = one.status.get("failed", 0) + len(counted)
            if fatal and one.indexed:
                failed = [pod for pod, way in one.ends.items() if way.code not in {0, RETRIABLE}]
                one.status["failedIndexes"] = ",".join(map(str, sorted(failed)))
            if fatal and not one.indexed:
                one.status["conditions"] = [*one.status["conditions"], condition("Failed", one, fatal[0])]
            one.status |= {"active": one.pods - len(one.ends), "ready": 0, "terminating": 0}
            await self.write_status(one)
        one.syncing = False

    async def write_status(self, one: Workload) -> None:
        await self.patch("jobs/status", f"{one.path}/status", [replacement({**one.status})])

    async def patch(self, what: str, path: str, operations: list[Json]) -> None:
        async with self.room:
            self.calls[what] += 1
            await self.api.patch(path, operations)


def replacement(status: Json) -> Json:
    return {"op": "replace", "path": "/status", "value": status}


def status_of(end: End) -> Json:
    """Return the status with which a pod ends."""
    now = stamp()
    status: Json = {"phase": "Failed", "startTime": stamp(-SECONDS), "conditions": []}
    if not end.way.code:
        found = {"type": "DisruptionTarget", "status": "True", "reason": end.way.reason, "lastTransitionTime": now}
        return {**status, "conditions": [found]}
    terminated = {"exitCode": end.way.code, "reason": end.way.reason, "startedAt": stamp(-SECONDS), "finishedAt": now}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    return {**status, "containerStatuses": [{**container, "state": {"terminated": terminated}}]}


def condition(kind: str, one: Workload, pod: int) -> Json:
    """Return a condition that says which pod has failed a Job."""
    what = f"Container main for pod {one.namespace}/{one.name}-{pod} failed with exit code {one.ends[pod].code}"
    message = f"{what} matching FailJob rule at index 1"
    now = stamp()
    return {
        "type": kind,
        "status": "True",
        "reason": "PodFailurePolicy",
        "message": message,
        "lastTransitionTime": now,
        "lastProbeTime": now,
    }


def stamp(after: float = 0.0) -> str:
    """Return the time, or that `after` so many seconds, as the API writes it."""
    return datetime.fromtimestamp(time.time() + after, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
