"""Two thousand real disruptions of five kinds to 500 Jobs, while replicas start and end: is every account exact?

This program counts the disruptions, and what they cost, by its own watch, and compares: with the accounts, and with the
records of history in the logs of all replicas. It starts its own control plane, with controllers,
scheduler and nodes: `python -m tests.bench.disruptions [JOBS DISRUPTIONS]`.
"""

import asyncio
import contextlib
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import yaml

from tests.awaiting import until
from tests.bench.faster import events
from tests.bench.simulation import new_namespace
from tests.cluster.ended_pods import EndedPods, records_in
from tests.cluster.manifests import job
from tests.cluster.nodes import own_node
from tests.faults.stage import Replica, Stage, new_stage
from webhook.accounts.account import Account
from webhook.accounts.stored import decode
from webhook.history.record import AttemptRecord, Capacity
from webhook.history.usage import UsedRow
from webhook.kube import names
from webhook.kube.client import Api, ApiError
from webhook.objects.problem import Json
from webhook.systems.account_object import ACCOUNT

LIMIT = 3
NODES = 40
NAMESPACE = "disrupted"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
# The weights of the kinds of disruption; a taint and a deletion disrupt all pods of a node.
KINDS = {"evict": 50, "kubelet": 20, "preempt": 15, "taint": 3, "delete": 2}
PAUSE = 0.05  # seconds between disruptions
PRICES = {"Spot": 0.36, "OnDemand": 3.6}  # of a core and hour
EACH = 4  # disruptions of one Job at most, because the Job controller's back-off doubles with each of them
CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "first"}, "value": 1000}


@dataclass
class Truth:
    """The disruptions of each Job, and its pods in order, as seen by this program's own watch."""

    reasons: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # by Job and pod's uid
    pods: dict[str, dict[str, Json]] = field(default_factory=lambda: defaultdict(dict))  # as they were created
    running: dict[str, Json] = field(default_factory=dict)  # by name
    ended: EndedPods = field(default_factory=EndedPods)

    def see(self, kind: str, pod: Json) -> None:
        metadata, status = pod["metadata"], pod.get("status") or {}
        name = (metadata.get("labels") or {}).get("batch.kubernetes.io/job-name")
        if name is None:
            return
        self.pods[name].setdefault(metadata["uid"], pod)
        self.ended.see(pod)
        alive = kind != "DELETED" and status.get("phase") == "Running" and not metadata.get("deletionTimestamp")
        if alive:
            self.running[metadata["name"]] = pod
        else:
            self.running.pop(metadata["name"], None)
        for one in status.get("conditions") or ():
            if one["type"] == "DisruptionTarget" and one["status"] == "True" and status.get("phase") == "Failed":
                self.reasons[name].setdefault(metadata["uid"], one["reason"])  # a taint may overwrite it later

    @property
    def total(self) -> int:
        return sum(len(reasons) for reasons in self.reasons.values())


class PodEnder:
    """Adds nodes, and ends pods in the ways that every run needs."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.nodes = 0

    async def add_node(self) -> None:
        self.nodes += 1
        node = own_node(f"own-{self.nodes}", spot=self.nodes % 2 == 0)
        node["spec"]["taints"] = [{"key": "none", "value": "none", "effect": "PreferNoSchedule"}]
        await self.api.create("/api/v1/nodes", node)

    async def evict(self, pod: Json) -> None:
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace")}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        await self.api.create(f"{_path(pod)}/eviction", eviction)

    async def kubelet(self, pod: Json) -> None:
        """End a pod as a kubelet does when its node shuts down, which KWOK's stages do not simulate."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        operations: list[Json] = [
            {"op": "test", "path": "/status/phase", "value": "Running"},
            {"op": "add", "path": "/status/conditions/-", "value": {**condition, "lastTransitionTime": now}},
            {"op": "add", "path": "/status/reason", "value": "Terminated"},
            {"op": "replace", "path": "/status/phase", "value": "Failed"},
        ]
        await self.api.patch(f"{_path(pod)}/status", operations)


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


