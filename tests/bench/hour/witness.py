"""What happened to the Jobs and pods of one policy: recorded from watches, read as figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.bench.hour.draw import HOUR, KINDS, DrawnJob
from tests.bench.hour.figures import Cell
from tests.cluster.objects import condition

if TYPE_CHECKING:
    from webhook.objects.problem import Json

JOB_NAME = "batch.kubernetes.io/job-name"


@dataclass
class SeenPod:
    """A pod that has run: from when to when, in minutes; `ended` is None while it runs."""

    started: float
    spot: bool
    ended: float | None = None
    succeeded: bool = False

    def seconds(self, now: float) -> float:
        """Return the seconds on its node until now, of simulated time."""
        return 60 * ((now if self.ended is None else self.ended) - self.started)


@dataclass
class Witness:
    """Everything that was seen of one policy."""

    jobs: dict[str, DrawnJob]
    pods: dict[str, SeenPod] = field(default_factory=dict)  # by uid
    finished: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    interrupted: dict[str, str] = field(default_factory=dict)  # the Job, by the uid of the pod

    def see_job(self, job: Json, now: float) -> None:
        """Record the state of a Job; what happens after the hour does not count."""
        name = job["metadata"]["name"]
        if condition(job, "Complete") and now <= HOUR:
            self.finished.setdefault(name, now)
        elif condition(job, "Failed") and now <= HOUR:
            self.failed.add(name)

    def see_pod(self, pod: Json, now: float, *, deleted: bool) -> bool:
        """Record the state of a pod; return True if it has just begun to run."""
        uid, phase = pod["metadata"]["uid"], pod["status"]["phase"]
        seen = self.pods.get(uid)
        if seen is None and phase == "Running" and not deleted:
            self.pods[uid] = SeenPod(now, spot="-spot-" in pod["spec"]["nodeName"])
            return True
        if seen is not None and seen.ended is None and (deleted or phase in {"Succeeded", "Failed"}):
            seen.ended, seen.succeeded = now, phase == "Succeeded"
        if phase != "Succeeded" and condition(pod, "DisruptionTarget"):
            self.interrupted[uid] = pod["metadata"]["labels"][JOB_NAME]
        return False

    @property
    def over(self) -> bool:
        """Whether every Job has ended."""
        return len(self.finished) + len(self.failed) == len(self.jobs)

    def cell(self, policy: str, load: float) -> Cell:
        """Return the figures of the hour."""
        pods = [*self.pods.values()]
        useful = [pod for pod in pods if pod.succeeded or pod.ended is None]
        return Cell(
            policy=policy,
            jobs=dict(Counter(job.kind for job in self.jobs.values())),
            finished={
                kind: sorted(round(self.finished[name], 2) for name in self.of(kind, self.finished)) for kind in KINDS
            },
            failed={kind: len(self.of(kind, self.failed)) for kind in KINDS},
            attempts=len(pods),
            interruptions=len(self.interrupted),
            again=len(self.interrupted) - len({*self.interrupted.values()}),
            useful=round(sum(pod.seconds(HOUR) for pod in useful)),
            wasted=round(sum(pod.seconds(HOUR) for pod in pods if pod not in useful)),
            spot=round(sum(pod.seconds(HOUR) for pod in pods if pod.spot)),
            load=round(load, 1),
        )

    def of(self, kind: str, names: set[str] | dict[str, float]) -> list[str]:
        """Return the Jobs of a kind among these names."""
        return [name for name in names if self.jobs[name].kind == kind]
