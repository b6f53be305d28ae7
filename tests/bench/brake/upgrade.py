"""Two upgrades of a node pool on which 500 Jobs run: does `rateLimit` let them pass?

Each Job may be disrupted once, which the first upgrade does; the second one exceeds its limit, and the leader fails it
(`onExceed: Fail`). That is the most that an upgrade makes the leader do: one action for each pod. All Jobs are of one
namespace. A node is upgraded as a cloud does it, and as `kubectl drain` does: all nodes of the old pool are cordoned, a
new node comes, the pods of the old one are evicted, and the node is deleted once they are gone; 20 nodes at a time.

Each line is a control plane of its own: `python -m tests.bench.brake.upgrade [JOBS]` takes a quarter of an hour.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import yaml

from tests.bench.brake.witness import Witness, most_in_a_minute
from tests.bench.disruptions import metrics
from tests.bench.faster import events
from tests.bench.simulation import new_namespace
from tests.cluster.manifests import job
from tests.cluster.nodes import own_node
from tests.faults.stage import Stage, new_stage
from webhook.kube.client import Api, ApiError
from webhook.policy.model import RateLimit
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

JOBS = 500
LIMIT = 1  # disruptions.limit
NODES = 50
AT_ONCE = 20  # nodes: the most of a surge upgrade of GKE
REFUSED_FOR = 5.0  # seconds after which kubectl drain repeats a refused eviction
CREATORS = 20
LONGEST = 180.0  # seconds until all pods run, or all Jobs have failed; with a tenth of the limits not all have
NAMESPACE = "upgraded"
NODE_PATH = "/api/v1/nodes"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
LOG_LINE = "actions wait for rateLimit of the policy"
DEFAULT = RateLimit()
TENTH = RateLimit(cluster=DEFAULT.cluster // 10, namespace=DEFAULT.namespace // 10)


class Play(NamedTuple):
    """An upgrade: its name, the seconds that each group of AT_ONCE nodes takes at least, and the limit in force."""

    name: str
    pause: float
    limit: RateLimit


PLAYS = (
    Play("20 nodes a minute", 60.0, DEFAULT),
    Play("as fast as pods end", 0.0, DEFAULT),
    Play("as fast, a tenth of the limits", 0.0, TENTH),
)


class Upgrade:
    """The upgrades of one play on one stage."""

    def __init__(self, stage: Stage, api: Api, play: Play, jobs: int) -> None:
        self.stage = stage
        self.api = api
        self.play = play
        self.jobs = jobs
        self.seen = Witness()
        self.nodes: list[str] = []
        self.numbered = 0

    async def main(self) -> None:
        """Play, and print what happened."""
        for root in (await self.api.get(NODE_PATH))["items"]:  # the pool is to have the only nodes
            await self.api.delete(f"{NODE_PATH}/{root['metadata']['name']}", root["metadata"]["uid"])
        for _ in range(NODES):
            await self.add_node()
        await new_namespace(self.api, NAMESPACE)
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(self.watch_pods()), group.create_task(self.watch_jobs())]
            await self.play_on()
            for task in watching:
                task.cancel()

    async def play_on(self) -> None:
        await at_once(CREATORS, [self.create(number) for number in range(self.jobs)])
        await self.until_running()
        first = await self.upgrade(0.0)
        await self.until_running()
        print(f"{self.play.name}, {self.play.limit}")
        print(f"  first upgrade: {NODES} nodes in {first:.0f} s, {self.jobs} pods run again")
        print(f"  tries of the leader: {self.counted('taken')} allowed, {self.counted('delayed')} delayed")
        drained = await self.upgrade(self.play.pause)
        await until(lambda: len(self.seen.failed) == self.jobs, LONGEST)
        self.report(drained)

    def report(self, drained: float) -> None:
        wanted, delays = self.seen.wanted(LIMIT), self.seen.delays(LIMIT)
        print(f"  second upgrade: {NODES} nodes in {drained:.0f} s, {len(wanted)} Jobs beyond their limit")
        most = most_in_a_minute([*wanted.values()]), most_in_a_minute([*self.seen.failed.values()])
        print(f"  in a minute, at most: {most[0]} Jobs to fail, {most[1]} failed")
        print(
            f"  {len(delays)} Jobs failed, after their disruption: median {statistics.median(delays):.1f} s, "
            f"slowest {delays[-1]:.1f} s"
        )
        logged = sum(LOG_LINE in self.stage.processes.log(one.name).read_text() for one in self.stage.replicas)
        print(
            f"  tries of the leader: {self.counted('taken')} allowed, {self.counted('delayed')} delayed; "
            f"replicas that logged a delay: {logged}",
            flush=True,
        )

    async def create(self, number: int) -> None:
        manifest = job(f"job-{number}", backoffLimit=3)
        manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        await self.api.create(JOBS_PATH, manifest)

    async def add_node(self) -> None:
        self.numbered += 1
        node = own_node(f"pool-{self.numbered}", spot=self.numbered % 2 == 0)
        await self.api.create(NODE_PATH, node)
        self.nodes.append(node["metadata"]["name"])

    async def upgrade(self, pause: float) -> float:
        """Replace all nodes; return the seconds that it took."""
        begin = time.monotonic()
        old, self.nodes = self.nodes, []
        for node in old:
            await self.api.patch(f"{NODE_PATH}/{node}", [{"op": "add", "path": "/spec/unschedulable", "value": True}])
        for first in range(0, NODES, AT_ONCE):
            following = asyncio.sleep(pause if first + AT_ONCE < NODES else 0.0)
            await asyncio.gather(following, *map(self.replace, old[first : first + AT_ONCE]))
        return time.monotonic() - begin

    async def replace(self, node: str) -> None:
        """Add a node, drain the old one, and delete it."""
        await self.add_node()
        pods = (await self.api.get(PODS_PATH, {"fieldSelector": f"spec.nodeName={node}"}))["items"]
        await asyncio.gather(*(self.evict(pod["metadata"]["name"]) for pod in pods))
        uids = {pod["metadata"]["uid"] for pod in pods}
        await until(lambda: not uids & self.seen.pods.keys(), LONGEST)
        await self.api.write("DELETE", f"{NODE_PATH}/{node}", {})

    async def evict(self, name: str) -> None:
        """Evict a pod as `kubectl drain` does: a refused eviction is repeated, and a pod that is gone is evicted."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
        while True:
            try:
                await self.api.create(f"{PODS_PATH}/{name}/eviction", eviction)
            except ApiError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return
                if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
                await asyncio.sleep(REFUSED_FOR)
            else:
                return

    async def until_running(self) -> None:
        await until(lambda: self.seen.running == self.jobs, LONGEST)
        if self.seen.running != self.jobs:
            raise SystemExit(f"only {self.seen.running} of {self.jobs} pods run after {LONGEST:.0f} s")

    async def watch_pods(self) -> None:
        async for kind, pod in events(self.api, PODS_PATH, {}):
            self.seen.see_pod(kind, pod, time.monotonic())

    async def watch_jobs(self) -> None:
        async for _, found in events(self.api, JOBS_PATH, {}):
            self.seen.see_job(found, time.monotonic())

    def counted(self, result: str) -> int:
        """Return how many tries to fail a Job had this result; a try that a conflict ends is repeated."""
        name = f'retry_policy_leader_actions_total{{action="fail",result="{result}"}}'
        return int(sum(metrics(replica, name).get(name, 0.0) for replica in self.stage.replicas))


