"""A small cluster in virtual time: Job controller, scheduler and kubelet, beside replicas that can be killed.

The replicas are the project's own: admission, watches and leader. The controllers are as simple as the scenarios allow:
each Job has one pod at a time, and the pods of a namespace fit on any node of the right pool.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from tests.bench import kubelet
from tests.bench.leaders.replica import NAMESPACE, TICK, Lease, Replica
from tests.bench.leaders.store import PODS, Store, finalizers
from tests.bench.leaders.verdict import History, has_ended
from tests.cluster.nodes import SPOT, own_node
from tests.virtual_time import now
from webhook.kube import names
from webhook.pods import matching, pods
from webhook.pods.pods import TRACKING
from webhook.systems.job.spec import JOB_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.bench.kubelet import End
    from webhook.objects.problem import Json
    from webhook.policy.model import Policy

JOBS: Final = "/apis/batch/v1/jobs"
BY_KUBELET: Final = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
UNTIL_RESUMED: Final = 30.0  # seconds until a person resumes a suspended Job
BACK_OFF: Final = 10.0  # seconds from the end of a pod to the next one
SPOT_NODE, ON_DEMAND_NODE = "spot-1", "on-demand-1"
ALLOCATABLE: Final = {"cpu": "64", "memory": "256Gi"}


@dataclass
class World:
    """Everything of one run.

    `program`: for a pod and the number of its Job's pods before it, the seconds that it runs and how it ends.
    `has_spot`: whether there are spot nodes.
    """

    policy: Policy
    program: Callable[[Json, int], tuple[float, End]]
    has_spot: bool = True
    began: float = field(default_factory=time.time)
    replicas: list[Replica] = field(default_factory=list)
    made: Iterator[int] = field(default_factory=lambda: count(1))
    history: History = field(default_factory=History)
    attempts: Counter[str] = field(default_factory=Counter)  # by Job
    before: dict[str, int] = field(default_factory=dict)  # by the uid of a pod: how many its Job had before
    lease: Lease = field(default_factory=Lease)

    def __post_init__(self) -> None:
        self.store = Store(self.stamp)
        self.tasks: list[asyncio.Task[None]] = []
        self.suspended: dict[str, float] = {}  # since when, by path of the Job

    def wall(self) -> float:
        """Return the seconds since 1970 in the world's time."""
        return self.began + now()

    def stamp(self) -> str:
        """Return the time as the API writes it, in whole seconds."""
        return (datetime.fromtimestamp(self.began, UTC) + timedelta(seconds=now())).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def start(self) -> None:
        """Create namespace and nodes, and start the controllers."""
        for name in (SPOT_NODE, ON_DEMAND_NODE) if self.has_spot else (ON_DEMAND_NODE,):
            node = own_node(name, spot=name == SPOT_NODE)
            await self.store.put(f"/api/v1/nodes/{name}", {**node, "status": {"allocatable": ALLOCATABLE}})
        labels = {names.PROFILE: "default"}
        await self.store.put(
            f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"name": NAMESPACE, "labels": labels}, "status": {}}
        )
        for work in (self.control(), self.schedule(), self.observe()):
            self.tasks.append(asyncio.create_task(work))

    async def stop(self) -> None:
        """End everything; raise what a controller has raised."""
        for task in self.tasks:
            if task.done():
                task.result()
        for replica in self.replicas:
            await replica.kill()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def replica(self) -> Replica:
        """Start a replica."""
        found = Replica(self)
        self.replicas.append(found)
        return found

    async def add_job(self, manifest: Json) -> None:
        """Create a Job through admission."""
        name = manifest["metadata"]["name"]
        metadata = {"namespace": NAMESPACE, "uid": f"uid-of-{name}", "creationTimestamp": self.stamp()}
        root = {**manifest, "metadata": {**manifest["metadata"], **metadata}}
        root["spec"] = {"backoffLimit": 6, "completions": 1, "parallelism": 1, **root["spec"]}
        while (admitted := await self.admitted(root)) is None:  # noqa: ASYNC110 - a replica may start
            await asyncio.sleep(TICK)
        await self.store.put(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{name}", {**admitted, "status": {}})

    async def admitted(self, root: Json) -> Json | None:
        """Return an object as the webhook changes it; None if no replica answers."""
        for replica in self.replicas:
            if replica.is_ready and (found := await replica.admit(root)) is not None:
                return found
        return None

    # The Job controller.

    async def control(self) -> None:
        while True:
            for path, job in [(path, root) for path, root in self.store.objects.items() if "/jobs/" in path]:
                await self.control_job(path, job)
            await asyncio.sleep(TICK)

    async def control_job(self, path: str, job: Json) -> None:
        """Count the ended pods of a Job, and create its next pod, or end the Job."""
        status: Json = job["status"]
        if any(one["type"] in {"Complete", "Failed"} for one in status.get("conditions") or ()):
            return
        mine = [
            pod for pod in self.store.of(PODS) if pod["metadata"]["labels"].get(JOB_NAME) == job["metadata"]["name"]
        ]
        for pod in mine:
            if TRACKING in finalizers(pod) and has_ended(pod):
                await self.count(path, pod)
                return
        given_up = any(one["type"] == "FailureTarget" for one in status.get("conditions") or ())
        if given_up or status.get("failed", 0) > job["spec"]["backoffLimit"]:
            await self.end_job(path, "Failed")
        elif status.get("succeeded"):
            await self.end_job(path, "Complete")
        elif job["spec"].get("suspend"):
            await self.resume(path)
        elif self.wall() >= status.get("waits_until", 0) and all(has_ended(pod) for pod in mine):
            await self.create_pod(path, job)

    async def resume(self, path: str) -> None:
        """Resume a suspended Job, as a person does after a while."""
        since = self.suspended.setdefault(path, now())
        if now() - since > UNTIL_RESUMED:
            del self.suspended[path]
            await self.store.patch(path, [{"op": "replace", "path": "/spec/suspend", "value": False}])

    async def count(self, path: str, pod: Json) -> None:
        """Count an ended pod by the Job's failure policy, and remove the finalizer."""
        pod_path = path_of(pod)
        job = self.store.objects[path]
        rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or []
        changes: Json = {"waits_until": self.wall() + BACK_OFF}
        if pod["status"]["phase"] == "Succeeded":
            changes["succeeded"] = 1
        else:
            matched = matching.match(rules, pods.read(pod))
            action = "Count" if matched is None else matched.action
            if action == "Count":
                changes["failed"] = job["status"].get("failed", 0) + 1
            if action == "FailJob":
                changes["conditions"] = [{"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy"}]
        await self.store.patch(pod_path, [{"op": "remove", "path": "/metadata/finalizers"}])
        await self.store.put(path, {**job, "status": {**job["status"], **changes}})

    async def end_job(self, path: str, kind: str) -> None:
        job = self.store.objects[path]
        condition = {"type": kind, "status": "True", "lastTransitionTime": self.stamp(), "reason": kind}
        conditions = [*(job["status"].get("conditions") or ()), condition]
        await self.store.put(path, {**job, "status": {**job["status"], "conditions": conditions}})

    async def create_pod(self, path: str, job: Json) -> None:
        """Create the next pod of a Job through admission; try again later if no replica answers."""
        number, name = next(self.made), job["metadata"]["name"]
        template, owner = job["spec"]["template"], {"name": name, "uid": job["metadata"]["uid"], "controller": True}
        metadata = {
            **(template.get("metadata") or {}),
            "namespace": NAMESPACE,
            "name": f"{name}-{number}",
            "uid": str(UUID(int=number << 80)),
            "creationTimestamp": self.stamp(),
            "finalizers": [TRACKING],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", **owner}],
        }
        metadata["labels"] = {**(metadata.get("labels") or {}), JOB_NAME: name}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        admitted = await self.admitted(pod)
        if admitted is not None and self.store.objects.get(path) is not None:
            root = {**admitted, "status": {"phase": "Pending", "conditions": []}}
            self.before[metadata["uid"]] = self.attempts[name]
            self.attempts[name] += 1
            await self.store.put(path_of(root), root)

    # The scheduler and the kubelet.

    async def schedule(self) -> None:
        while True:
            for pod in self.store.of(PODS):
                if pod["status"]["phase"] == "Pending" and not pod["spec"].get("schedulingGates"):
                    await self.bind(pod)
            await asyncio.sleep(TICK)

    async def bind(self, pod: Json) -> None:
        """Bind a pod to a node and run it; report it as unschedulable if there is no node of the pool that it needs."""
        path, spot = path_of(pod), needs_spot(pod)
        if spot and not self.has_spot:
            if not pod["status"]["conditions"]:
                refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                refused["lastTransitionTime"] = self.stamp()
                await self.store.patch(path, [{"op": "add", "path": "/status/conditions/-", "value": refused}])
            return
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.stamp()}
        containers = [
            {"name": one["name"], "state": {"running": {"startedAt": self.stamp()}}, "restartCount": 0}
            for one in pod["spec"]["containers"]
        ]
        status = {
            "phase": "Running",
            "startTime": self.stamp(),
            "conditions": [scheduled],
            "containerStatuses": containers,
        }
        spec = {**pod["spec"], "nodeName": SPOT_NODE if spot else ON_DEMAND_NODE}
        await self.store.put(path, {**pod, "spec": spec, "status": status})
        self.tasks.append(asyncio.create_task(self.run(path, self.before[pod["metadata"]["uid"]])))

    async def run(self, path: str, before: int) -> None:
        """Run the program of a pod, and end it as the kubelet would."""
        seconds, how = self.program(self.store.objects[path], before)
        await asyncio.sleep(seconds)
        root = self.store.objects.get(path)
        if root is None or root["status"]["phase"] != "Running":
            return
        terminated = {"exitCode": how.code, "reason": how.reason, "finishedAt": self.stamp()}
        if how.message:
            terminated["message"] = how.message
        status = {**root["status"], "phase": "Failed" if how.code else "Succeeded"}
        if how == kubelet.EVICTED:
            status["conditions"] = [*status["conditions"], {**BY_KUBELET, "lastTransitionTime": self.stamp()}]
        first, *others = status["containerStatuses"]
        status["containerStatuses"] = [{**first, "state": {"terminated": terminated}}, *others]
        await self.store.put(path, {**root, "status": status})

    # What happened.

    async def observe(self) -> None:
        """Record each state of each pod."""
        place = 0
        while True:
            found = self.store.changes.setdefault(PODS, [])
            for _, line in found[place:]:
                self.history.see(msgspec.json.decode(line)["object"], now())
            place = len(found)
            await self.store.more_than(PODS, place)

    def jobs(self) -> list[Json]:
        return self.store.of(JOBS)


def path_of(pod: Json) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def needs_spot(pod: Json) -> bool:
    """Return True if a pod can only run on spot nodes."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    wishes = [one for term in terms for one in term.get("matchExpressions") or ()]
    return any(one["key"] == SPOT and one["operator"] in {"In", "Exists"} for one in wishes)
