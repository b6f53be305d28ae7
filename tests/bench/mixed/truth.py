"""What the program's own watch sees of the pods, and the account that follows from it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.bench.mixed.kinds import WORKLOAD
from webhook.kube import names
from webhook.pods.outcomes import DELETED, STOPPED

if TYPE_CHECKING:
    from webhook.objects.problem import Json


Causes = dict[str, dict[str, int]]  # number by cause and reason, as in an account


@dataclass
class Truth:
    """The pods of each workload by uid: those that run, and how those ended that did not succeed.

    `running`: by uid. `ends`: cause and reason, by workload and uid. `finished`: the uids of pods that have ended,
    `gone`: of those that do not exist any more. `unknown`: the uids of ended pods that no replica has admitted. A pod
    of a Job has a finalizer, so its end is seen before it is gone. `closed`: workloads that had a bug, in which only
    their system deletes pods from then on.
    """

    tracked: frozenset[str]  # the words of kinds whose pods have that finalizer
    running: dict[str, Json] = field(default_factory=dict)
    ends: dict[str, dict[str, tuple[str, str]]] = field(default_factory=lambda: defaultdict(dict))
    finished: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    def see(self, kind: str, pod: Json) -> str:
        """Record the state of a pod; return the uid of a pod that has just ended, else an empty string."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        uid, workload = str(metadata["uid"]), (metadata.get("labels") or {}).get(WORKLOAD)
        if workload is None:
            return ""
        self.seen.add(uid)
        ended = kind == "DELETED" or status.get("phase") in {"Failed", "Succeeded"}
        if status.get("phase") == "Running" and not metadata.get("deletionTimestamp") and not ended:
            self.running[uid] = pod
        else:
            self.running.pop(uid, None)
        if kind == "DELETED":
            self.gone.add(uid)
        if not ended or uid in self.finished:
            return ""
        self.finished.add(uid)
        if status.get("phase") == "Succeeded":
            return uid
        if names.PROFILE in metadata["labels"]:
            self.ends[workload][uid] = self.end_of(pod, workload)
        else:
            self.unknown.add(uid)
        return uid

    def end_of(self, pod: Json, workload: str) -> tuple[str, str]:
        """Return how a pod ended: cause and reason, as the account names them."""
        status = pod.get("status") or {}
        for one in status.get("conditions") or ():
            if one["type"] == "DisruptionTarget" and one["status"] == "True":
                return "Disruption", str(one["reason"])
        is_job = workload.rpartition("-")[0] in self.tracked
        if pod["metadata"].get("deletionTimestamp") and not is_job:
            return "Other", DELETED
        for one in status.get("containerStatuses") or ():
            terminated = (one.get("state") or {}).get("terminated")
            if terminated and terminated["exitCode"]:
                return "ExitCode", f"{one['name']} {terminated['exitCode']}"
        return "Other", status.get("reason") or ""

    @property
    def total(self) -> int:
        """How many pods have ended without success."""
        return sum(map(len, self.ends.values()))

    def causes(self, workload: str) -> Causes:
        """Return the causes as the account of a workload must have them."""
        found: Causes = {}
        for (cause, reason), number in Counter(self.ends[workload].values()).items():
            found.setdefault(cause, {})[reason] = number
        return self.as_compared(workload, found)

    def as_compared(self, workload: str, causes: Causes) -> Causes:
        """Return causes in which, after a bug, it does not matter whether the workload or its part had ended."""
        other = causes.get("Other", {})
        if workload not in self.closed or STOPPED not in other:
            return causes
        deleted = other.get(STOPPED, 0) + other.get(DELETED, 0)
        return {
            **causes,
            "Other": {**{reason: one for reason, one in other.items() if reason != STOPPED}, DELETED: deleted},
        }
