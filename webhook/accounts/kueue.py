"""What the accounts read of a Kueue Workload: there may be tens of thousands; and how they count its evictions. Pure.

Kueue 0.19 (apis/kueue/v1beta2/workload_types.go, pkg/workload/evict/evict.go) evicts a Workload by the condition
Evicted, and counts it in status.schedulingStats in the same write. Then it suspends the Job, which deletes its pods.
Once the Workload is admitted again, Evicted is False, and only the counts remain.
"""

from sys import intern
from typing import Final

import msgspec

from webhook.kube.paths import path_of
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.objects.times import shifted
from webhook.pods.pods import Pod, cut
from webhook.systems.kind_spec import controller_of

API_VERSION: Final = "kueue.x-k8s.io/v1beta2"
RESOURCE: Final = "workloads"
LIST: Final = path_of(API_VERSION, RESOURCE)
EVICTED: Final = "Evicted"
FINISHED: Final = "Finished"
DEACTIVATED: Final = "Deactivated"
# The reasons of the condition Evicted in Kueue 0.19.
REASONS: Final = (
    "Preempted",
    "PodsReadyTimeout",
    "AdmissionCheck",
    "ClusterQueueStopped",
    "LocalQueueStopped",
    "NodeFailures",
    "FlavorMigration",
    "EvictedOnManagerCluster",
    DEACTIVATED,
    "DeactivatedDueToAdmissionCheck",
    "DeactivatedDueToMaximumExecutionTimeExceeded",
    "DeactivatedDueToRequeuingLimitExceeded",
)

# The fields that are decoded.
READ: Final[Shape] = {
    "metadata": {
        **dict.fromkeys(("namespace", "name", "uid", "resourceVersion", "creationTimestamp"), str),
        "ownerReferences": [{**dict.fromkeys(("apiVersion", "kind", "name", "uid"), str), "controller": bool}],
    },
    "spec": {"active": bool},
    "status": {
        "conditions": [dict.fromkeys(("type", "status", "reason", "lastTransitionTime"), str)],
        "requeueState": {"count": int, "requeueAt": str},
        "schedulingStats": {"evictions": [{"reason": str, "underlyingCause": str, "count": int}]},
    },
}
# Bounds on what is kept: Kueue's CRD allows 256 reasons of 316 characters, and some users may write a Workload.
MOST_REASONS: Final = 6
LONGEST_REASON: Final = 64  # characters
LONGEST_TIME: Final = 40  # characters
LONGEST_UID: Final = 64  # characters
LARGEST: Final = 2**31 - 1
OTHER: Final = "Other"
APART: Final = 5  # seconds by which the clocks of Kueue and of the API server may differ


class Eviction(msgspec.Struct, frozen=True, gc=False):
    """Why and when a Workload was evicted; `time` is RFC 3339."""

    reason: str
    time: str


class KueueWorkload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A Workload of Kueue.

    - `owner`, `owner_name`: uid and name of the object whose pods it admits, such as a Job.
    - `created`: when it was created, RFC 3339. `active`: False if nobody wants it to be admitted.
    - `finished`: whether its owner has ended. `eviction`: the one after which it was not admitted again.
    - `evictions`: how often it was evicted, by reason.
    - `requeues`: how often Kueue has put it back into its queue with a delay. `requeue_at`: the end of the delay, RFC
      3339; empty if there is none.
    """

    namespace: str
    name: str
    uid: str
    owner: str
    owner_name: str
    created: str
    active: bool = True
    finished: bool = False
    eviction: Eviction | None = None
    evictions: tuple[tuple[str, int], ...] = ()
    requeues: int = 0
    requeue_at: str = ""


def read(found: Json) -> KueueWorkload:
    """Return a Workload of the API's JSON, decoded as READ; `owner` is empty if no object controls it."""
    metadata, status = found["metadata"], found.get("status") or {}
    owner = controller_of(found)
    true = {one["type"]: one for one in status.get("conditions") or () if one["status"] == "True"}
    evicted, requeue = true.get(EVICTED), status.get("requeueState") or {}
    return KueueWorkload(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        owner="" if owner is None else cut(owner.uid, LONGEST_UID),
        owner_name="" if owner is None else owner.name,
        created=intern(metadata.get("creationTimestamp") or ""),  # shared: many are created at once
        active=(found.get("spec") or {}).get("active") is not False,
        finished=FINISHED in true,
        eviction=None
        if evicted is None
        else Eviction(cut(evicted.get("reason"), LONGEST_REASON), cut(evicted.get("lastTransitionTime"), LONGEST_TIME)),
        evictions=_evictions_of((status.get("schedulingStats") or {}).get("evictions") or ()),
        requeues=_within(requeue.get("count")),
        requeue_at=cut(requeue.get("requeueAt"), LONGEST_TIME),
    )


