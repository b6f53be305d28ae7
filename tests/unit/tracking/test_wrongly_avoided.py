"""How many of 250 nodes are avoided in four weeks in which none has a fault, and everything else happens.

What happens is what issues of Kubernetes tell of nodes without faults (kubernetes#106884, #125579, #133382), what ends
recorded attempts (docs/explanation/recorded.md), and what spot markets and updates do. No record says how often all of
that happens; here it does more often than people would bear.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any, Final

from tests.opted_in import opted_in
from tests.unit.accounts.pods import disrupted, failed, job, running_pod
from tests.unit.controller.leader import see_account
from webhook.accounts.account import Account
from webhook.accounts.stored import encode
from webhook.objects.problem import Json
from webhook.objects.times import written
from webhook.pods.outcomes import outcome_of
from webhook.pods.pods import Pod
from webhook.pods.rejections import DAY
from webhook.policy.model import BadNodes, Hardware
from webhook.systems.job import spec as batch
from webhook.tracking.cluster import Cluster
from webhook.tracking.node_faults import NodeFaults
from webhook.tracking.trackers import Trackers

NODES: Final = tuple(f"node-{number}" for number in range(250))
WITH_DEVICES: Final = frozenset(NODES[::4])
SPOT: Final = NODES[1::3]
BEGIN: Final = 1_767_225_600.0
WEEKS: Final = 4
LASTS: Final = WEEKS * 7 * DAY
SETTLES: Final = 30.0  # seconds after a crash at which the leader looks at its node again
NOISE: Final = ("NetworkUnavailable", "FrequentKubeletRestart", "FrequentUnregisterNetDevice", "DiskPressure")
NO_DEVICE: Final = "UnexpectedAdmissionError"

Event = tuple[float, Callable[[], Any]]
Happens = tuple[float, int, Callable[[], Any]]


class Fleet:
    """250 nodes, and a replica that watches their pods; `avoided`: the nodes that it avoids, and since which day."""

    def __init__(self) -> None:
        self.draw = random.Random(42)  # noqa: S311
        self.now = BEGIN
        self.happens: list[Happens] = []
        self.made = 0
        self.blamed = 0
        self.unready: dict[str, float] = {}  # until when
        self.gone: dict[str, float] = {}
        self.noisy: dict[str, float] = {}
        self.created = dict.fromkeys(NODES, BEGIN - DAY)
        self.avoided: set[tuple[str, int]] = set()
        api: Any = self
        self.faults = NodeFaults(api, lambda: self.now)
        self.trackers = Trackers(
            opted_in(Cluster(api)), rejecting=self.see_rejecting, faulty=self.see_faulty, clock=lambda: self.now
        )
        self.trackers.now = lambda: self.now
        self.trackers.pods.synced.set()

    def see_rejecting(self, pod: Pod, before: tuple[float, ...]) -> None:
        if len(before) >= BadNodes().rejected:
            self.avoided.add((pod.node, int((self.now - BEGIN) / DAY)))

    def see_faulty(self, _: str, detail: Any, workloads: int) -> None:
        if workloads >= BadNodes().faults:
            self.avoided.add((detail.node, int((self.now - BEGIN) / DAY)))

    async def get(self, _: str, query: dict[str, str], **__: Any) -> Json:
        """Return a node as the API has it now."""
        name = query["fieldSelector"].removeprefix("metadata.name=")
        if self.gone.get(name, 0.0) > self.now:
            return {"items": []}
        ready = "Unknown" if self.unready.get(name, 0.0) > self.now else "True"
        conditions = [{"type": "Ready", "status": ready, "reason": "NodeStatusUnknown"}]
        if self.noisy.get(name, 0.0) > self.now:
            conditions += [{"type": one, "status": "True"} for one in NOISE]
        return {"items": [{"metadata": {"name": name}, "status": {"conditions": conditions}}]}

    def run(self) -> None:
        """Let everything happen."""

        async def work() -> None:
            self.happens += self.everything()
            heapify(self.happens)
            while self.happens:
                self.now, _, happen = heappop(self.happens)
                found = happen()
                if found is not None:
                    await found

        asyncio.run(work())

    def fields(self, node: str, ago: float = 0.0) -> dict[str, Any]:
        """Return the fields of a pod of a workload of its own that ends now, and was started `ago` seconds before."""
        self.made += 1
        devices = (("nvidia.com/gpu", 1.0),) if node in WITH_DEVICES else ()
        return {
            "uid": f"{self.made:08x}-0000-4000-8000-000000000000",
            "name": f"job-{self.made}-a",
            "job": f"job-{self.made}",
            "job_uid": f"uid-{self.made}",
            "node": node,
            "started": written(self.now - ago),
            "ended": written(self.now),
            "resources": (("cpu", 1.0), *devices),
        }

    def reject(self, node: str, reason: str) -> None:
        self.trackers.see_pod(failed(exits=(), reason=reason, **self.fields(node)))

    def succeed(self, node: str) -> None:
        self.trackers.see_pod(running_pod(phase="Succeeded", **self.fields(node, 300)))

    def end_by_platform(self, node: str, reason: str) -> None:
        self.trackers.see_pod(disrupted(reason=reason, **self.fields(node, 300)))

    def run_out_of_memory(self, node: str) -> None:
        self.trackers.see_pod(failed(code=137, exit_reason="OOMKilled", **self.fields(node, 300)))

    async def crash(self, node: str, code: int = 1) -> None:
        """Let a pod crash: the leader looks at its node, and again a while later."""
        pod = failed(code=code, **self.fields(node, 300))
        self.trackers.see_pod(pod)
        if fault := await self.faults.of(node, Hardware()):
            self.blame(pod, fault)
        else:
            heappush(self.happens, (self.now + SETTLES, -self.made, lambda: self.look_again(pod)))

    async def look_again(self, pod: Pod) -> None:
        if fault := await self.faults.of(pod.node, Hardware()):
            self.blame(pod, fault)

    def blame(self, pod: Pod, fault: str) -> None:
        """Let the watch deliver the account in which the fault explains the crash."""
        self.blamed += 1
        account, root = Account(), job(name=pod.job, uid=pod.job_uid)
        account.count(outcome_of(pod, root), "", 0)
        account.blame(pod.name, fault, None, returns=True, in_status=True)
        see_account(self.trackers, batch.JOB, root, encode(account))

    def goes(self, node: str, lasts: float) -> None:
        """Let a machine go, and another one come under its name."""
        self.gone[node] = self.now + lasts
        self.created.pop(node, None)

    def comes(self, node: str) -> None:
        self.created[node] = self.now

    def list_nodes(self) -> None:
        nodes = self.trackers.cluster.known_nodes
        nodes.created, nodes.listed = dict(self.created), self.now

    def times(self, rate: float) -> list[float]:
        """Draw when something happens that happens so often in a week."""
        number = int(rate * WEEKS) + (self.draw.random() < rate * WEEKS % 1)
        return [BEGIN + self.draw.random() * LASTS for _ in range(number)]

    def everything(self) -> Iterator[Happens]:
        """Yield what happens, with a number by which what happens at the same time is ordered."""
        for number, (time, happen) in enumerate(self.kinds_of_events()):
            yield time, number, happen

    def kinds_of_events(self) -> Iterator[Event]:
        yield BEGIN, self.list_nodes
        for node in NODES:
            for time in self.times(0.5):
                yield from self.kubelet_restarts(node, time)
            for time in self.times(0.25):
                yield from self.reboots(node, time)
            for time in self.times(3 if node in SPOT else 0.25):
                yield from self.is_reclaimed(node, time)
            for time in self.times(0.5):
                yield from self.is_full(node, time)
            for time in self.times(0.25):
                yield from self.has_pressure(node, time)
        for time in self.times(0.25):
            yield from self.api_stalls(time)
        for time in self.times(0.5):
            yield from self.bug_is_everywhere(time)

    def kubelet_restarts(self, node: str, time: float) -> Iterator[Event]:
        """Pods that ran are rejected at once, and some that come in place of those that end in three minutes."""
        reason = NO_DEVICE if node in WITH_DEVICES else "OutOfcpu"
        for _ in range(self.draw.randint(1, 8)):
            yield time + self.draw.random() * 4, lambda: self.reject(node, reason)
        for number in range(9):
            ended = time + 10 + 20 * number
            yield ended, lambda: self.succeed(node)
            if self.draw.random() < 0.5:
                yield ended + self.draw.uniform(0, 5), lambda: self.reject(node, "OutOfmemory")

    def reboots(self, node: str, time: float) -> Iterator[Event]:
        """Its pods fail while it is not ready yet, or are rejected while the plugin of their device does not run."""
        yield time, lambda: self.unready.update({node: time + 120})
        for number in range(self.draw.randint(2, 8)):
            if node in WITH_DEVICES:
                yield time + 60 + number / 4, lambda: self.reject(node, NO_DEVICE)
            else:
                yield time + 60 + number / 4, lambda: self.crash(node, 255)
        if node in WITH_DEVICES:
            yield time + 72, lambda: self.reject(node, NO_DEVICE)

    def is_reclaimed(self, node: str, time: float) -> Iterator[Event]:
        """The machine goes, some of its pods crash before they are told to end, and one of the same name comes."""
        lasts = self.draw.uniform(60, 1800)
        yield time, lambda: self.unready.update({node: time + 60})
        yield time + 60, lambda: self.goes(node, lasts)
        yield time + 60 + lasts, lambda: self.comes(node)
        yield time + 360 + lasts, self.list_nodes
        for _ in range(self.draw.randint(1, 6)):
            if self.draw.random() < 0.3:
                yield time + self.draw.uniform(-20, 50), lambda: self.crash(node)
            else:
                yield time + self.draw.random() * 30, lambda: self.end_by_platform(node, "DeletionByPodGC")

    def is_full(self, node: str, time: float) -> Iterator[Event]:
        """Short pods follow each other; what one had is not always free for the next."""
        for number in range(8):
            ended = time + 25 * number
            yield ended, lambda: self.succeed(node)
            for _ in range(self.draw.choice((0, 0, 0, 1, 3))):
                yield ended + self.draw.random(), lambda: self.reject(node, "OutOfcpu")

    def has_pressure(self, node: str, time: float) -> Iterator[Event]:
        """A greedy pod has others evicted; some use more memory than they may, some are preempted."""
        yield time, lambda: self.noisy.update({node: time + 7200})
        for number in range(self.draw.randint(1, 6)):
            yield time + number, lambda: self.end_by_platform(node, "TerminationByKubelet")
            yield time + number, lambda: self.run_out_of_memory(node)
            yield time + 10 * number, lambda: self.end_by_platform(node, "PreemptionByScheduler")
            yield time + 600 * number, lambda: self.crash(node)

    def api_stalls(self, time: float) -> Iterator[Event]:
        """No kubelet reaches the API for two minutes, and programs that need it crash."""
        for node in NODES:
            yield time, partial(self.unready.update, {node: time + 120})
            for _ in range(self.draw.choice((0, 0, 1, 3))):
                yield time + self.draw.random() * 100, partial(self.crash, node)

    def bug_is_everywhere(self, time: float) -> Iterator[Event]:
        """The pods of one Job crash at their start, four on each node; fifty with one bad configuration on one."""
        for node in [*NODES * 4, *[self.draw.choice(NODES)] * 50]:
            yield time + self.draw.random() * 60, partial(self.crash, node)


def test_of_a_thousand_weeks_of_nodes_without_faults_at_most_one_ends_with_a_node_avoided() -> None:
    fleet = Fleet()
    fleet.run()
    assert len(NODES) * WEEKS == 1_000
    assert fleet.blamed > 1_500  # crashes that a node explains which is gone or not ready
    assert len(fleet.avoided) <= 1, fleet.avoided
