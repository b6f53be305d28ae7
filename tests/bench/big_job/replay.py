"""Plays one big Job to a leader, in virtual time: its pods end at random, and each next pod is admitted as on a server.

The Job controller, the watches and the API are simulated; admission, trackers and the leader are the webhook's own. A
naive count for each index is the truth.
"""

import asyncio
import gc
import random
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final
from uuid import UUID

import msgspec

from tests.admission import mutate, policy, review_of
from tests.objects import DISRUPTION, job_spec
from tests.unit.controller.leader import FakeApi, leading, new_ledger
from tests.virtual_time import now
from webhook.accounts.stored import decode, encode
from webhook.accounts.tracker import Key
from webhook.admission import engine
from webhook.admission.subject import read, subject_of
from webhook.capacity import provider_named
from webhook.kube import names
from webhook.kube.informer import event_decoder
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.policy.model import Disruptions, Profile
from webhook.rules.facts import Facts
from webhook.systems.job import spec as batch
from webhook.tracking.admission_counts import AdmissionCounts

LIMIT: Final = 2  # disruptions of an index on spot nodes
RETRIES: Final = 3  # of an index
TERMINATED: Final = 12_500  # pods that the pod garbage collector leaves
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
POD: Final = "/api/v1/namespaces/ml/pods/"


@dataclass
class Figures:
    """What one replay has measured; CPU in microseconds, sizes in bytes.

    `wrong`: pods whose annotation `disruptions` differs from the truth, or whose placement does. `spot_instead`: those
    of them that had to leave spot nodes, and did not. `deepest`: the most ended pods that were not counted yet.
    """

    indexes: int
    at_once: int
    admitted: int = 0
    replaced: int = 0
    wrong: int = 0
    spot_instead: int = 0
    disruptions: int = 0
    failures: int = 0
    account: int = 0
    exact_counts: bool = False
    deepest: int = 0
    writes: int = 0
    cpu_of_writes: float = 0.0
    cpu_of_admissions: float = 0.0
    cpu_of_events: float = 0.0
    events: int = 0
    memory: int = 0
    ends_kept: int = 0

    @property
    def leader_per_end(self) -> float:
        """The leader's CPU for each pod that has failed or was disrupted."""
        return self.cpu_of_writes / max(1, self.disruptions + self.failures) * 1e6

    @property
    def per_admission(self) -> float:
        """The CPU of the look-up and the rules for each pod."""
        return self.cpu_of_admissions / max(1, self.admitted) * 1e6

    @property
    def per_event(self) -> float:
        """The CPU of each event of the watch of pods."""
        return self.cpu_of_events / max(1, self.events) * 1e6


@dataclass
class Truth:
    """The naive count: by index the disruptions and the failures so far."""

    disruptions: dict[int, int] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)


