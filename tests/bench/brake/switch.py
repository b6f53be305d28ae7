"""How soon the policy's emergency is in force: two replicas, and a leader that fails five Jobs each second.

Each round writes `emergency: {actions: Stop, retries: Stop}` to the ConfigMap, and Run a while later. All times begin
when the write is sent. Each replica is asked for an admission again and again: its time is that of the first answer
under the new policy. The leader's time is that of the last Job that it fails, as a watch sees it. It starts its own
control plane: `python -m tests.bench.brake.switch [ROUNDS]` takes five minutes.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import ssl
import statistics
import sys
import time

import aiohttp
import msgspec
import yaml

from tests.admission import review_of
from tests.bench.brake.upgrade import until
from tests.bench.brake.witness import Witness
from tests.bench.faster import events
from tests.bench.simulation import new_namespace
from tests.cluster.manifests import job
from tests.faults.installed import POLICY
from tests.faults.stage import Replica, Stage, new_stage
from tests.objects import job as reviewed_job
from tests.objects import job_spec
from webhook.kube.client import Api, ApiError
from webhook.policy.parse import KEY

ROUNDS = 20
PER_SECOND = 5  # Jobs that are created, and disrupted once they run
STOPPED, RUNNING = 3.0, 8.0  # seconds of each round; once actions are allowed, what was held follows within 5
BETWEEN = 0.01  # seconds from a replica's answer to the next request
RETRIES = 3  # that the author of the reviewed Job asks for
NAMESPACE = "stopped"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
REVIEW = review_of(reviewed_job(job_spec(backoffLimit=RETRIES), namespace=NAMESPACE), namespace=NAMESPACE)


class Switch:
    """All rounds on one stage. `answers`: by replica, the time of each answer, and whether it lowered the retries."""

    def __init__(self, stage: Stage, api: Api, rounds: int) -> None:
        self.stage = stage
        self.api = api
        self.rounds = rounds
        self.seen = Witness()
        self.answers: dict[str, list[tuple[float, bool]]] = {one.name: [] for one in stage.replicas}
        self.evicted: set[str] = set()
        self.denied: list[str] = []
        self.writes: list[float] = []  # the seconds that the API server took for each

    async def main(self) -> None:
        await new_namespace(self.api, NAMESPACE)
        async with asyncio.TaskGroup() as group:
            work = [self.create(), self.disrupt(), self.watch_jobs(), *map(self.ask, self.stage.replicas)]
            tasks = [group.create_task(one) for one in work]
            await until(lambda: len(self.seen.failed) > RUNNING * PER_SECOND, 60)
            stops, runs = [], []
            for _ in range(self.rounds):
                stops.append(await self.write("Stop"))
                await asyncio.sleep(STOPPED)
                runs.append(await self.write("Run"))
                await asyncio.sleep(RUNNING)
            for task in tasks:
                task.cancel()
        self.report(stops, runs)

    def report(self, stops: list[float], runs: list[float]) -> None:
        print(f"{len(stops)} stops, {len(self.seen.failed)} Jobs failed by the leader, load {os.getloadavg()[0]:.1f}")
        print(f"the write itself: {milliseconds(self.writes)}")
        for what, begins, lowered in (("Stop", stops, True), ("Run", runs, False)):
            took = [self.first(name, begin, lowered=lowered) for begin in begins for name in self.answers]
            print(f"retries: {what} until each replica answers so: {milliseconds(took)}")
        between = [seen for begin, end in zip(stops, runs, strict=True) for seen in self.last(begin, end)]
        none = f"none after {len(stops) - len(between)}"
        print(f"actions: Stop until the leader's last action: {milliseconds(between)}; {none}")
        print(f"new Jobs denied: {len(self.denied)} {self.denied[:1]}")

    def first(self, name: str, begin: float, *, lowered: bool) -> float:
        """Return the seconds from a write to a replica's first answer under it; fail if a later one is as before."""
        after = [(at - begin, found) for at, found in self.answers[name] if begin <= at < begin + STOPPED]
        first = next(at for at, found in after if found == lowered)
        assert all(found == lowered for at, found in after if at >= first)
        return first

    def last(self, begin: float, end: float) -> list[float]:
        """Return the seconds from a write to the last action before `end`; none if there was no action."""
        return [max(after) - begin] if (after := [at for at in self.seen.failed.values() if begin <= at < end]) else []

    async def write(self, said: str) -> float:
        """Write the switch; return when that was sent."""
        policy = yaml.safe_load(self.stage.policy["data"][KEY])
        policy["emergency"] = {"actions": said, "retries": said}
        operation = {"op": "add", "path": f"/data/{KEY}", "value": yaml.safe_dump(policy)}
        begin = time.monotonic()
        await self.api.patch(POLICY, [operation])
        self.writes.append(time.monotonic() - begin)
        return begin

    async def ask(self, replica: Replica) -> None:
        """Ask a replica for the same admission again and again."""
        context = ssl.create_default_context(cafile=replica.addresses["ca"])
        async with aiohttp.ClientSession(replica.addresses["https"]) as session:
            while True:
                headers = {"Content-Type": "application/json"}
                async with session.post("/mutate", data=REVIEW, headers=headers, ssl=context) as answer:
                    patch = patch_of(await answer.read())
                lowered = any(one["path"] == "/spec/backoffLimit" and one["value"] == 0 for one in patch)
                self.answers[replica.name].append((time.monotonic(), lowered))
                await asyncio.sleep(BETWEEN)

    async def create(self) -> None:
        """Create Jobs that the Job controller deletes soon after they have ended."""
        for number in itertools.count():
            try:
                await self.api.create(JOBS_PATH, job(f"job-{number}", backoffLimit=3, ttlSecondsAfterFinished=10))
            except ApiError as error:
                self.denied.append(str(error))
            await asyncio.sleep(1 / PER_SECOND)

    async def disrupt(self) -> None:
        """Evict each pod once, when it runs."""
        async for _, pod in events(self.api, PODS_PATH, {}):
            metadata = pod["metadata"]
            owner, name = metadata["ownerReferences"][0]["uid"], metadata["name"]
            if pod["status"]["phase"] == "Running" and owner not in self.evicted:
                self.evicted.add(owner)
                eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
                with contextlib.suppress(ApiError):  # it has ended just now
                    await self.api.create(f"{PODS_PATH}/{name}/eviction", eviction)

    async def watch_jobs(self) -> None:
        async for _, found in events(self.api, JOBS_PATH, {}):
            self.seen.see_job(found, time.monotonic())


