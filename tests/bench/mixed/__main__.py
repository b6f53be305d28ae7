"""1,000 pods of mixed kinds, disrupted at random, while a leader is killed: is every account exact?

Evictions, taints, ends by the kubelet, deletions and exit codes end pods, up to EACH times for each pod of a workload.
The program counts the ends by its own watch, and compares cause, reason and number with the accounts. Jobs, JobSets,
PipelineRuns and TaskRuns are run by their real controllers. Of the other kinds the program plays the controller:
kinds.py says how. So this says whether the ledger counts exactly what happens to pods, and not whether it agrees with
those controllers about what an end costs: that is tested in tests/cluster/scenarios with real ones. Pods that no
replica admitted in time (`pods.retry-policy.dev` has failurePolicy Ignore) are not counted by design: they are told.

It starts its own control plane, with controllers, scheduler and nodes: `python -m tests.bench.mixed [ENDS [SHARE]]`.
SHARE: the part of the workloads that is created, such as 0.1. JobSet's controller takes the port 9443.
"""

import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

import yaml

from tests.bench import kubelet
from tests.bench.disruptions import PodEnder, kill_leader, metrics, replace_follower
from tests.bench.faster import events
from tests.bench.mixed import kinds
from tests.bench.mixed.kinds import PART, WORKLOAD, Mixed, Part
from tests.bench.mixed.truth import Truth
from tests.bench.simulation import new_namespace
from tests.cluster import binaries, job_set_controller, operators, tekton_controller
from tests.faults.stage import Stage, new_stage
from webhook.accounts.stored import account_in
from webhook.kube.client import Api, ApiError
from webhook.objects.problem import Json
from webhook.systems.account_object import ACCOUNT
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kinds import WORDS

NAMESPACE: Final = "mixed"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES: Final = 40
EACH: Final = 3  # ends of one pod of a workload at most, on average
PAUSE: Final = 0.05  # seconds between ends
SETTLING: Final = 3  # seconds
AT_ONCE: Final = 8  # creations at a time
# The weights of the ways to end a pod; a taint ends all pods of a node.
WAYS: Final = {"evict": 40, "kubelet": 10, "taint": 1, "delete": 15, "retriable": 25, "bug": 3}
LONGEST: Final = 120  # seconds until every account must be exact
LONGEST_START: Final = 600  # seconds until every pod must run


