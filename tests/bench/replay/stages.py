"""Where a replay happens: replicas beside the stand-in, or those of tests.faults on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from tests.bench.replay.plan import NODES, Plan, uid_of
from tests.bench.replay.player import Writes, stamp
from tests.bench.replay.stand_in import Local, ServedStore, StandIn
from tests.cluster.credentials import Credentials
from tests.cluster.installation import SYSTEM
from tests.cluster.nodes import own_node
from tests.cluster.processes import Processes
from tests.faults.stage import Replica, Stage, controller_of
from tests.objects import STATE_KEY
from tests.served import COMMAND
from webhook.kube import names
from webhook.kube.client import Api
from webhook.kube.lease import API_VERSION
from webhook.kube.paths import path_of
from webhook.systems.account_object import ACCOUNT
from webhook.systems.job import spec as batch
from webhook.tracking.state_key import SECRET, secret_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from webhook.objects.problem import Json

AT_ONCE: Final = 32  # creations at a time
JOBS: Final = batch.JOB.path()
SECRETS: Final = path_of("v1", "secrets", SYSTEM)
LEASES: Final = path_of(API_VERSION, "leases", SYSTEM)


class Replicas(Protocol):
    """Starts and ends replicas; `Stage` does."""

    replicas: list[Replica]

    def start(self) -> Replica: ...

    def terminate(self, replica: Replica) -> None: ...

    def kill(self, replica: Replica) -> None: ...


class LocalReplicas:
    """Replicas of both programs on the stand-in."""

    def __init__(self, folder: Path, processes: Processes, kubeconfig: Path, certificate: tuple[Path, Path]) -> None:
        self.folder = folder
        self.processes = processes
        self.kubeconfig = kubeconfig
        self.certificate = certificate
        self.replicas: list[Replica] = []
        self.started = 0

    def start(self) -> Replica:
        """Start a replica, and wait until it listens."""
        self.started += 1
        name = f"replica-{self.started}"
        cert, key = self.certificate
        both = (f"--kubeconfig={self.kubeconfig}", "--health-port=0")
        programs = {
            controller_of(name): ("control", *both, "--no-certificates", f"--history={self.folder / 'history'}"),
            name: ("serve", *both, "--port=0", f"--tls-cert={cert}", f"--tls-key={key}"),
        }
        for program, command in programs.items():
            answer = self.folder / f"{program}.json"
            env = {**os.environ, "POD_NAMESPACE": SYSTEM}
            self.processes.start(program, [COMMAND, *command], env=env, stdout=answer)
        self.processes.wait_until(lambda: answer.read_text().endswith("\n"), f"{name} to listen", log=name)
        running = self.processes.running
        both_programs = running[name], running[controller_of(name)]
        announced = self.folder / f"{controller_of(name)}.json"
        found = Replica(name, name, *both_programs, json.loads(answer.read_text()), announced)
        self.replicas.append(found)
        return found

    def terminate(self, replica: Replica) -> None:
        """Terminate a replica, as when its pod is deleted."""
        for name, process in ((replica.name, replica.process), (controller_of(replica.name), replica.controller)):
            del self.processes.running[name]  # it may end at any time from now on
            process.send_signal(signal.SIGTERM)

    def kill(self, replica: Replica) -> None:
        """Kill a replica."""
        for name, process in ((replica.name, replica.process), (controller_of(replica.name), replica.controller)):
            process.kill()
            process.wait()
            del self.processes.running[name]


class World(Protocol):
    """An API with the objects of a plan: `api` for the player, `pods` the uids by number of workload and pod."""

    replicas: Replicas
    api: Writes
    pods: dict[tuple[int, int], str]
    stand_in: StandIn | None

    async def accounts(self) -> dict[tuple[str, str], str | None]:
        """Return the text of each account, by namespace and name of the Job."""
        ...


class LocalWorld:
    """The stand-in with the objects of a plan."""

    def __init__(self, store: ServedStore, stand_in: StandIn, replicas: LocalReplicas) -> None:
        self.store = store
        self.stand_in: StandIn | None = stand_in
        self.replicas: Replicas = replicas
        self.api: Writes = Local(store)
        self.pods: dict[tuple[int, int], str] = {}

    async def fill(self, plan: Plan) -> None:
        for number in range(NODES):
            name = f"node-{number}"
            await self.store.put(f"/api/v1/nodes/{name}", own_node(name, spot=True))
        for name in plan.namespaces:
            metadata = {"name": name, "labels": {names.PROFILE: "default"}}
            await self.store.put(f"/api/v1/namespaces/{name}", {"metadata": metadata})
        await self.store.put(f"{SECRETS}/{SECRET}", secret_of(STATE_KEY.key))
        numbers = iter(range(10**9))
        for one in plan.workloads:
            one.uid = uid_of(next(numbers))
            await self.store.put(one.path, stored(one.job(), one.uid, 9))
            for pod in range(one.pods):
                uid = self.pods[one.number, pod] = uid_of(next(numbers))
                root = {**stored(one.pod(pod), uid, 14), "status": {"phase": "Running"}}
                await self.store.put(one.pod_path(pod), root)

    async def accounts(self) -> dict[tuple[str, str], str | None]:
        jobs = [self.store.objects[path] for path in self.store.lists[JOBS]]
        stored = [self.store.objects[path] for path in self.store.lists.get(ACCOUNT.path(), ())]
        return dict.fromkeys(map(name_of, jobs)) | dict(map(account_in, stored))


class RealWorld:
    """A real API server with the objects of a plan."""

    def __init__(self, stage: Stage, api: Api) -> None:
        self.replicas: Replicas = stage
        self.api: Writes = api
        self.client = api
        self.pods: dict[tuple[int, int], str] = {}
        self.stand_in: StandIn | None = None

    async def fill(self, plan: Plan) -> None:
        for number in range(NODES):
            await self.client.create("/api/v1/nodes", own_node(f"node-{number}", spot=True))
        for name in plan.namespaces:
            metadata = {"name": name, "labels": {names.PROFILE: "default"}}
            await self.client.create("/api/v1/namespaces", {"metadata": metadata})
            accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
            await self.client.create(accounts, {"metadata": {"name": "default"}})
        await self.client.create(SECRETS, secret_of(STATE_KEY.key))
        todo = iter(plan.workloads)

        async def create() -> None:
            for one in todo:
                created = await self.client.create(batch.JOB.path(one.namespace), one.job())
                one.uid = created["metadata"]["uid"]
                for pod in range(one.pods):
                    path = f"/api/v1/namespaces/{one.namespace}/pods"
                    self.pods[one.number, pod] = (await self.client.create(path, one.pod(pod)))["metadata"]["uid"]

        await asyncio.gather(*(create() for _ in range(AT_ONCE)))

    async def accounts(self) -> dict[tuple[str, str], str | None]:
        jobs = [name_of(job) async for job in self.client.objects(JOBS, {})]
        stored = [account_in(one) async for one in self.client.objects(ACCOUNT.path(), {})]
        return dict.fromkeys(jobs) | dict(stored)


@contextlib.asynccontextmanager
async def local_world(plan: Plan) -> AsyncIterator[LocalWorld]:
    """Start the stand-in with the objects of a plan."""
    with tempfile.TemporaryDirectory(prefix="retry-policy-replay-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        credentials = Credentials.create(folder / "credentials")
        certificate = credentials.server("stand-in", ["127.0.0.1", "localhost"])
        store = ServedStore()
        stand_in = StandIn(store)
        port = await stand_in.start(*certificate)
        kubeconfig = credentials.kubeconfig("replica", f"https://127.0.0.1:{port}")
        world = LocalWorld(store, stand_in, LocalReplicas(folder, processes, kubeconfig, certificate))
        try:
            await world.fill(plan)
            yield world
        finally:
            processes.stop()
            await stand_in.stop()


def stored(root: Json, uid: str, fields: int) -> Json:
    """Return an object as the API server stores it: with managedFields about as long, which every reader skips."""
    found: Json = {f"f:field-of-the-spec-{number}": {".": {}, "f:name": {}, "f:value": {}} for number in range(fields)}
    entry = {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    managed = [{**entry, "time": stamp(), "fieldsV1": {"f:metadata": found, "f:spec": found}}]
    metadata = {"uid": uid, "creationTimestamp": stamp(), "managedFields": managed}
    return {**root, "metadata": {**root["metadata"], **metadata}}


def name_of(job: Json) -> tuple[str, str]:
    return job["metadata"]["namespace"], job["metadata"]["name"]


def account_in(stored: Json) -> tuple[tuple[str, str], str | None]:
    """Return the workload of an Account, and its text."""
    named = stored["metadata"]["namespace"], stored["spec"]["name"]
    return named, msgspec.json.encode(stored["status"]).decode()
