"""Recorded spot markets on a real control plane: `python -m tests.bench.spot.real FOLDER`.

Three markets are played three hundred times as fast, with twenty Jobs of twelve hours each, which may take twice the
time. In the middle the leader is killed, the webhook hangs for twenty seconds, and the policy is edited. Prints how
many Jobs were late, and what they cost beside `replay.py`, which decides by the same functions without a cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Final

from tests.bench.faster import events, faster_cluster
from tests.bench.kubelet import SUCCESS, end
from tests.bench.simulation import Simulation, namespace_of, policy_of
from tests.bench.spot.__main__ import traces_in
from tests.bench.spot.replay import PRICE, Case, Trace, replay, settings_of
from tests.cluster.manifests import job
from tests.cluster.nodes import MARK, own_node
from webhook.kube.client import Api
from webhook.policy.model import Deadlines, Duration, Profile

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl
    from webhook.objects.problem import Json

FASTER: Final = 300
HOUR: Final = 3600 / FASTER  # seconds
CASE: Final = Case(work=round(12 * HOUR), checkpoint=round(HOUR / 2), factor=2.0)
START: Final = 5  # seconds, of the policy: what KWOK and a scheduler that is busy may take
MARKETS: Final = 3
JOBS: Final = 20  # on each market
APART: Final = HOUR / 2
LEAST, MOST = 0.4, 0.8  # of the time in which a market has spot nodes
NAME: Final = "deadline"
OWN: Final = "retry-policy-test/market"  # label of nodes
LOST: Final = {"key": "machine", "value": "lost", "effect": "NoExecute"}
JOB_NAME: Final = "batch.kubernetes.io/job-name"


@dataclass
class SeenPod:
    """A pod; times are seconds from the beginning."""

    job: str
    bound: float
    spot: bool
    began: float | None = None
    ended: float | None = None


class Markets(Simulation):
    """The markets, the nodes that they take away, and the programs that run there."""

    def __init__(self, api: Api, kubectl: Kubectl, traces: list[Trace]) -> None:
        super().__init__(api, 1.0)
        self.kubectl = kubectl
        self.traces = traces
        self.created: dict[str, float] = {}
        self.finished: dict[str, float] = {}
        self.saved: dict[str, float] = defaultdict(float)
        self.pods: dict[str, SeenPod] = {}
        self.restarted: subprocess.Popen[bytes] | None = None  # the leader after it was killed

    async def main(self) -> None:
        nodes = [self.node(number, spot=spot) for number in range(len(self.traces)) for spot in (True, False)]
        await self.prepare(namespace_of(NAME, opted_in=True), nodes)
        async with self.started():
            self.later(self.watch_jobs())
            self.later(self.watch_pods())
            for number, trace in enumerate(self.traces):
                self.later(self.play(number, trace))
                self.later(self.create(number))
            self.later(self.disturb())
            await self.until_true(lambda: len(self.finished) == MARKETS * JOBS)

    def node(self, market: int, *, spot: bool) -> Json:
        node = own_node(f"market-{'spot' if spot else 'on-demand'}-{market}", spot=spot)
        node["metadata"]["labels"][OWN] = str(market)
        return node

    async def create(self, market: int) -> None:
        for number in range(JOBS):
            await self.until(number * APART)
            name = f"job-{market}-{number}"
            manifest = job(name, {})
            manifest["metadata"]["annotations"] = CASE.said
            manifest["spec"]["template"]["spec"]["nodeSelector"] = {MARK: "fake", OWN: str(market)}
            self.created[name] = self.now
            await self.api.create(f"/apis/batch/v1/namespaces/{NAME}/jobs", manifest)

    async def play(self, market: int, trace: Trace) -> None:
        """Take the spot node of a market away while its trace has none."""
        path = f"/api/v1/nodes/market-spot-{market}"
        own, *_ = (await self.api.get(path))["spec"]["taints"]
        last = 0.0
        while True:
            first, last = trace.span_after(last)
            for time, taints in ((first, [own]), (last, [own, LOST])):
                if time == first > self.now:
                    await self.taint(path, [own, LOST])
                await self.until(time)
                await self.taint(path, taints)

    async def taint(self, path: str, taints: list[Json]) -> None:
        await self.api.patch(path, [{"op": "replace", "path": "/spec/taints", "value": taints}])

    async def watch_jobs(self) -> None:
        async for _, root in events(self.api, f"/apis/batch/v1/namespaces/{NAME}/jobs", {}):
            for one in root["status"].get("conditions") or ():
                if one["type"] == "Complete" and one["status"] == "True":
                    self.finished.setdefault(root["metadata"]["name"], self.now)

    async def watch_pods(self) -> None:
        async for kind, pod in events(self.api, f"/api/v1/namespaces/{NAME}/pods", {"labelSelector": JOB_NAME}):
            uid, node, phase = pod["metadata"]["uid"], pod["spec"].get("nodeName"), pod["status"].get("phase")
            if node and uid not in self.pods:
                self.pods[uid] = SeenPod(pod["metadata"]["labels"][JOB_NAME], self.now, node.startswith("market-spot"))
            seen = self.pods.get(uid)
            if seen is None:
                continue
            over = kind == "DELETED" or phase in {"Failed", "Succeeded"} or pod["metadata"].get("deletionTimestamp")
            if phase == "Running" and seen.began is None and not over:
                seen.began = self.now
                self.later(self.run(pod, seen))
            elif over and seen.ended is None:
                seen.ended = self.now
                if phase != "Succeeded" and seen.began is not None:
                    self.saved[seen.job] = CASE.saved(self.saved[seen.job], seen.ended - seen.began)

    async def run(self, pod: Json, seen: SeenPod) -> None:
        """End the program of a pod when its work is done, unless its pod ends before."""
        await self.pause(CASE.work - self.saved[seen.job])
        if seen.ended is None:
            await end(self.api, pod, SUCCESS)

    async def disturb(self) -> None:
        """Kill the leader, let the webhook hang, and edit the policy."""
        await self.until(6 * HOUR)
        controller, server = (program_named(command) for command in ("control", "serve"))
        arguments, environment = (read(controller, of) for of in ("cmdline", "environ"))
        os.kill(controller, signal.SIGKILL)
        print(f"{self.now:.0f} s: the leader is killed", flush=True)
        env = dict(one.split("=", 1) for one in environment)
        self.restarted = subprocess.Popen(  # noqa: ASYNC220
            arguments, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await self.until(10 * HOUR)
        os.kill(server, signal.SIGSTOP)
        await self.pause(20)
        os.kill(server, signal.SIGCONT)
        print(f"{self.now:.0f} s: the webhook has hung for 20 s", flush=True)
        await self.until(14 * HOUR)
        file = self.kubectl.kubeconfig.with_name("policy.yaml")
        file.write_text(policy_file(limit=2))
        print(f"{self.now:.0f} s: the policy is edited", flush=True)

    def cost(self, market: int) -> float:
        """Return what the Jobs of a market cost, in seconds of an on-demand node."""
        prefix = f"job-{market}-"
        pods = [pod for pod in self.pods.values() if pod.job.startswith(prefix)]
        return sum(
            ((self.now if pod.ended is None else pod.ended) - pod.bound) * (PRICE if pod.spot else 1) for pod in pods
        )

    @property
    def start(self) -> float:
        """How long a pod took from its node to its program, in the mean."""
        return mean(pod.began - pod.bound for pod in self.pods.values() if pod.began is not None)


def program_named(command: str) -> int:
    """Return the process of this control plane that runs a command of the product."""
    for folder in Path("/proc").glob("[0-9]*"):
        words = read(int(folder.name), "cmdline")
        if any(word.endswith("/retry-policy") for word in words) and command in words and is_child(int(folder.name)):
            return int(folder.name)
    raise LookupError(command)


def is_child(process: int) -> bool:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()


def read(process: int, what: str) -> list[str]:
    try:
        return Path(f"/proc/{process}/{what}").read_text().rstrip("\0").split("\0")
    except OSError:
        return []


def policy_file(limit: int = 1) -> str:
    sections: Json = {"placement": {"provider": "gke"}, "deadline": {"start": START}, "disruptions": {"limit": limit}}
    return policy_of({"default": {}, NAME: sections})


def scaled(trace: Trace) -> Trace:
    return Trace(
        trace.name, tuple((first / FASTER, last / FASTER) for first, last in trace.spans), trace.length / FASTER
    )


def chosen(folder: Path) -> list[Trace]:
    """Return the first markets that are neither nearly always there nor rarely."""
    found = [
        scaled(trace)
        for trace in traces_in(folder)
        if LEAST < sum(last - first for first, last in trace.spans) / trace.length < MOST
    ]
    return found[:: len(found) // MARKETS][:MARKETS]


async def measured(kubectl: Kubectl, traces: list[Trace]) -> Markets:
    async with await Api.connect(str(kubectl.kubeconfig)) as api:
        markets = Markets(api, kubectl, traces)
        try:
            await markets.main()
        finally:
            if markets.restarted is not None:
                markets.restarted.kill()
        return markets


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spot.real", description=__doc__)
    parser.add_argument("folder", type=Path, help="with spot_traces.json.gz")
    traces = chosen(parser.parse_args().folder)
    with faster_cluster(policy_file(), namespace_of(NAME, opted_in=True), 60 / FASTER) as kubectl:
        markets = asyncio.run(measured(kubectl, traces))
    settings = settings_of(Profile(deadline=Deadlines(start=Duration(START))), CASE)
    due = settings.deadline.due(0.0, 1) if settings.deadline is not None else 0.0
    took = {name: markets.finished[name] - created for name, created in markets.created.items()}
    print(f"{sum(time > due + 1 for time in took.values())} of {len(took)} late; a start took {markets.start:.1f} s")
    for number, trace in enumerate(traces):
        begins = [markets.created[f"job-{number}-{one}"] for one in range(JOBS)]
        foretold = sum(replay(CASE, settings, [trace], one, start=markets.start, faster=FASTER).cost for one in begins)
        paid, ideal = markets.cost(number), JOBS * CASE.work
        print(f"{trace.name}: cost {paid / ideal:.3f} of on-demand, replayed {foretold / ideal:.3f}")


if __name__ == "__main__":
    main()
