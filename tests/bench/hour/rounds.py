"""One hour under all policies at once: each has the same Jobs, and nodes of its own on which the same happens."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.bench import kubelet
from tests.bench.faster import events
from tests.bench.hour.draw import CRASHES_AFTER, HOUR, DrawnJob
from tests.bench.hour.policies import CRASH, NEEDED, POLICIES, interrupted_nodes, is_bad, manifest, namespace, nodes
from tests.bench.hour.witness import JOB_NAME, Witness
from tests.bench.simulation import Simulation, name_of
from webhook.policy import quantities

if TYPE_CHECKING:
    from tests.bench.hour.figures import Cell
    from webhook.kube.client import Api
    from webhook.objects.problem import Json

MINUTE = 3.0  # seconds that a simulated minute takes
FIRST_INTERRUPTION, LAST_INTERRUPTION, BETWEEN = 10, 40, 4  # minutes
REPLACED = 0.5  # minutes after which a new node is there
TAINT = {"key": "machine", "value": "lost", "effect": "NoExecute"}


class Hour(Simulation):
    """One hour under all policies."""

    def __init__(self, api: Api, jobs: list[DrawnJob]) -> None:
        super().__init__(api, MINUTE)
        self.jobs = jobs
        self.seen = {name_of(policy): Witness({job.name: job for job in jobs}) for policy in POLICIES}

    async def main(self) -> list[Cell]:
        for policy in POLICIES:
            await self.prepare(namespace(policy), nodes(policy))
        async with self.started():
            self.later(self.watch_jobs())
            self.later(self.watch_pods())
            for policy in POLICIES:
                self.later(self.create(policy))
                self.later(self.interrupt(policy))
            await self.until_true(lambda: self.now >= HOUR or all(seen.over for seen in self.seen.values()))
            load = os.getloadavg()[0]
        return [self.seen[name_of(policy)].cell(policy, load) for policy in POLICIES]

    async def create(self, policy: str) -> None:
        """Create the Jobs of one policy, each at its time."""
        for job in self.jobs:
            await self.until(job.created)
            await self.api.create(f"/apis/batch/v1/namespaces/{name_of(policy)}/jobs", manifest(policy, job))

    async def interrupt(self, policy: str) -> None:
        """Interrupt the spot nodes of one zone, again and again; after each loss a new node is there."""
        for minute in range(FIRST_INTERRUPTION, LAST_INTERRUPTION + 1, BETWEEN):
            await self.until(minute)
            for taint in ([TAINT], []):
                for node in interrupted_nodes(policy):
                    path = f"/api/v1/nodes/{node}"
                    own = [one for one in (await self.api.get(path))["spec"]["taints"] if one["key"] != TAINT["key"]]
                    operation = {"op": "replace", "path": "/spec/taints", "value": [*own, *taint]}
                    await self.api.patch(path, [operation])
                await self.pause(REPLACED)

    async def watch_jobs(self) -> None:
        async for _, job in events(self.api, "/apis/batch/v1/jobs", {}):
            self.seen[job["metadata"]["namespace"]].see_job(job, self.now)

    async def watch_pods(self) -> None:
        async for kind, pod in events(self.api, "/api/v1/pods", {"labelSelector": JOB_NAME}):
            seen = self.seen[pod["metadata"]["namespace"]]
            if seen.see_pod(pod, self.now, deleted=kind == "DELETED"):
                self.later(self.run(seen.jobs[pod["metadata"]["labels"][JOB_NAME]], pod))

    async def run(self, job: DrawnJob, pod: Json) -> None:
        """Run a pod's program, and end the pod as the kubelet would."""
        minutes, how = program(job, pod["spec"]["nodeName"], kubelet.memory_of(pod))
        await self.pause(minutes)
        await kubelet.end(self.api, pod, how)


def program(job: DrawnJob, node: str, memory: int) -> tuple[float, kubelet.End]:
    """Return how many minutes an attempt of a Job runs on a node with an amount of memory, and how it ends."""
    if is_bad(node):
        return CRASHES_AFTER, CRASH
    if job.kind == "short of memory" and memory < (quantities.memory(NEEDED) or 0):
        return job.killed, kubelet.OUT_OF_MEMORY
    return job.minutes, kubelet.SUCCESS