class Run(PodEnder):
    """One run against one stage."""

    def __init__(self, stage: Stage, api: Api, jobs: int, disruptions: int) -> None:
        super().__init__(api)
        self.stage = stage
        self.jobs = jobs
        self.disruptions = disruptions
        self.truth = Truth()
        self.chance = random.Random(11)  # noqa: S311 - no secret
        self.done: Counter[str] = Counter()
        self.tasks: set[asyncio.Task[None]] = set()

    async def main(self) -> None:
        async with self.watched():
            await self.begin()
            begin = time.monotonic()
            await self.disrupt()
            took = time.monotonic() - begin
            print(f"{self.truth.total} disruptions of {self.jobs} Jobs in {took:.0f} s; tried {dict(self.done)}")
            await self.compare()
            await self.all_down()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Watch the pods while the block runs."""
        await new_namespace(self.api, NAMESPACE)
        await self.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", CLASS)
        for _ in range(NODES):
            await self.add_node()
        watching = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            watching.cancel()

    async def begin(self) -> None:
        """Create the Jobs, and wait until their pods run."""
        for number in range(self.jobs):
            await self.api.create(JOBS, manifest(number))
        await self.until(lambda: len(self.truth.running) == self.jobs)

    async def watch(self) -> None:
        async for kind, pod in events(self.api, PODS, {}):
            self.truth.see(kind, pod)

    async def disrupt(self) -> None:
        """Disrupt pods at random; after a third of the disruptions replace a replica, after two thirds the leader."""
        steps = [(self.disruptions * 2 // 3, kill_leader), (self.disruptions // 3, replace_follower)]
        while self.truth.total < self.disruptions:
            if steps and self.truth.total >= steps[-1][0]:
                await asyncio.to_thread(steps.pop()[1], self.stage, self.truth.total)
            candidates = [
                pod
                for pod in self.truth.running.values()
                if len(self.truth.reasons[job_of(pod)]) < EACH and pod["spec"].get("nodeName")
            ]
            if not candidates:
                if all(len(self.truth.reasons[name_of(number)]) >= EACH for number in range(self.jobs)):
                    break
                await asyncio.sleep(PAUSE)
                continue
            (kind,) = self.chance.choices([*KINDS], [*KINDS.values()])
            self.done[kind] += 1
            pod = self.chance.choice(candidates)
            self.truth.running.pop(pod["metadata"]["name"], None)
            try:
                await getattr(self, kind)(pod)
            except ApiError:  # it has just been disrupted in another way, or the API server refused
                self.later(1, self.look_again, pod)
            else:
                self.later(15, self.look_again, pod)  # the scheduler may have preempted another pod
            await asyncio.sleep(PAUSE)
        await asyncio.gather(*self.tasks)

    async def look_again(self, pod: Json) -> None:
        self.truth.see("MODIFIED", await self.api.get(f"{PODS}/{pod['metadata']['name']}"))

    async def preempt(self, pod: Json) -> None:
        node = pod["spec"]["nodeName"]
        there = sum(one["spec"].get("nodeName") == node for one in self.truth.running.values()) + 1
        name = f"first-{self.done['preempt']}"
        spec = {
            "priorityClassName": "first",
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": str(65 - there)}}}],
        }
        await self.api.create(PODS, {"metadata": {"name": name}, "spec": spec})
        self.later(8, self.api.write, "DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    async def taint(self, pod: Json) -> None:
        path = f"/api/v1/nodes/{pod['spec']['nodeName']}"
        taint = {"key": "maintenance", "value": "now", "effect": "NoExecute"}
        await self.api.patch(path, [{"op": "add", "path": "/spec/taints/-", "value": taint}])
        self.later(6, self.api.patch, path, [{"op": "remove", "path": "/spec/taints/1"}])

    async def delete(self, pod: Json) -> None:
        await self.api.write("DELETE", f"/api/v1/nodes/{pod['spec']['nodeName']}", {})
        await self.add_node()

    def later(self, seconds: float, call: Any, *arguments: Any) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            with contextlib.suppress(ApiError):
                await call(*arguments)

        task = asyncio.create_task(wait())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def compare(self) -> None:
        """Compare every account, and every placement, with the truth."""
        wrong = await self.until_exact()
        print(f"accounts: {self.jobs - len(wrong)} of {self.jobs} exact {wrong[:5]}")
        lost, unknown = await self.wrong_usage()
        print(f"resource-seconds: {self.jobs - len(lost)} of {self.jobs} accounts exact {lost[:3]}")
        print(f"  by capacity, and money: {self.jobs - len(lost) - len(unknown)} exact {unknown[:3]}")
        missing, wrong_records, no_capacity = self.wrong_records()
        print(
            f"records: {self.truth.total} attempts, {len(missing)} missing, {len(wrong_records)} wrong, "
            f"{no_capacity} without the capacity of a node that was gone before the leader started"
        )
        print(f"  {wrong_records[:3]}" if wrong_records else "  all others as the watch saw them")
        reasons = Counter(reason for found in self.truth.reasons.values() for reason in found.values())
        print(f"  reasons {dict(reasons)}")
        misplaced, placed = [], 0
        for number in range(self.jobs):
            for k, pod in enumerate(self.truth.pods[name_of(number)].values()):
                placed += 1
                noted = pod["metadata"]["annotations"]
                expected = ("OnDemand" if k >= LIMIT else "Spot", str(k))
                found = noted[names.PLACEMENT], noted[names.DISRUPTIONS]
                if found != expected:
                    misplaced.append((name_of(number), k, found))
        print(f"placements: {placed - len(misplaced)} of {placed} by the true count {misplaced[:5]}")
        for replica in self.stage.replicas:
            print(
                f"  {replica.name}: {metrics(replica, 'retry_policy_ledger_writes_t', 'retry_policy_ledger_behind_t')}"
            )

    async def until_exact(self) -> list[str]:
        """Wait until every account is exact, at most 90 seconds; return those that are not."""
        await asyncio.sleep(1)
        deadline = time.monotonic() + 90
        while (wrong := await self.wrong_accounts()) and time.monotonic() < deadline:  # noqa: ASYNC110 - asks the API
            await asyncio.sleep(2)
        return wrong

    async def accounts(self) -> dict[str, Account]:
        """Return the accounts by the names of their Jobs."""
        path = ACCOUNT.path(JOBS.rpartition("/namespaces/")[2].partition("/")[0])
        found = (await self.api.get(path))["items"]
        return {one["spec"]["name"]: decode(msgspec.json.encode(one["status"])) for one in found}

    async def wrong_accounts(self) -> list[str]:
        wrong = []
        accounts = await self.accounts()
        for found in (await self.api.get(JOBS))["items"]:
            name = found["metadata"]["name"]
            account = accounts.get(name, Account())
            true = Counter(self.truth.reasons[name].values())
            if account.causes.get("Disruption", {}) != dict(true) or account.ended != sum(true.values()):
                wrong.append(f"{name}: {account.causes} for {dict(true)}")
        return wrong

    async def wrong_usage(self) -> tuple[list[str], list[str]]:
        """Return the accounts that are wrong, and those that are right but for the capacity of nodes that are gone."""
        wrong: list[str] = []
        unknown: list[str] = []
        accounts = await self.accounts()
        for found in (await self.api.get(JOBS))["items"]:
            name = found["metadata"]["name"]
            account = accounts.get(name, Account())
            true = self.truth.ended.rows(name, capacity_of, **PRICES)
            if account.lost == true and (not true or account.resources == ["cpu", "memory"]):
                continue
            of_true, of_account = true.get("Disruption", {}), account.lost.get("Disruption", {})
            known = all(
                capacity in of_true and row.seconds <= of_true[capacity].seconds
                for capacity, row in of_account.items()
                if capacity
            )
            same = summed(of_account) == summed(of_true) and account.lost.keys() == true.keys()
            (unknown if same and known and "" in of_account else wrong).append(f"{name}: {account.lost} for {true}")
        return wrong, unknown

    def wrong_records(self) -> tuple[list[str], list[str], int]:
        """Return the pods without a record, the wrong records, and how many lack the capacity of their node."""
        records = records_in(self.stage.processes.logs.glob("replica-*.log"))
        missing: list[str] = []
        wrong: list[str] = []
        no_capacity = 0
        for job_name, reasons in self.truth.reasons.items():
            for uid in reasons:
                found, true = records.get(uid), self.truth.ended.failed[job_name].get(uid)
                if not isinstance(found, AttemptRecord) or true is None:
                    missing.append(uid)
                    continue
                right = (found.workload, found.seconds) == (job_name, true.seconds)
                if not right or found.capacity not in {"", capacity_of(true.node)}:
                    wrong.append(f"{found} for {true}")
                no_capacity += not found.capacity
        return missing, wrong, no_capacity

    async def all_down(self) -> None:
        """Disrupt pods while no replica runs; evicted pods are deleted, and the others stay in the API."""
        before = self.truth.total
        running = [*self.truth.running.values()][:60]
        self.stage.end_replicas()
        for number, pod in enumerate(running):
            with contextlib.suppress(ApiError):
                await (self.evict if number % 2 else self.kubelet)(pod)
        await asyncio.sleep(60)
        replicas = await asyncio.to_thread(self.stage.two_replicas)
        assert replicas
        await asyncio.sleep(40)
        known = sum(account.spent("disruption") for account in (await self.accounts()).values())
        print(
            f"all replicas down for a minute: {self.truth.total - before} disruptions, "
            f"{self.truth.total - known} missed (evicted and gone), the others recovered"
        )

    @staticmethod
    async def until(condition: Any) -> None:
        await asyncio.to_thread(until, condition)


def manifest(number: int) -> Json:
    found = job(name_of(number), backoffLimit=3)
    found["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "512Mi"}}
    return found


def summed(rows: dict[str, UsedRow]) -> tuple[int, float, list[float]]:
    """Return the attempts, seconds and resource-seconds of rows."""
    whole = UsedRow()
    for row in rows.values():
        whole.add(row)
    return whole.attempts, whole.seconds, whole.resources


def capacity_of(node: str) -> Capacity:
    """Return the capacity of a node by its name: of the program's own nodes, every second is spot."""
    pool, _, number = node.rpartition("-")
    is_spot = pool == "spot" or (pool == "own" and int(number) % 2 == 0)
    return "Spot" if is_spot else "OnDemand"


