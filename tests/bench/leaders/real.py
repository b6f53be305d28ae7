"""Kills real leaders on a real control plane while Jobs wait, are delayed and grow.

Each run starts a leader that kills itself before or after its n-th write, and a standby. Jobs of all scenarios run
beside each other, each scenario in a namespace and with a profile of its own, so that the writes are mixed.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from tests.bench import kubelet
from tests.bench.disruptions import leads
from tests.bench.faster import events
from tests.bench.leaders.scenarios import SCENARIOS, policy_file
from tests.bench.leaders.verdict import History, has_ended, problems
from tests.bench.simulation import new_namespace
from tests.cluster.nodes import PLACEMENT, own_node
from tests.cluster.objects import ACCOUNT
from tests.faults.stage import new_stage
from webhook.kube.client import Api, ApiError
from webhook.policy.parse import KEY
from webhook.systems.account_object import path_of as account_path
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import JOB_NAME

if TYPE_CHECKING:
    from tests.bench.leaders.scenarios import Scenario
    from tests.faults.stage import Replica, Stage
    from webhook.objects.problem import Json

JOBS: Final = 2  # of each scenario in each run
APART_WRITES: Final = 2  # from the write at which one leader dies to that of the next one
LONGEST: Final = 240.0  # seconds of a run
AFTERWARDS: Final = 5.0  # seconds in which nothing more may happen
ON_DEMAND_ONLY: Final = "retry-policy-test/leaders"  # label of nodes that are on-demand
APART: Final = 0.7  # seconds from one Job to the next


class Cluster:
    """The control plane, and what is seen on it; `before`: how many pods a pod's Job had before, by uid."""

    def __init__(self, stage: Stage, api: Api) -> None:
        self.stage = stage
        self.api = api
        self.history = History()
        self.before: dict[str, int] = {}
        self.jobs: dict[tuple[str, str], Json] = {}
        self.scenarios = {space_of(one): one for one in SCENARIOS.values()}
        self.running: set[str] = set()

    async def main(self, runs: int) -> int:
        """Play runs; return in how many something was wrong."""
        for number in range(2):
            node = own_node(f"leaders-{number}", spot=False)
            node["metadata"]["labels"][ON_DEMAND_ONLY] = "true"
            await self.api.create("/api/v1/nodes", node)
        for space, scenario in self.scenarios.items():
            await new_namespace(self.api, space, scenario.name.lower())
        wrong = 0
        async with asyncio.TaskGroup() as self.group:
            watches = [self.group.create_task(work) for work in (self.watch_pods(), self.watch_jobs())]
            for number in range(runs):
                die = f"{('before', 'after')[number % 2]}:{number * APART_WRITES + 1}"
                begin = time.monotonic()
                found = await self.play(number, die)
                wrong += bool(found)
                print(
                    f"killed {die}: {time.monotonic() - begin:.0f} s, {'; '.join(found) or 'nothing wrong'}", flush=True
                )
            for watch in watches:
                watch.cancel()
        return wrong

    async def play(self, number: int, die: str) -> list[str]:
        """Play all scenarios with a leader that dies; return what is wrong."""
        leader = await asyncio.to_thread(self.new_leader, "--die", die)
        standby = await asyncio.to_thread(self.stage.start)
        created = []
        for count in range(JOBS):
            for space, scenario in self.scenarios.items():
                manifest = self.manifest(scenario, f"run-{number}-{count}")
                created.append((space, manifest["metadata"]["name"]))
                await self.create(f"/apis/batch/v1/namespaces/{space}/jobs", manifest, leader)
                await asyncio.sleep(APART)
        deadline = time.monotonic() + LONGEST
        while time.monotonic() < deadline and not all(has_ended(self.jobs.get(key, {})) for key in created):
            self.forget(leader)
            await asyncio.sleep(0.2)
        await asyncio.sleep(AFTERWARDS)
        found = [] if not leader.running else [f"there was no write {die}"]
        for space, name in created:
            job = self.jobs[space, name]
            job = {**job, ACCOUNT: await self.api.find(account_path(batch.JOB, job))}
            found += problems(self.scenarios[space], job, self.of(space))
        if leader.running:
            await asyncio.to_thread(self.end, leader)
        await asyncio.to_thread(self.end, standby)
        return found

    async def create(self, path: str, manifest: Json, leader: Replica) -> None:
        """Create a Job; try again if the leader has just died, as the API server calls no other replica then."""
        while True:
            self.forget(leader)
            try:
                await self.api.create(path, manifest)
            except ApiError:
                if leader.running:
                    raise
                await asyncio.sleep(0.2)
            else:
                return

    def forget(self, leader: Replica) -> None:
        """Take a leader that is dead from the balancer, as its failed readiness would."""
        if not leader.running and leader in self.stage.replicas:
            self.stage.replicas.remove(leader)
            self.stage.processes.running.pop(leader.name, None)
            self.stage.balancer.ask("remove", leader.name)

    def new_leader(self, *options: str) -> Replica:
        """Start a replica and wait until it leads."""
        replica = self.stage.start(*options)
        deadline = time.monotonic() + 60
        while not leads(replica):
            assert time.monotonic() < deadline, "the new replica does not lead"
            time.sleep(0.2)
        return replica

    def end(self, replica: Replica) -> None:
        """End a replica, which releases the Lease."""
        self.stage.terminate(replica)
        replica.process.wait()
        self.stage.balancer.ask("remove", replica.name)
        self.stage.replicas.remove(replica)

    def manifest(self, scenario: Scenario, name: str) -> Json:
        found: Json = {**scenario.manifest(0), "metadata": {"name": name}}
        spec = found["spec"]["template"]["spec"]
        spec |= {"tolerations": list(PLACEMENT["tolerations"])}
        spec["nodeSelector"] = {ON_DEMAND_ONLY: "true"} if not scenario.has_spot else dict(PLACEMENT["nodeSelector"])
        return found

    def of(self, space: str) -> History:
        """Return the history of one namespace."""
        pods = {uid: pod for uid, pod in self.history.pods.items() if pod["metadata"]["namespace"] == space}
        return History(pods, self.history.lifted, self.history.bound, self.history.ended)

    async def watch_jobs(self) -> None:
        async for _, job in events(self.api, "/apis/batch/v1/jobs", {}):
            self.jobs[job["metadata"]["namespace"], job["metadata"]["name"]] = job

    async def watch_pods(self) -> None:
        async for _, pod in events(self.api, "/api/v1/pods", {"labelSelector": JOB_NAME}):
            space, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
            self.before.setdefault(uid, len(self.of(space).of(pod["metadata"]["labels"][JOB_NAME])))
            self.history.see(pod, time.monotonic())
            if pod["status"]["phase"] == "Running" and uid not in self.running:
                self.running.add(uid)
                self.group.create_task(self.run(self.scenarios[space], pod))

    async def run(self, scenario: Scenario, pod: Json) -> None:
        """Run the program of a pod, and end the pod as the kubelet would."""
        seconds, how = scenario.program(pod, self.before[pod["metadata"]["uid"]])
        await asyncio.sleep(seconds / 2)
        await kubelet.end(self.api, pod, how)


def space_of(scenario: Scenario) -> str:
    return f"leaders-{scenario.name.lower()}"


def main(runs: int) -> int:
    """Start a control plane and play runs on it; return in how many something was wrong."""
    with new_stage(whole=True) as stage:
        profiles: dict[str, Json] = {"default": {}} | {one.name.lower(): one.profile for one in SCENARIOS.values()}
        stage.policy = {**stage.policy, "data": {KEY: policy_file(profiles)}}
        stage.reset()
        stage.two_replicas()  # so that certificates are no writes of the leaders that are killed
        stage.end_replicas()
        return asyncio.run(with_api(stage, runs))


async def with_api(stage: Stage, runs: int) -> int:
    async with await Api.connect(str(stage.admin)) as api:
        return await Cluster(stage, api).main(runs)