def patch_of(body: bytes) -> list[dict[str, object]]:
    """Return the JSON Patch of an answer; empty if it has none."""
    encoded = msgspec.json.decode(body)["response"].get("patch")
    return [] if encoded is None else msgspec.json.decode(base64.b64decode(encoded), type=list[dict[str, object]])


def milliseconds(seconds: list[float]) -> str:
    if not seconds:
        return "never"
    return f"median {1000 * statistics.median(seconds):.0f} ms, slowest {1000 * max(seconds):.0f} ms, of {len(seconds)}"


def with_policy(stage: Stage) -> None:
    """Fail each Job at its first disruption, as many as come."""
    policy = yaml.safe_load(stage.policy["data"][KEY])
    policy["profiles"]["default"]["disruptions"] |= {"limit": 0, "onExceed": "Fail"}
    policy["profiles"]["default"]["placement"]["provider"] = "gke"
    policy["rateLimit"] = {"cluster": 10_000, "namespace": 10_000}
    stage.policy = {**stage.policy, "data": {KEY: yaml.safe_dump(policy)}}


async def run(stage: Stage, rounds: int) -> None:
    async with await Api.connect(str(stage.admin)) as api:
        await Switch(stage, api, rounds).main()


def main(rounds: int) -> None:
    with new_stage(whole=True) as stage:
        with_policy(stage)
        stage.reset()
        stage.two_replicas()
        asyncio.run(run(stage, rounds))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