def name_of(number: int) -> str:
    return f"job-{number}"


def job_of(pod: Json) -> str:
    return str(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"])


def replace_follower(stage: Stage, ends: int) -> None:
    """End the replica that does not lead, after this number of ends, and start another."""
    follower = next(replica for replica in stage.replicas if not leads(replica))
    print(f"at {ends}: the follower is ended, another is started")
    stage.start()
    stage.terminate(follower)
    stage.replicas.remove(follower)
    stage.until_ended(follower)


def kill_leader(stage: Stage, ends: int) -> None:
    """Kill the replica that leads, after this number of ends, and start another."""
    leader = next(replica for replica in stage.replicas if leads(replica))
    print(f"at {ends}: the leader is killed, another is started")
    stage.start()
    stage.remove(leader)


def leads(replica: Replica) -> bool:
    return metrics(replica, "retry_policy_ledger_leading") == {"retry_policy_ledger_leading": 1.0}


def metrics(replica: Replica, *wanted: str) -> dict[str, float]:
    """Return the metrics of the controller of a replica whose names begin so."""
    split = (line.rpartition(" ") for line in replica.measured().splitlines() if line.startswith(wanted))
    return {name: float(value) for name, _, value in split}


def with_policy(stage: Stage) -> None:
    """Set the disruption limit and prices, and name the provider, so that it need not be recognised from nodes."""
    policy = yaml.safe_load(stage.policy["data"]["policy.yaml"])
    policy["profiles"]["default"]["disruptions"]["limit"] = LIMIT
    policy["profiles"]["default"]["placement"]["provider"] = "gke"
    rates = [{"match": {"capacity": name}, "perHour": {"cpu": price}} for name, price in PRICES.items()]
    policy["prices"] = {"currency": "USD", "rates": rates}
    stage.policy = {**stage.policy, "data": {"policy.yaml": yaml.safe_dump(policy)}}


async def run(stage: Stage, jobs: int, disruptions: int) -> None:
    async with await Api.connect(str(stage.admin)) as api:
        await Run(stage, api, jobs, disruptions).main()


def main(jobs: int, disruptions: int) -> None:
    with new_stage(whole=True) as stage:
        with_policy(stage)
        stage.reset()
        stage.two_replicas()
        asyncio.run(run(stage, jobs, disruptions))


if __name__ == "__main__":
    main(*((int(text) for text in sys.argv[1:]) if len(sys.argv) > 1 else (500, 2000)))
