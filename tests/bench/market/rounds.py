"""One market, under all policies at once: each has the same Jobs, and machines of its own that are lost alike."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from tests.bench.faster import events
from tests.bench.market.draw import LONGEST, PODS, DrawnJob, Market
from tests.bench.market.figures import ON_DEMAND, Cell
from tests.bench.market.policies import POLICIES, SHARED_MACHINES, manifest, namespace, nodes, shared_machine
from tests.bench.market.witness import JOB_NAME, SeenPod, Witness
from tests.bench.simulation import Simulation, name_of
from webhook.kube.client import Api, ApiError

if TYPE_CHECKING:
    from webhook.objects.problem import Json

MINUTE = 2.0  # seconds that a simulated minute takes
ARRIVING = 8  # minutes in which the Jobs are created
PATIENCE = 2.5  # a round is over so many times on-demand's longest time after the last Job was created
LONGEST_ROUND = 6 * LONGEST  # minutes, whatever else
TAINT = {"key": "machine", "value": "lost", "effect": "NoExecute"}
REPLACED = 0.5  # minutes after which a new machine is there
SIZES = {"good": (24, 2), "bugs": (6, 1)}  # Jobs of one pod, of 20


class Round(Simulation):
    """One market under all policies."""

    def __init__(self, api: Api, market: Market, *, part: float = 1) -> None:
        super().__init__(api, MINUTE)
        self.market = market
        self.jobs = drawn_jobs(market, part)
        self.seen = {name_of(policy): Witness({job.name: job for job in self.jobs}) for policy in POLICIES}

    async def main(self) -> list[Cell]:
        for policy in POLICIES:
            await self.prepare(namespace(policy), nodes(policy))
        async with self.started():
            await self.run()
            now, load = self.now, os.getloadavg()[0]
        return [self.seen[name_of(policy)].cell(policy, self.market, now, load) for policy in POLICIES]

    async def run(self) -> None:
        self.later(self.watch_jobs())
        self.later(self.watch_pods())
        for policy in POLICIES:
            self.later(self.create(policy))
        for policy in POLICIES:
            for machine in range(SHARED_MACHINES):
                self.later(self.lose(policy, machine))
        await self.until_true(self.over)

    def over(self) -> bool:
        """Whether the good Jobs of all policies have ended, or have taken too long."""
        if all(seen.over for seen in self.seen.values()) or self.now > LONGEST_ROUND:
            return True
        on_demand = self.seen[name_of(ON_DEMAND)]
        return on_demand.over and self.now > ARRIVING + PATIENCE * max(on_demand.finished.values(), default=LONGEST)

    async def create(self, policy: str) -> None:
        """Create the Jobs of one policy, at even distances."""
        name = name_of(policy)
        for number, job in enumerate(self.jobs):
            await self.until(number * ARRIVING / len(self.jobs))
            self.seen[name].created[job.name] = self.now
            await self.api.create(f"/apis/batch/v1/namespaces/{name}/jobs", manifest(policy, job, MINUTE))

    async def watch_jobs(self) -> None:
        async for _, job in events(self.api, "/apis/batch/v1/jobs", {}):
            self.seen[job["metadata"]["namespace"]].see_job(job, self.now)

    async def watch_pods(self) -> None:
        async for kind, pod in events(self.api, "/api/v1/pods", {"labelSelector": JOB_NAME}):
            space = pod["metadata"]["namespace"]
            begun = self.seen[space].see_pod(pod, self.now, deleted=kind == "DELETED")
            if begun is not None and not self.seen[space].jobs[begun.job].indexed:
                self.later(self.evict(space, begun))

    async def evict(self, space: str, pod: SeenPod) -> None:
        """Disrupt a pod when its machine's life is over, unless it has ended before."""
        await self.pause(self.market.life_of_pod(pod.job, pod.number))
        if not pod.running:
            return
        metadata = {"name": pod.name, "namespace": space}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        with contextlib.suppress(ApiError):  # it has ended just now
            await self.api.create(f"/api/v1/namespaces/{space}/pods/{pod.name}/eviction", eviction)

    async def lose(self, policy: str, machine: int) -> None:
        """Disrupt all pods of a shared machine whenever it is lost; another one takes its place."""
        path = f"/api/v1/nodes/{shared_machine(policy, machine)}"
        for time_of_loss in self.market.losses(machine):
            await self.until(time_of_loss)
            await self.taint(path, [TAINT])
            await self.pause(REPLACED)
            await self.taint(path, [])

    async def taint(self, path: str, taints: list[Json]) -> None:
        """Set the taints of a spot machine, beside its own."""
        own, *_ = (await self.api.get(path))["spec"]["taints"]
        await self.api.patch(path, [{"op": "replace", "path": "/spec/taints", "value": [own, *taints]}])


def drawn_jobs(market: Market, part: float) -> list[DrawnJob]:
    """Return the market's Jobs, those of many pods first, or only a part of them."""
    (one, many), (one_bug, many_bug) = SIZES["good"], SIZES["bugs"]
    singles = market.jobs(max(1, round(part * one)), max(1, round(part * one_bug)))
    several = market.jobs(max(1, round(part * many)), round(part * many_bug), pods=PODS)
    return [*several, *singles]