async def until(holds: Callable[[], bool], seconds: float) -> None:
    """Return once a condition holds, or these seconds have passed."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:  # noqa: ASYNC110 - or the time
        await asyncio.sleep(0.1)


async def at_once(most: int, calls: list[Coroutine[Any, Any, None]]) -> None:
    """Await all calls, not more than so many at the same time."""
    places = asyncio.Semaphore(most)

    async def one(call: Coroutine[Any, Any, None]) -> None:
        async with places:
            await call

    await asyncio.gather(*map(one, calls))


def with_policy(stage: Stage, limit: RateLimit) -> None:
    """Let one disruption of a Job pass, and the second one fail it, under a rate limit."""
    policy = yaml.safe_load(stage.policy["data"][KEY])
    policy["profiles"]["default"]["disruptions"] |= {"limit": LIMIT, "onExceed": "Fail"}
    policy["profiles"]["default"]["placement"]["provider"] = "gke"
    policy["rateLimit"] = {"cluster": limit.cluster, "namespace": limit.namespace}
    stage.policy = {**stage.policy, "data": {KEY: yaml.safe_dump(policy)}}


async def run(stage: Stage, play: Play, jobs: int) -> None:
    async with await Api.connect(str(stage.admin)) as api:
        await Upgrade(stage, api, play, jobs).main()


def main(jobs: int) -> None:
    for play in PLAYS:
        with new_stage(whole=True) as stage:
            with_policy(stage, play.limit)
            stage.reset()
            stage.two_replicas()
            asyncio.run(run(stage, play, jobs))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS)
