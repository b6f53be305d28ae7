"""Reads what a pod waits for: before all of its containers have started, and when it is to end."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

import msgspec

from webhook.kube import names
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.systems.core import ENDED

# The fields that are decoded, besides those of the rest of a pod (webhook/pods/pods.py).
CONTAINER_READ: Final[dict[str, Shape]] = {"restartCount": int}
STATE_READ: Final[dict[str, Shape]] = {"waiting": dict.fromkeys(("reason", "message"), str), "running": {}}
GATES_READ: Final[Shape] = [{"name": str}]

SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"
# Reasons of the kubelet for a container that it prepares, or that waits until init containers have ended.
PREPARING: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
MOST: Final = 100  # containers that are examined
LONGEST: Final = 128  # characters of a name or reason
LONGEST_MESSAGE: Final = 512  # characters of the kubelet's message


class Stalled(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A container that has not started, on a node.

    `reason` and `message`: the kubelet's. `since`: when it could have started at the earliest, RFC 3339. `alone`:
    whether no container of the pod runs.
    """

    container: str
    reason: str
    message: str
    since: str
    alone: bool


class Waiting(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a pod waits for that has not ended.

    - `created`: when it was created, RFC 3339.
    - `gate`: the place of the gate DELAY in its spec.schedulingGates; None if it has none. `gated`: whether it has any.
    - `unschedulable`: since when no node takes it, RFC 3339; empty if that is not so.
    - `stalled`: the first of its containers that has not started, if it is on a node; None if there is none.
    - `deadline`: when its kubelet should have ended it, because it is being deleted, RFC 3339; empty if it is not.
    """

    created: str
    gate: int | None = None
    gated: bool = False
    unschedulable: str = ""
    stalled: Stalled | None = None
    deadline: str = ""


def waiting_of(pod: Json) -> Waiting | None:
    """Return what a pod waits for; None if it waits for nothing, or has ended.

    deletionTimestamp is the time of the request plus the grace period (ObjectMeta of apimachinery). The phase
    stays Pending until every container has started once (getPhase of the kubelet of Kubernetes 1.36).
    """
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    phase, created = status.get("phase"), metadata.get("creationTimestamp") or ""
    if deadline := metadata.get("deletionTimestamp"):
        return None if phase in ENDED or not spec.get("nodeName") else Waiting(created, deadline=deadline)
    if phase != "Pending":
        return None
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    if gates:
        return Waiting(created, gates.index(names.DELAY) if names.DELAY in gates else None, gated=True)
    scheduled = next((one for one in status.get("conditions") or () if one.get("type") == SCHEDULED), None)
    if scheduled is None:
        return None
    time = scheduled.get("lastTransitionTime") or created
    if not spec.get("nodeName"):
        is_refused = scheduled.get("status") == "False" and scheduled.get("reason") == UNSCHEDULABLE
        return Waiting(created, unschedulable=time) if is_refused else None
    stalled = next(_stalled_in(status, time), None)
    return None if stalled is None else Waiting(created, stalled=stalled)


def _stalled_in(status: Json, scheduled: str) -> Iterator[Stalled]:
    """Yield the containers that have not started; `scheduled`: when the pod got its node.

    As long as no container has begun, every one that waits counts: a volume may be missing. After that, one counts only
    for a reason of its own: the others may wait for init containers.
    """
    first, main = (status.get(key) or () for key in ("initContainerStatuses", "containerStatuses"))
    found = [(one, one.get("state") or {}) for one in islice(chain(first, main), MOST)]
    runs = any(state.get("running") is not None for _, state in found)
    begun = runs or any(state.get("terminated") or one.get("restartCount") for one, state in found)
    ends = [(state.get("terminated") or {}).get("finishedAt") or "" for one, state in found[: len(first)]]
    since = max((scheduled, *ends))
    for one, state in found:
        waits = state.get("waiting")
        reason = ((waits or {}).get("reason") or "")[:LONGEST]
        if waits is None or one.get("restartCount") or (begun and reason in PREPARING):
            continue
        message = ((waits or {}).get("message") or "")[:LONGEST_MESSAGE]
        yield Stalled(one["name"][:LONGEST], reason, message, since, not runs)
