"""What a replay does: Jobs with their pods, how each pod ends and in which order, and the accounts that must follow."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from tests.cluster.nodes import SPOT
from tests.objects import with_proof
from webhook.accounts.scopes import Scopes
from webhook.kube import names
from webhook.pods.pods import INDEX, TRACKING
from webhook.systems.job import spec as batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.accounts.account import Account
    from webhook.objects.problem import Json

SMALL, BIG = 5, 100  # pods of a Job
PART_OF_BIG: Final = 0.1  # of all pods
NODES: Final = 40
JOBS_OF_NAMESPACE: Final = 1000
BUGS: Final = 0.3  # of the Jobs whose last pod may end them
RETRIABLE: Final = 143
FAILS_BUGS: Final = {"containerName": "main", "operator": "NotIn", "values": [RETRIABLE]}


class Way(NamedTuple):
    """How a pod ends. `deletes`: whether it is deleted too. `code`: 0 if it is disrupted."""

    reason: str
    weight: int
    code: int = 0
    deletes: bool = False

    @property
    def counted_as(self) -> tuple[str, str]:
        """Cause and reason in the account."""
        if not self.code:
            return "Disruption", self.reason
        return ("OOMKilled", "main") if self.reason == "OOMKilled" else ("ExitCode", f"main {self.code}")


DISRUPTED: Final = (
    Way("PreemptionByScheduler", 50, deletes=True),
    Way("DeletionByTaintManager", 25, deletes=True),
    Way("TerminationByKubelet", 15),
    Way("Error", 10, code=RETRIABLE),  # a retry, but mixed with the others
)
FATAL: Final = (Way("Error", 60, code=1), Way("OOMKilled", 40, code=137))


@dataclass(slots=True)
class Workload:
    """A Job: how many pods it has, whether each has an index, and how they have ended so far.

    `uid`: of the stored Job. `status`: as the Job controller has written it last.
    """

    number: int
    pods: int
    indexed: bool
    uid: str = ""
    ends: dict[int, Way] = field(default_factory=dict)  # by the number of the pod
    status: Json = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)  # ended pods that the Job controller has not counted
    syncing: bool = False

    @property
    def name(self) -> str:
        return f"job-{self.number}"

    @property
    def namespace(self) -> str:
        return f"replay-{self.number // JOBS_OF_NAMESPACE}"

    @property
    def path(self) -> str:
        return batch.JOB.path(self.namespace, self.name)

    def pod_path(self, pod: int) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}-{pod}"

    def cost_of(self, way: Way) -> str:
        """Return what the end of a pod costs by the Job's failure policy."""
        if not way.code:
            return "disruption"
        return "retry" if way.code == RETRIABLE else "fatal"

    def problems(self, account: Account) -> Iterator[str]:
        """Yield how an account differs from what has happened."""
        causes: dict[str, dict[str, int]] = {}
        for way in self.ends.values():
            cause, reason = way.counted_as
            causes.setdefault(cause, {}).setdefault(reason, 0)
            causes[cause][reason] += 1
        cost = Counter(self.cost_of(way) for way in self.ends.values())
        scopes = Counter(str(pod) if self.indexed else "" for pod, way in self.ends.items() if not way.code)
        for what, found, true in (
            ("ended", account.ended, len(self.ends)),
            ("causes", account.causes, causes),
            ("cost", account.cost, dict(cost)),
            ("scopes", account.scopes, Scopes(dict(scopes))),
        ):
            if found != true:
                yield f"{self.name}: {what} {shown(found)} for {shown(true)}"

    def job(self) -> Json:
        """Return the Job as the webhook has it stored."""
        action, per_index = ("FailIndex", {"backoffLimitPerIndex": 1}) if self.indexed else ("FailJob", {})
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {names.PROFILE: "default"},
                "annotations": {names.POLICY: "{}"},
            },
            "spec": {
                **per_index,
                "completionMode": "Indexed" if self.indexed else "NonIndexed",
                "completions": self.pods,
                "parallelism": self.pods,
                "backoffLimit": 2 * self.pods,
                "podReplacementPolicy": "Failed",
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "Ignore",
                            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                        },
                        {"action": action, "onExitCodes": FAILS_BUGS},
                    ]
                },
                "template": {"metadata": {"labels": {names.PROFILE: "default"}}, "spec": self.pod_spec()},
            },
        }

    def pod(self, number: int) -> Json:
        """Return a pod as the Job controller creates it, and a webhook with STATE_KEY admits it."""
        of_index = {INDEX: str(number), batch.INDEX_FAILURES: "0"} if self.indexed else {}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.name, "uid": self.uid}
        root = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{self.name}-{number}",
                "namespace": self.namespace,
                "labels": {names.PROFILE: "default", batch.JOB_NAME: self.name},
                "annotations": {names.PLACEMENT: "Spot", names.ATTEMPT: "0", names.DISRUPTIONS: "0", **of_index},
                "finalizers": [TRACKING],
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {**self.pod_spec(), "nodeName": f"node-{(self.number + number) % NODES}"},
        }
        return with_proof(root)

    @staticmethod
    def pod_spec() -> Json:
        container = {
            "name": "main",
            "image": "registry.example/train@sha256:" + 64 * "0",
            "args": ["--epochs=30", "--data=/data/shards"],
            "env": [{"name": f"VARIABLE_{number}", "value": "a value of ordinary length"} for number in range(8)],
            "resources": {"requests": {"cpu": "1", "memory": "512Mi"}},
        }
        tolerations = [{"key": SPOT, "operator": "Equal", "value": "true", "effect": "NoSchedule"}]
        return {"restartPolicy": "Never", "containers": [container], "tolerations": tolerations}


class End(NamedTuple):
    """The end of one pod of a workload."""

    workload: Workload
    pod: int
    way: Way


class Plan:
    """Workloads with as many pods as there are disruptions, and their ends in order; the same in each run."""

    def __init__(self, disruptions: int) -> None:
        chance = random.Random(27)  # noqa: S311 - no secret
        big = max(1, round(disruptions * PART_OF_BIG / BIG))
        sizes = [BIG] * big + [SMALL] * ((disruptions - big * BIG) // SMALL)
        chance.shuffle(sizes)
        self.workloads = [Workload(number, size, indexed=number % 3 == 0) for number, size in enumerate(sizes)]
        order = [(one, pod) for one in self.workloads for pod in range(one.pods)]
        chance.shuffle(order)
        left = Counter({one.number: one.pods for one in self.workloads})
        self.ends: list[End] = []
        for one, pod in order:
            left[one.number] -= 1
            may_be_bug = one.indexed or not left[one.number]  # without indexes it is the end of the Job
            ways = FATAL if may_be_bug and chance.random() < BUGS / (SMALL if one.indexed else 1) else DISRUPTED
            (way,) = chance.choices(ways, [found.weight for found in ways])
            self.ends.append(End(one, pod, way))

    @property
    def namespaces(self) -> list[str]:
        return list(dict.fromkeys(one.namespace for one in self.workloads))


def uid_of(number: int) -> str:
    """Return a uid; the account has 48 bits of it."""
    return str(UUID(int=random.Random(number).getrandbits(128), version=4))  # noqa: S311 - no secret


def shown(value: object) -> object:
    return value.written() if isinstance(value, Scopes) else value