class BigJob(FakeApi):
    """The cluster: a Job, its controller and its pods. `seed` makes the history; it lasts until every index is done."""

    def __init__(self, indexes: int, at_once: int, seed: int = 27, **chances: float) -> None:
        super().__init__()
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.chances = {"disrupted": 0.3, "bug": 0.05, **chances}
        self.figures = Figures(indexes, at_once)
        self.truth = Truth()
        self.profile = Profile(disruptions=Disruptions(limit=LIMIT))
        spec = job_spec(
            rules=[DISRUPTION],
            completionMode="Indexed",
            completions=indexes,
            parallelism=at_once,
            backoffLimitPerIndex=RETRIES,
            backoffLimit=batch.UNLIMITED,
            podReplacementPolicy="Failed",
        )
        metadata = {"namespace": "ml", "name": "train", "uid": "job-uid", "resourceVersion": "1"}
        manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "ml", "name": "train"}}
        created = mutate({**manifest, "spec": spec}, Facts(profile_name="default"), policy(default=self.profile))
        assert created.allowed, created.message
        self.job: Json = created.object
        self.job["metadata"] |= metadata
        self.job["metadata"].setdefault("labels", {})[names.PROFILE] = "default"
        self.job["metadata"].setdefault("annotations", {})
        self.job["status"] = {}
        self.live: list[tuple[int, Json]] = []
        self.stored: dict[str, Json] = {}
        self.terminated: deque[str] = deque()
        self.made = 0
        self.account: Json | None = None
        self.next_index = 0
        self.done: list[int] = []
        self.in_patch = 0.0

    async def play(self, per_second: int, most: float = float("inf")) -> Figures:
        """Play the Job until all indexes are done, or until that share of them was begun; return what was measured."""
        self.ledger = new_ledger(self, self.profile)
        self.trackers = self.ledger.trackers
        self.counts = AdmissionCounts(self.trackers)
        self.changed()
        wrapped = self.ledger.write

        async def write(*known: Any) -> None:
            began, outside = time.process_time(), self.in_patch
            await wrapped(*known)
            self.figures.cpu_of_writes += time.process_time() - began - (self.in_patch - outside)

        self.ledger.write = write  # type: ignore[method-assign, assignment]
        async with leading(self.ledger):
            while len(self.live) < self.figures.at_once and self.next_index < self.figures.indexes:
                await self.begin()
            while self.live and self.next_index < most * self.figures.indexes:
                for _ in range(min(per_second, len(self.live))):
                    await self.end_one()
                self.figures.deepest = max(self.figures.deepest, self.backlog)
                await asyncio.sleep(1.0)
            while self.backlog:  # noqa: ASYNC110 - in virtual time
                await asyncio.sleep(1.0)
            self.measure()
        return self.figures

    @property
    def backlog(self) -> int:
        state = self.trackers.states.get(self.key)
        return 0 if state is None or state.tracker.failed is None else len(state.tracker.failed.open)

    @property
    def key(self) -> Key:
        return Key("ml", batch.JOB, "train")

    def measure(self) -> None:
        figures, state = self.figures, self.trackers.states[self.key]
        text = None if self.account is None else encode(decode(msgspec.json.encode(self.account["status"])))
        account = decode(text)
        figures.account = len((text or "").encode())
        cost = {name: number for name, number in account.cost.items() if number}
        known = {"disruption": figures.disruptions, "retry": figures.failures - len(self.lost), "fatal": len(self.lost)}
        figures.exact_counts = cost == {name: number for name, number in known.items() if number}
        figures.memory = size_of(self.trackers.states, self.trackers.running)
        figures.ends_kept = len(state.tracker.last_ends)

    @property
    def lost(self) -> list[int]:
        return [index for index, number in self.truth.failures.items() if number > RETRIES]

    async def begin(self) -> None:
        """Create the first pod of the next index."""
        index, self.next_index = self.next_index, self.next_index + 1
        await self.admit(index, {batch.INDEX_FAILURES: "0"})

    async def admit(self, index: int, said: dict[str, str]) -> None:
        """Create a pod through admission, and start it."""
        self.made += 1
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
        root: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": "ml",
                "name": f"train-{index}-{self.made:x}",
                "uid": str(UUID(int=self.random.getrandbits(128))),
                "resourceVersion": str(self.made),
                "creationTimestamp": self.now(),
                "finalizers": [pods.TRACKING],
                "ownerReferences": [owner],
                "labels": {batch.JOB_NAME: "train", pods.INDEX: str(index)},
                "annotations": {pods.INDEX: str(index), **said},
            },
            "spec": self.job["spec"]["template"]["spec"],
        }
        body = review_of(root)
        began = time.process_time()
        subject = subject_of(read(body), body=body)
        assert subject is not None
        cached = self.ledger.cluster.jobs.get("ml", "train")
        assert cached is not None
        counts = await self.counts.of_job("ml", cached, subject.root)
        assert counts is not None
        facts = Facts(
            profile_name="default",
            owner=cached,
            owners_known=True,
            disruptions=counts.disruptions,
            failures=counts.failures,
            ended=counts.ended,
            recognised=provider_named("any", None),
            ledger=True,
            state_key=self.ledger.cluster.state_key,
        )
        engine.mutate(subject, policy(default=self.profile), facts)
        self.figures.cpu_of_admissions += time.process_time() - began
        root["metadata"] |= {part: subject.root["metadata"][part] for part in ("annotations", "labels")}
        self.judge(index, root["metadata"]["annotations"])
        container = {"name": "main", "state": {"running": {"startedAt": self.now()}}}
        root["status"] = {"phase": "Running", "startTime": self.now(), "containerStatuses": [container]}
        root["spec"] = {**root["spec"], "nodeName": f"node-{self.made % 500}"}
        self.see("ADDED", root)
        self.live.append((index, root))

    def judge(self, index: int, said: dict[str, str]) -> None:
        """Compare what admission has decided with the truth."""
        disruptions, failures = self.truth.disruptions.get(index, 0), self.truth.failures.get(index, 0)
        leaves = disruptions >= LIMIT or failures >= RETRIES
        self.figures.admitted += 1
        self.figures.replaced += bool(disruptions or failures)
        is_right = said.get(names.DISRUPTIONS) == str(disruptions)
        is_right &= said[names.PLACEMENT] == ("OnDemand" if leaves else "Spot")
        self.figures.wrong += not is_right
        self.figures.spot_instead += leaves and said[names.PLACEMENT] != "OnDemand"

    async def end_one(self) -> None:
        """End a random pod, and do what the Job controller does then."""
        place = self.random.randrange(len(self.live))
        self.live[place], self.live[-1] = self.live[-1], self.live[place]
        index, pod = self.live.pop()
        dice = self.random.random()
        if dice < self.chances["disrupted"]:
            self.truth.disruptions[index] = self.truth.disruptions.get(index, 0) + 1
            self.figures.disruptions += 1
            await self.fail(index, pod, disrupted=True)
        elif dice < self.chances["disrupted"] + self.chances["bug"]:
            self.truth.failures[index] = self.truth.failures.get(index, 0) + 1
            self.figures.failures += 1
            await self.fail(index, pod, disrupted=False)
        else:
            pod["status"] = {**pod["status"], "phase": "Succeeded", "containerStatuses": [terminated(0, self.now())]}
            pod["metadata"]["finalizers"] = []
            self.done.append(index)
            self.see("MODIFIED", pod)
            self.collect(pod)
            if self.next_index < self.figures.indexes:
                await self.begin()

    async def fail(self, index: int, pod: Json, *, disrupted: bool) -> None:
        """Fail a pod; create the next one of its index before its finalizer is removed, unless no retry is left."""
        pod["status"] = {**pod["status"], "phase": "Failed", "containerStatuses": [terminated(143, self.now())]}
        if disrupted:
            pod["metadata"]["deletionTimestamp"] = self.now()
            condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            pod["status"]["conditions"] = [{**condition, "lastTransitionTime": self.now()}]
        self.see("MODIFIED", pod)
        said = pod["metadata"]["annotations"]
        failures, ignored = int(said[batch.INDEX_FAILURES]), int(said.get(batch.INDEX_IGNORED_FAILURES, "0"))
        following = {batch.INDEX_FAILURES: str(failures + (not disrupted))}
        if ignored + disrupted:
            following[batch.INDEX_IGNORED_FAILURES] = str(ignored + disrupted)
        if disrupted or failures < RETRIES:
            await self.admit(index, following)
        elif self.next_index < self.figures.indexes:
            await self.begin()
        pod["metadata"]["finalizers"] = []
        if disrupted:
            self.stored.pop(pod["metadata"]["name"], None)
            self.see("DELETED", pod)
        else:
            self.see("MODIFIED", pod)
            self.collect(pod)

    def collect(self, pod: Json) -> None:
        """Delete the oldest terminated pod if there are too many, as the pod garbage collector does."""
        self.terminated.append(pod["metadata"]["name"])
        if len(self.terminated) > TERMINATED:
            oldest = self.stored.pop(self.terminated.popleft(), None)
            if oldest is not None:
                self.see("DELETED", oldest)

    def see(self, kind: str, pod: Json) -> None:
        """Deliver an event of the watch of pods."""
        if kind != "DELETED":
            self.stored[pod["metadata"]["name"]] = pod
        line = msgspec.json.encode({"type": kind, "object": pod})
        began = time.process_time()
        self.trackers.pods.take(event_decoder.decode(line))
        self.figures.cpu_of_events += time.process_time() - began
        self.figures.events += 1

    def changed(self) -> None:
        """Deliver the Job."""
        self.job["metadata"]["resourceVersion"] = str(int(self.job["metadata"]["resourceVersion"]) + 1)
        self.ledger.cluster.jobs.take(
            event_decoder.decode(msgspec.json.encode({"type": "MODIFIED", "object": self.job}))
        )

    async def create(self, _path: str, root: Json) -> Json:
        """Create the Account, and deliver it."""
        assert self.account is None
        self.store(root)
        return root

    def store(self, account: Json) -> None:
        """Store the Account, and deliver it."""
        self.figures.writes += 1
        metadata = {**account["metadata"], "uid": "account-uid", "resourceVersion": str(self.figures.writes)}
        self.account = {**account, "metadata": metadata}
        line = msgspec.json.encode({"type": "MODIFIED", "object": self.account})
        self.trackers.accounts.take(event_decoder.decode(line))

    async def patch(self, path: str, operations: list[Json]) -> Json:
        """Apply a write of the leader, and deliver what has changed."""
        began = time.process_time()
        if path.startswith(POD):
            pod = self.stored.get(path.removeprefix(POD))
            if pod is not None:
                pod["metadata"]["annotations"][names.COUNTED] = operations[-1]["value"]
                self.see("MODIFIED", pod)
        else:
            assert self.account is not None
            version, status = operations
            assert version["value"] == self.account["metadata"]["resourceVersion"]
            self.store({**self.account, "status": status["value"]})
        self.in_patch += time.process_time() - began
        return {}

    @staticmethod
    def now() -> str:
        return (BEGIN + timedelta(seconds=int(now()))).isoformat().replace("+00:00", "Z")


def terminated(code: int, at: str) -> Json:
    """Return the status of a container that has ended."""
    return {"name": "main", "state": {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": at}}}


def size_of(*roots: object) -> int:
    """Return the bytes of all objects that are reachable from these, without code."""
    seen, found, size = set(), list(roots), 0
    while found:
        one = found.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType, FunctionType, MethodType)):
            continue
        seen.add(id(one))
        size += one.__sizeof__()
        found += gc.get_referents(one)
    return size
