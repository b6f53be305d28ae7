"""What a watch has seen of Jobs of one pod: which pods exist, and when Jobs were disrupted and failed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.cluster.objects import condition
from webhook.accounts.counting import LIMIT_EXCEEDED

if TYPE_CHECKING:
    from webhook.objects.problem import Json

MINUTE = 60.0


@dataclass
class Witness:
    """Pods by uid while they exist, and by Job the times of its disruptions and of its failure, in seconds."""

    pods: dict[str, Json] = field(default_factory=dict)
    disruptions: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))  # by the pod's uid too
    failed: dict[str, float] = field(default_factory=dict)

    def see_pod(self, kind: str, pod: Json, now: float) -> None:
        metadata = pod["metadata"]
        if kind == "DELETED":
            self.pods.pop(metadata["uid"], None)
        else:
            self.pods[metadata["uid"]] = pod
        if condition(pod, "DisruptionTarget"):
            self.disruptions[metadata["labels"]["batch.kubernetes.io/job-name"]].setdefault(metadata["uid"], now)

    def see_job(self, job: Json, now: float) -> None:
        """Remember when the leader has failed a Job."""
        if condition(job, "FailureTarget").get("reason") == LIMIT_EXCEEDED:
            self.failed.setdefault(job["metadata"]["name"], now)

    @property
    def running(self) -> int:
        """How many pods run and are not being deleted."""
        return sum(
            pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
            for pod in self.pods.values()
        )

    def wanted(self, limit: int) -> dict[str, float]:
        """Return by Job the time of its first disruption beyond a limit, from which the leader wants to fail it."""
        times = {job: sorted(seen.values()) for job, seen in self.disruptions.items()}
        return {job: seen[limit] for job, seen in times.items() if len(seen) > limit}

    def delays(self, limit: int) -> list[float]:
        """Return the seconds from a Job's first disruption beyond a limit to its failure, the shortest first."""
        wanted = self.wanted(limit)
        return sorted(failed - wanted[job] for job, failed in self.failed.items())


def most_in_a_minute(times: list[float]) -> int:
    """Return how many of these times, in seconds, are at most within any minute."""
    ordered = sorted(times)
    return max((sum(first <= one < first + MINUTE for one in ordered) for first in ordered), default=0)
