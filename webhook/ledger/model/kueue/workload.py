"""The fields of a Kueue Workload that are kept: there may be tens of thousands, one for each Job in a queue.

Kueue 0.19 (apis/kueue/v1beta2/workload_types.go, pkg/workload/evict/evict.go) evicts a Workload by the condition
Evicted, and counts it in status.schedulingStats in the same write. Then it suspends the Job, which deletes its pods.
Once the Workload is admitted again, Evicted is False, and only the counts remain.
"""

from sys import intern
from typing import Final

import msgspec

from webhook.kube.paths import path_of
from webhook.ledger.model.pods import Pod, cut
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.objects.times import shifted
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


class Workload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


def read(found: Json) -> Workload:
    """Return a Workload of the API's JSON, decoded as READ; `owner` is empty if no object controls it."""
    metadata, status = found["metadata"], found.get("status") or {}
    owner = controller_of(found)
    true = {one["type"]: one for one in status.get("conditions") or () if one["status"] == "True"}
    evicted, requeue = true.get(EVICTED), status.get("requeueState") or {}
    return Workload(
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
        evictions=evictions_of((status.get("schedulingStats") or {}).get("evictions") or ()),
        requeues=within(requeue.get("count")),
        requeue_at=cut(requeue.get("requeueAt"), LONGEST_TIME),
    )


def evictions_of(stats: list[Json] | tuple[()]) -> tuple[tuple[str, int], ...]:
    """Return the number of evictions by reason, as the condition Evicted names it; after MOST_REASONS as OTHER."""
    found: dict[str, int] = {}
    for one in stats:
        reason, cause = one.get("reason") or OTHER, one.get("underlyingCause")
        if reason == DEACTIVATED and cause:
            reason = f"{reason}DueTo{cause}"
        # An account has no room for characters that JSON writes with several bytes; Kueue's reasons have none.
        reason = reason[:LONGEST_REASON] if reason.isascii() and reason.isprintable() else OTHER
        reason = reason if reason in found or len(found) < MOST_REASONS - 1 else OTHER
        found[reason] = within(found.get(reason, 0) + within(one.get("count")))
    return tuple(found.items())


def within(number: int | None) -> int:
    """Return a count of the API within its bounds; 0 for None."""
    return min(max(number or 0, 0), LARGEST)


def has_ended(pod: Pod, eviction: Eviction) -> bool:
    """Return True if an eviction has ended a pod that its Job has deleted: it was there before, and deleted after."""
    return bool(eviction.time and pod.deleted) and (
        pod.created <= shifted(eviction.time, APART) and pod.deleted >= shifted(eviction.time, -APART)
    )
