"""What happened to the Jobs and pods of one policy: recorded from watches, read as figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import mean
from typing import TYPE_CHECKING, Any

from tests.bench.week.draw import KINDS, DrawnJob
from tests.bench.week.figures import Cell
from tests.cluster.objects import condition, exit_codes
from webhook.policy import quantities

if TYPE_CHECKING:
    from tests.bench.week.market import Market
    from webhook.objects.problem import Json

JOB_NAME = "batch.kubernetes.io/job-name"
INDEX = "batch.kubernetes.io/job-completion-index"
ENDED = ("Succeeded", "Failed")
BY_CODE = {1: "bug", 75: "temporary", 143: "flaky"}


@dataclass
class SeenPod:
    """A pod, times in hours; None before.

    `last`: the object as it was last seen. `number`: how many pods its index has had before.
    """

    last: Json
    created: float
    number: int
    started: float | None = None
    ended: float | None = None

    @property
    def job(self) -> str:
        return str(self.last["metadata"]["labels"][JOB_NAME])

    @property
    def index(self) -> int:
        return int((self.last["metadata"].get("annotations") or {}).get(INDEX, 0))

    @property
    def node(self) -> str:
        return str(self.last["spec"].get("nodeName") or "")

    @property
    def spot(self) -> bool:
        return "-spot-" in self.node

    @property
    def zone(self) -> str:
        """The zone in the name of its node, such as b of limit-3-spot-b-0 or limit-3-on-demand-b; empty without one."""
        *_, before, last = ("", *self.node.split("-"))
        return before if last.isdigit() else last

    @property
    def resources(self) -> dict[str, float]:
        """What it requests: cores, and bytes of memory."""
        requests = self.last["spec"]["containers"][0]["resources"]["requests"]
        return {"cpu": float(requests["cpu"]), "memory": float(quantities.memory(requests["memory"]) or 0)}

    @property
    def hours(self) -> float:
        """The hours on its node, of a pod that has ended."""
        return 0 if self.started is None or self.ended is None else self.ended - self.started

    @property
    def succeeded(self) -> bool:
        return bool(self.last["status"].get("phase") == "Succeeded")

    @property
    def lost_to(self) -> str:
        """Why it did not succeed; empty if it did."""
        if self.succeeded:
            return ""
        if condition(self.last, "DisruptionTarget"):
            return "disruption"
        statuses = self.last["status"].get("containerStatuses") or []
        reasons = {((one.get("state") or {}).get("terminated") or {}).get("reason") for one in statuses}
        if "OOMKilled" in reasons:
            return "memory"
        codes = exit_codes(self.last).values() if statuses else ()
        return next((BY_CODE[code] for code in codes if code in BY_CODE), "stopped")


@dataclass
class Witness:
    """Everything that was seen of one policy."""

    jobs: dict[str, DrawnJob]
    market: Market
    pods: dict[str, SeenPod] = field(default_factory=dict)  # by uid
    last: dict[str, Json] = field(default_factory=dict)  # each Job as it was last seen
    created: dict[str, float] = field(default_factory=dict)  # when, in hours
    ended: dict[str, float] = field(default_factory=dict)

    def see_job(self, job: Json, now: float) -> None:
        name = job["metadata"]["name"]
        self.last[name] = job
        self.created.setdefault(name, now)
        if condition(job, "Complete") or condition(job, "Failed"):
            self.ended.setdefault(name, now)

    def see_pod(self, pod: Json, now: float, *, deleted: bool) -> SeenPod | None:
        """Record the state of a pod; return it if it has just begun to run."""
        uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
        seen = self.pods.get(uid)
        if seen is None:
            seen = self.pods[uid] = SeenPod(pod, now, 0)
            seen.number = sum((one.job, one.index) == (seen.job, seen.index) for one in self.pods.values()) - 1
        if seen.ended is not None:
            return None
        seen.last = pod
        if deleted or phase in ENDED:
            seen.ended = now
        elif phase == "Running" and seen.started is None:
            seen.started = now
            return seen
        return None

    @property
    def over(self) -> bool:
        """Whether every Job has ended."""
        return len(self.ended) == len(self.jobs)

    def complete(self, name: str) -> bool:
        return name in self.ended and bool(condition(self.last[name], "Complete"))

    def money(self, pod: SeenPod) -> float:
        """Return what a pod that has ended has cost, at the prices of its hours."""
        if pod.started is None or pod.ended is None:
            return 0
        return self.market.money(pod.zone, spot=pod.spot, start=pod.started, end=pod.ended, resources=pod.resources)

    def cell(self, policy: str, days: int, load: float) -> Cell:
        """Return the figures of the week."""
        pods = [pod for pod in self.pods.values() if pod.ended is not None]
        lost: Counter[str] = Counter()
        for pod in pods:
            lost[pod.lost_to] += round(pod.hours * 3600)
        lost.pop("", None)
        complete = {name: self.ended[name] for name in self.jobs if self.complete(name)}
        times = {name: time - self.created[name] for name, time in self.ended.items()}
        return Cell(
            policy=policy,
            seed=self.market.seed,
            days=days,
            jobs=self.by_kind(self.jobs),
            complete=self.by_kind(complete),
            failed=self.by_kind(self.ended.keys() - complete.keys()),
            finished=sorted(round(time, 1) for time in complete.values()),
            times=sorted(round(times[name], 2) for name in complete if self.jobs[name].kind == "good"),
            bug_times=sorted(round(time, 2) for name, time in times.items() if self.jobs[name].kind == "bug"),
            mean_time_to_finish=round(3600 * mean(times[name] for name in complete)) if complete else 0,
            attempts=len(pods),
            started=sum(pod.started is not None for pod in pods),
            disruptions=sum(pod.lost_to == "disruption" for pod in pods),
            spot_seconds=round(3600 * sum(pod.hours for pod in pods if pod.spot)),
            on_demand_seconds=round(3600 * sum(pod.hours for pod in pods if not pod.spot)),
            spot_money=round(sum(self.money(pod) for pod in pods if pod.spot), 2),
            on_demand_money=round(sum(self.money(pod) for pod in pods if not pod.spot), 2),
            lost=dict(sorted(lost.items())),
            load=round(load, 1),
        )

    def by_kind(self, names: Any) -> dict[str, int]:
        found = Counter(self.jobs[name].kind for name in names)
        return {kind: found[kind] for kind in KINDS}