class Run(PodEnder):
    """One run against one stage."""

    def __init__(self, stage: Stage, api: Api, ends: int, share: float) -> None:
        super().__init__(api)
        self.stage = stage
        self.ends = ends
        self.share = share
        self.kinds = [one for one in kinds.ALL if one.row in SYSTEMS]
        self.truth = Truth(tracked=frozenset({WORDS[batch.JOB], WORDS[JOB_SET]}))
        self.chance = random.Random(26)  # noqa: S311 - no secret
        self.workloads: dict[str, Mixed] = {}
        self.owners: dict[str, Json] = {}  # of the pods of played workloads
        self.parts: dict[str, list[Part]] = {}
        self.attempts: Counter[tuple[str, int]] = Counter()
        self.done: Counter[str] = Counter()
        self.tasks: set[asyncio.Task[None]] = set()
        self.over = False  # whether no pod is ended or created any more

    async def main(self) -> None:
        left_out = [one.word for one in kinds.ALL if one not in self.kinds]
        if left_out:
            print(f"the ledger counts no pods of {', '.join(left_out)}: they are left out")
        async with self.watched():
            await self.begin()
            begin = time.monotonic()
            await self.disrupt()
            took = time.monotonic() - begin
            pods, made = len(self.truth.seen), len(self.workloads)
            print(f"{self.truth.total} ends of {pods} pods of {made} workloads in {took:.0f} s; {dict(self.done)}")
            await self.compare()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Watch the pods while the block runs."""
        await new_namespace(self.api, NAMESPACE)
        for _ in range(NODES):
            await self.add_node()
        watching = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            watching.cancel()

    async def watch(self) -> None:
        async for kind, pod in events(self.api, PODS, {}):
            if self.truth.see(kind, pod):
                self.play(pod)

    async def begin(self) -> None:
        """Create the workloads, and wait until their pods run."""
        wanted = [(one, f"{one.word.replace('.', '-')}-{number}") for one in self.kinds for number in self.numbers(one)]
        room = asyncio.Semaphore(AT_ONCE)

        async def create(one: Mixed, name: str) -> None:
            async with room:
                await self.create(one, name)

        await asyncio.gather(*(create(one, name) for one, name in wanted))
        expected = sum(one.pods for one, _ in wanted)
        print(f"{len(wanted)} workloads with {expected} pods")
        deadline = time.monotonic() + LONGEST_START
        while len(self.truth.running) < expected:
            if time.monotonic() > deadline:
                running = Counter(self.workloads[pod["metadata"]["labels"][WORKLOAD]].word for pod in self.running())
                raise AssertionError(f"only these pods run after {LONGEST_START} s: {running}")
            await asyncio.sleep(1)

    def running(self) -> list[Json]:
        """Return the pods that run."""
        return [*self.truth.running.values()]

    def numbers(self, one: Mixed) -> range:
        """Return the numbers of a kind's workloads."""
        return range(max(1, round(one.number * self.share)))

    async def create(self, one: Mixed, name: str) -> None:
        """Create a workload, and the pods of one whose controller is played."""
        self.workloads[name] = one
        root = await self.api.create(one.row.path(NAMESPACE), one.make(name))
        if one.parts is None:
            return
        if one.status is not None:
            path = f"{one.row.path(NAMESPACE, name)}/status"
            await self.api.patch(path, [{"op": "add", "path": "/status", "value": one.status}])
        root = {**root, "apiVersion": one.row.api_version, "kind": one.row.kind}
        owner = root
        if one.owner is not None:
            made = one.owner(root)
            row = next(row for row in kinds.MADE if row.kind == made["kind"])
            owner = {**await self.api.create(row.path(NAMESPACE), made), "kind": row.kind}
            owner["apiVersion"] = row.api_version
        self.owners[name], self.parts[name] = owner, [*one.parts(name)]
        for number in range(len(self.parts[name])):
            await self.start(name, number)

    async def start(self, name: str, number: int) -> None:
        """Create the next pod of a part, once the API server accepts it."""
        attempt = self.attempts[name, number]
        self.attempts[name, number] += 1
        made = kinds.pod_of(self.parts[name][number], name, number, attempt, self.owners[name])
        for _ in range(200):
            try:
                await self.api.create(PODS, made)
            except ApiError as error:  # the pod before it still exists, or no replica answered
                if error.status not in {409, 500, 503}:
                    raise
                await asyncio.sleep(0.3)
            else:
                return
        raise AssertionError(f"pod {made['metadata']['name']} cannot be created")

    def play(self, pod: Json) -> None:
        """Do what the controller of a played workload does when a pod has ended."""
        labels = pod["metadata"]["labels"]
        name = labels[WORKLOAD]
        one = self.workloads[name]
        if PART in labels and name not in self.truth.closed and not self.over:
            self.later(self.replace(one, pod, name, int(labels[PART])))

    async def replace(self, one: Mixed, pod: Json, name: str, number: int) -> None:
        """Delete a failed pod where its controller would, and create the next one when it is gone for SETTLING seconds.

        KWOK deletes and ends pods by name alone: what it still has to do would meet the next pod of that name. Without
        the pause, on a busy machine, 57 ends became 1,203: KWOK deleted or ended most new pods within two seconds, each
        of them was created again, and so on until the program ended; on a busier one 186 ends became 2,863 in spite of
        the pause. A kubelet compares the uid. The program's watch and the ledger see these ends alike; but while pods
        go on ending, some are always not counted yet: so none is created once the program has ended enough.
        """
        metadata = pod["metadata"]
        if one.deletes and not metadata.get("deletionTimestamp"):
            with contextlib.suppress(ApiError):
                body = {"preconditions": {"uid": metadata["uid"]}}
                await self.api.write("DELETE", f"{PODS}/{metadata['name']}", body)
        while one.deletes and metadata["uid"] not in self.truth.gone:  # noqa: ASYNC110 - another task sees it
            await asyncio.sleep(0.2)
        await asyncio.sleep(SETTLING if one.deletes else 0)
        await self.start(name, number)

    def later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def disrupt(self) -> None:
        """End pods at random; after a third of the ends replace a replica, after two thirds kill the leader."""
        steps = [(self.ends * 2 // 3, kill_leader), (self.ends // 3, replace_follower)]
        while self.truth.total < self.ends:
            if steps and self.truth.total >= steps[-1][0]:
                await asyncio.to_thread(steps.pop()[1], self.stage, self.truth.total)
            candidates = [pod for pod in self.running() if self.may_end(pod)]
            if not candidates:
                if not any(map(self.goes_on, self.workloads)):
                    print("every workload has had as many ends as it may")
                    break
                await asyncio.sleep(PAUSE)
                continue
            pod = self.chance.choice(candidates)
            (way,) = self.chance.choices([*WAYS], [*WAYS.values()])
            self.truth.running.pop(pod["metadata"]["uid"], None)
            self.done[way] += 1
            try:
                await getattr(self, way)(pod)
            except ApiError as error:
                self.done[f"{way}: {error.status}"] += 1
                self.later(self.look_again(pod))
            await asyncio.sleep(PAUSE)
        self.over = True
        while self.tasks:
            await asyncio.gather(*self.tasks)

    def may_end(self, pod: Json) -> bool:
        """Return True if a pod may be ended, because its workload goes on and has ended seldom."""
        return self.goes_on(pod["metadata"]["labels"][WORKLOAD]) and bool(pod["spec"].get("nodeName"))

    def goes_on(self, name: str) -> bool:
        """Return True if a workload has not ended, and has had fewer ends than it may."""
        return name not in self.truth.closed and len(self.truth.ends[name]) < EACH * self.workloads[name].pods

    async def look_again(self, pod: Json) -> None:
        await asyncio.sleep(1)
        with contextlib.suppress(ApiError):
            self.truth.see("MODIFIED", await self.api.get(f"{PODS}/{pod['metadata']['name']}"))

    async def taint(self, pod: Json) -> None:
        path = f"/api/v1/nodes/{pod['spec']['nodeName']}"
        taint = {"key": "maintenance", "value": "now", "effect": "NoExecute"}
        await self.api.patch(path, [{"op": "add", "path": "/spec/taints/-", "value": taint}])

        async def remove() -> None:
            await asyncio.sleep(6)
            await self.api.patch(path, [{"op": "remove", "path": "/spec/taints/1"}])

        self.later(remove())

    async def delete(self, pod: Json) -> None:
        await self.api.write("DELETE", f"{PODS}/{pod['metadata']['name']}", {})

    async def retriable(self, pod: Json) -> None:
        await kubelet.end(self.api, pod, kubelet.End(143, "Error"))

    async def bug(self, pod: Json) -> None:
        self.truth.closed.add(pod["metadata"]["labels"][WORKLOAD])
        await kubelet.end(self.api, pod, kubelet.End(1, "Error"))

    async def compare(self) -> None:
        """Print how many accounts are exact, by kind."""
        deadline = time.monotonic() + LONGEST
        wrong = await self.wrong_accounts()
        while wrong and time.monotonic() < deadline:
            await asyncio.sleep(2)
            wrong = await self.wrong_accounts()
        counted, expected, exact = Counter[str](), Counter[str](), Counter[str]()
        for name, (account, true) in self.accounts.items():
            word = self.workloads[name].word
            counted[word] += account
            expected[word] += true
            exact[word] += name not in wrong
        total = sum(exact.values())
        lines: list[tuple[str, ...]] = [("KIND", "WORKLOADS", "EXACT", "COUNTED", "EXPECTED")]
        for one in self.kinds:
            figures = len(self.numbers(one)), exact[one.word], counted[one.word], expected[one.word]
            lines.append((one.word, *map(str, figures)))
        for line in lines:
            print("  ".join(f"{cell:<16}" for cell in line).rstrip())
        print(f"accounts: {total} of {len(self.workloads)} exact; {sum(counted.values())} ends counted")
        if self.truth.unknown:
            print(f"not counted: {len(self.truth.unknown)} ends of pods that were created while no replica answered")
        for name, text in list(wrong.items())[:20]:
            print(f"  {name}: {text}")
        for replica in self.stage.replicas:
            found = metrics(replica, "retry_policy_ledger_writes_t", "retry_policy_ledger_behind_t")
            print(f"  {replica.name}: {found}")

    async def wrong_accounts(self) -> dict[str, str]:
        """Return what is wrong about accounts, by workload."""
        wrong: dict[str, str] = {}
        self.accounts: dict[str, tuple[int, int]] = {}
        stored = {one["spec"]["uid"]: one async for one in self.api.objects(ACCOUNT.path(NAMESPACE), {})}
        for one in self.kinds:
            async for found in self.api.objects(one.row.path(NAMESPACE), {}):
                name = found["metadata"]["name"]
                if self.workloads.get(name) is not one:
                    continue  # of a PipelineRun, or of a JobSet
                account = account_in(stored.get(found["metadata"]["uid"]), found)
                true = self.truth.causes(name)
                self.accounts[name] = account.ended, len(self.truth.ends[name])
                causes = self.truth.as_compared(
                    name, {str(cause): reasons for cause, reasons in account.causes.items()}
                )
                if causes != true or account.ended != len(self.truth.ends[name]):
                    wrong[name] = f"{account.causes} for {true}"
        return wrong


def with_controllers(stage: Stage) -> None:
    """Install the CRDs, and start the controllers of JobSet and Tekton."""
    found = operators.fetch()
    programs = binaries.build([binaries.JOB_SET, binaries.TEKTON])
    operators.install(stage.processes, stage.kubectl, found)
    job_set_controller.start(programs, stage.processes, stage.kubectl, stage.folder, found)
    tekton_controller.start(programs, stage.processes, stage.kubectl, found)


def with_policy(stage: Stage) -> None:
    """Allow as many disruptions as there may be, and name the provider, so that it need not be recognised."""
    policy = yaml.safe_load(stage.policy["data"]["policy.yaml"])
    policy["profiles"]["default"]["disruptions"]["limit"] = 100
    policy["profiles"]["default"]["placement"]["provider"] = "gke"
    stage.policy = {**stage.policy, "data": {"policy.yaml": yaml.safe_dump(policy)}}


async def run(stage: Stage, ends: int, share: float) -> None:
    async with await Api.connect(str(stage.admin)) as api:
        await Run(stage, api, ends, share).main()


def main(ends: int = 2000, share: float = 1.0) -> None:
    with new_stage(whole=True) as stage:
        with_controllers(stage)
        with_policy(stage)
        stage.reset()
        stage.two_replicas()
        asyncio.run(run(stage, ends, share))


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]), *(float(text) for text in sys.argv[2:3]))
