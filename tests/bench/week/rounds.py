"""One week under all policies at once: each has the same Jobs, and nodes of its own that are lost at the same times."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.bench import kubelet
from tests.bench.faster import events
from tests.bench.simulation import Simulation, name_of
from tests.bench.week.draw import DAY, DrawnJob
from tests.bench.week.market import SPOT_IN_ZONE, ZONES, Market
from tests.bench.week.policies import GIB, HOUR, POLICIES, manifest, namespace, nodes, spot_node
from tests.bench.week.witness import JOB_NAME, SeenPod, Witness

if TYPE_CHECKING:
    from webhook.kube.client import Api
    from webhook.objects.problem import Json

AFTERWARDS = 1.5 * DAY  # hours in which the last Jobs may end
TAINT = {"key": "machine", "value": "lost", "effect": "NoExecute"}


class Week(Simulation):
    """One week under all policies."""

    def __init__(self, api: Api, market: Market, jobs: list[DrawnJob], days: int) -> None:
        super().__init__(api, HOUR)
        self.market = market
        self.jobs = jobs
        self.days = days
        self.seen = {name_of(policy): Witness({job.name: job for job in jobs}, market) for policy in POLICIES}
        self.loads: list[float] = []
        self.began = datetime.now(UTC)

    def is_over(self) -> bool:
        """Return True if the week is over; note how busy the machine is."""
        self.loads.append(os.getloadavg()[0])
        return all(seen.over for seen in self.seen.values()) or self.now > self.days * DAY + AFTERWARDS

    async def main(self) -> None:
        """Let the week pass; afterwards `seen` has what happened."""
        for policy in POLICIES:
            await self.prepare(namespace(policy), nodes(policy))
        self.began = datetime.now(UTC)
        async with self.started():
            self.later(self.watch_jobs())
            self.later(self.watch_pods())
            for policy in POLICIES:
                self.later(self.create(policy))
                for zone in ZONES:
                    for number in range(SPOT_IN_ZONE):
                        self.later(self.lose(policy, zone, number))
            await self.until_true(self.is_over)

    async def create(self, policy: str) -> None:
        """Create the Jobs of one policy, each at its time."""
        path = f"/apis/batch/v1/namespaces/{name_of(policy)}/jobs"
        for job in self.jobs:
            await self.until(job.created)
            await self.api.create(path, manifest(policy, job))

    async def lose(self, policy: str, zone: str, number: int) -> None:
        """Take a spot node away at each of its times, and put another one in its place when it is back."""
        path = f"/api/v1/nodes/{spot_node(policy, zone, number)}"
        for loss in self.market.losses(zone, number):
            await self.until(loss.start)
            await self.taint(path, [TAINT])
            await self.until(loss.end)
            await self.taint(path, [])

    async def taint(self, path: str, taints: list[Json]) -> None:
        """Set the taints of a spot node, beside its own."""
        own = [one for one in (await self.api.get(path))["spec"]["taints"] if one["key"] != TAINT["key"]]
        await self.api.patch(path, [{"op": "replace", "path": "/spec/taints", "value": [*own, *taints]}])

    async def watch_jobs(self) -> None:
        async for kind, job in events(self.api, "/apis/batch/v1/jobs", {}):
            if kind != "DELETED":
                self.seen[job["metadata"]["namespace"]].see_job(job, self.now)

    async def watch_pods(self) -> None:
        async for kind, pod in events(self.api, "/api/v1/pods", {"labelSelector": JOB_NAME}):
            seen = self.seen[pod["metadata"]["namespace"]]
            begun = seen.see_pod(pod, self.now, deleted=kind == "DELETED")
            if begun is not None:
                self.later(self.run(seen.jobs[begun.job], begun))

    async def run(self, job: DrawnJob, pod: SeenPod) -> None:
        """Run a pod's program, and end the pod as the kubelet would; KWOK kills a pod that was deleted before."""
        hours, how = job.attempt(pod.index, pod.number, kubelet.memory_of(pod.last) / GIB)
        begun = pod.last
        await self.until(self.now + hours)
        if pod.ended is None and "deletionTimestamp" not in pod.last["metadata"]:
            await kubelet.end(self.api, begun, how)
