"""What became of the Jobs and pods of one policy: told by watches, read as figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.bench.market.figures import KINDS, SPOT_PRICE, Cell, Kind
from tests.cluster.objects import condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.market.draw import DrawnJob, Market
    from webhook.objects.problem import Json

JOB_NAME = "batch.kubernetes.io/job-name"


@dataclass
class SeenPod:
    """A pod: when it ran, in minutes; None before."""

    name: str
    job: str
    number: int  # of the Job's pods, in the order of creation
    spot: bool = False
    started: float | None = None
    ended: float | None = None

    @property
    def running(self) -> bool:
        return self.started is not None and self.ended is None

    def cost(self, now: float) -> float:
        """Return the minutes of an on-demand machine that cost as much."""
        if self.started is None:
            return 0
        return ((now if self.ended is None else self.ended) - self.started) * (SPOT_PRICE if self.spot else 1)


@dataclass
class Witness:
    """Everything that was seen of one policy."""

    jobs: dict[str, DrawnJob]
    pods: dict[str, SeenPod] = field(default_factory=dict)  # by uid
    created: dict[str, float] = field(default_factory=dict)
    finished: dict[str, float] = field(default_factory=dict)  # minutes after that
    failed: set[str] = field(default_factory=set)
    disruptions: int = 0

    def see_job(self, job: Json, now: float) -> None:
        name = job["metadata"]["name"]
        if condition(job, "Complete"):
            self.finished.setdefault(name, now - self.created[name])
        elif condition(job, "Failed"):
            self.failed.add(name)

    def see_pod(self, pod: Json, now: float, *, deleted: bool) -> SeenPod | None:
        """Return a pod that has just begun to run on spot."""
        metadata, phase = pod["metadata"], pod["status"]["phase"]
        seen = self.pods.get(metadata["uid"]) or self.added(metadata)
        if seen.ended is None and (deleted or phase in {"Succeeded", "Failed"}):
            seen.ended = now
            self.disruptions += bool(condition(pod, "DisruptionTarget")) and phase != "Succeeded"
        elif phase == "Running" and seen.started is None:
            seen.started, seen.spot = now, "-spot-" in pod["spec"]["nodeName"]
            return seen if seen.spot else None
        return None

    def added(self, metadata: Json) -> SeenPod:
        job = metadata["labels"][JOB_NAME]
        number = sum(one.job == job for one in self.pods.values())
        return self.pods.setdefault(metadata["uid"], SeenPod(metadata["name"], job, number))

    @property
    def over(self) -> bool:
        """Whether every good Job has ended."""
        return all(job.bug or name in self.finished or name in self.failed for name, job in self.jobs.items())

    def cell(self, policy: str, market: Market, now: float, load: float) -> Cell:
        bugs = {name for name, job in self.jobs.items() if job.bug}
        return Cell(
            life=market.life,
            seed=market.seed,
            policy=policy,
            kinds=dict(zip(KINDS, (self.kind(now, indexed=indexed) for indexed in (False, True)), strict=True)),
            bug_pods=sum(pod.job in bugs for pod in self.pods.values()),
            bugs_over=len(bugs & (self.failed | self.finished.keys())),
            minutes=round(sum(pod.cost(now) for pod in self.pods.values()), 1),
            disruptions=self.disruptions,
            load=round(load, 1),
        )

    def kind(self, now: float, *, indexed: bool) -> Kind:
        names = {name for name, job in self.jobs.items() if not job.bug and job.indexed == indexed}
        return Kind(
            len(names),
            len(names & self.failed),
            sorted(round(self.finished[name], 2) for name in names & self.finished.keys()),
            round(sum(pod.cost(now) for pod in self.of(names)), 1),
        )

    def of(self, names: set[str]) -> Iterator[SeenPod]:
        return (pod for pod in self.pods.values() if pod.job in names)