def _evictions_of(stats: list[Json] | tuple[()]) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for one in stats:
        reason, cause = one.get("reason") or OTHER, one.get("underlyingCause")
        if reason == DEACTIVATED and cause:
            reason = f"{reason}DueTo{cause}"
        # An account has no room for characters that JSON writes with several bytes; Kueue's reasons have none.
        reason = reason[:LONGEST_REASON] if reason.isascii() and reason.isprintable() else OTHER
        reason = reason if reason in found or len(found) < MOST_REASONS - 1 else OTHER
        found[reason] = _within(found.get(reason, 0) + _within(one.get("count")))
    return tuple(found.items())


def _within(number: int | None) -> int:
    return min(max(number or 0, 0), LARGEST)


def has_ended(pod: Pod, eviction: Eviction) -> bool:
    """Return True if an eviction has ended a pod that its Job has deleted: it was there before, and deleted after."""
    return bool(eviction.time and pod.deleted) and (
        pod.created <= shifted(eviction.time, APART) and pod.deleted >= shifted(eviction.time, -APART)
    )


ID: Final = 8  # characters of the uid by which a Workload is known again


class CountedEvictions(msgspec.Struct, kw_only=True):
    """The evictions of a workload, in its account; `Evicted` in stored.py is how they are stored.

    - `reasons`: how often it was evicted, by Kueue's reason. `before`: how many of them the limit no longer counts.
    - `limit`: how many it may have; None for any number.
    - `deactivated`: whether its Workload is not active after the limit was exceeded.
    - `requeues`, `requeue_at`: those of its Workload, at the last write of the account.
    - `workload`: the beginning of the uid of its Workload; `seen`: the evictions of that Workload that are counted.
    """

    reasons: dict[str, int] = msgspec.field(default_factory=dict)
    before: int = 0
    limit: int | None = None
    deactivated: bool = False
    requeues: int = 0
    requeue_at: str = ""
    workload: str = ""
    seen: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def number(self) -> int:
        """How often it was evicted."""
        return sum(self.reasons.values())

    @property
    def limited(self) -> int:
        """How many evictions the limit is about: all but those because the Workload was deactivated."""
        return sum(number for reason, number in self.reasons.items() if not reason.startswith(DEACTIVATED))

    @property
    def is_exceeded(self) -> bool:
        """Whether there were more evictions than allowed."""
        return self.limit is not None and self.limited - self.before > self.limit

    def see(self, workload: KueueWorkload, limit: int | None) -> dict[str, int]:
        """Record the state of the Workload and the limit in force; return the new evictions by reason.

        Once a Workload is activated again that was not active after the limit was exceeded, the limit begins anew.
        """
        if self.workload != workload.uid[:ID]:  # Kueue creates a new one, if the Job has changed
            self.workload, self.seen = workload.uid[:ID], {}
        now, found = dict(workload.evictions), {}
        for reason, number in now.items():
            new = number - self.seen.get(reason, 0)
            if new > 0:
                found[reason] = new
                self.add(reason, new)
        self.seen, self.limit = now, limit
        self.requeues, self.requeue_at = workload.requeues, workload.requeue_at
        if self.deactivated and workload.active:
            self.begin_anew()
        elif self.is_exceeded and not workload.active:
            self.deactivated = True
        return found

    def add(self, reason: str, number: int) -> None:
        """Add evictions to the counts."""
        known = reason if reason in self.reasons or len(self.reasons) < MOST_REASONS - 1 else OTHER
        self.reasons[known] = min(self.reasons.get(known, 0) + number, LARGEST)

    def begin_anew(self) -> None:
        """Let the limit count from now on: after a requested retry, or because a person has activated the Workload."""
        self.before, self.deactivated = self.limited, False
