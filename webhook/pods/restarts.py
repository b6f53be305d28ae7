"""Reads from a pod's status how often its containers have restarted in place, and how the last attempt ended.

A kubelet restarts containers by the pod's restartPolicy, by a container's own restartPolicy, and by a container's
restartPolicyRules (on by default since Kubernetes 1.35). The action RestartAllContainers (since 1.36) restarts every
container of the pod at once: restartCount grows by one in each of them, and that is one attempt.
"""

from collections.abc import Iterable
from itertools import chain, islice
from typing import Final

import msgspec

from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.policy.settings import LARGEST_COUNT, count
from webhook.systems.core import ENDED

RESTART_ALL: Final = "RestartAllContainers"
# The kubelet's reason for the end of each container that it has removed for that (pkg/kubelet/kubelet_pods.go of 1.36).
RESTARTED_ALL: Final = "RestartingAllContainers"
MARK: Final = "restarts "  # begins the annotation `counted` of a pod whose end is not counted yet

# The fields of a pod that are decoded, besides those of the rest of a pod (webhook/pods/pods.py).
TERMINATED_READ: Final[dict[str, Shape]] = {
    "exitCode": int,
    **dict.fromkeys(("reason", "startedAt", "finishedAt", "message"), str),
}
RULES_READ: Final[dict[str, Shape]] = {"name": str, "restartPolicyRules": [{"action": str}]}
# Bounds on what is looked at: users may write a pod's status, and the API has no bound on containers.
MOST: Final = 200
MOST_RULES: Final = 20  # of a container: the API allows no more
LONGEST: Final = 128  # characters of a reason
LONGEST_NAME: Final = 63
LONGEST_TIME: Final = 64
LONGEST_MESSAGE: Final = 256  # bytes of a termination message: an account keeps 200


class LastExit(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How a container ended that has restarted, or that is about to. Times are RFC 3339; empty if unknown."""

    container: str
    code: int
    reason: str = ""
    start: str = ""
    end: str = ""
    message: str = ""


class Restarts(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """The restarts in place of one pod.

    - `number`: the attempts that ended so; restarts of sidecars are none. `by_api`: all restartCounts added up, as the
      Job controller does it for pods with the restartPolicy OnFailure.
    - `counted`: how many of them the annotation `counted` says.
    - `policy`: the restartPolicy of the pod.
    - `last`: how the last of these attempts ended; None if the kubelet does not say it.
    - `pending`: how a container ended that has not restarted yet; None if there is none.
    - `began`: when the last container started, RFC 3339; empty if unknown.
    """

    number: int
    by_api: int
    counted: int = 0
    policy: str = ""
    last: LastExit | None = None
    pending: LastExit | None = None
    began: str = ""


def restarts_of(pod: Json, mark: str) -> Restarts | None:
    """Return the restarts in place of a pod, decoded as `pods.READ`; None if no container has restarted, or is to.

    `mark`: what is counted of the pod, by its annotation `counted`; empty without one.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    first, main = (status.get(name) or () for name in ("initContainerStatuses", "containerStatuses"))
    statuses = list(islice(chain(main, first), MOST))
    running = status.get("phase") not in ENDED
    if not any(one.get("restartCount") for one in statuses) and not (running and any(map(_has_ended, statuses))):
        return None  # the fast path: nearly all pods
    init = list(islice(spec.get("initContainers") or (), MOST))
    sidecars = {one.get("name") for one in init if one.get("restartPolicy") == "Always"}
    counts = [_bounded(one.get("restartCount")) for one in statuses]
    own = [number for one, number in zip(statuses, counts, strict=True) if one["name"] not in sidecars]
    whole = any(map(_restarts_all, chain(init, islice(spec.get("containers") or (), MOST))))
    ends = [_exit_of(one, "lastState") for one in statuses if one["name"] not in sidecars]
    starting = [_exit_of(one, "state") for one in statuses] if running else []
    return Restarts(
        number=(max(own, default=0) if whole else _bounded(sum(own))),
        by_api=_bounded(sum(counts)),
        counted=count(mark.removeprefix(MARK)) or 0 if mark.startswith(MARK) else 0,
        policy=(spec.get("restartPolicy") or "")[:LONGEST],
        last=_latest(ends),
        pending=_latest([one for one in starting if one is not None and one.code]),
        began=max((_began_of(one) for one in statuses if one["name"] not in sidecars), default=""),
    )


def _restarts_all(container: Json) -> bool:
    rules = islice(container.get("restartPolicyRules") or (), MOST_RULES)
    return any(rule.get("action") == RESTART_ALL for rule in rules)


def _bounded(number: int | None) -> int:
    """Return a restartCount, or a sum of them, that an account can hold; users may write a pod's status."""
    return min(max(0, number or 0), LARGEST_COUNT)


def _has_ended(status: Json) -> bool:
    return bool(((status.get("state") or {}).get("terminated") or {}).get("exitCode"))


def _exit_of(status: Json, name: str) -> LastExit | None:
    """Return how a container ended, by its `state` or its `lastState`; None if that does not say it."""
    terminated = (status.get(name) or {}).get("terminated")
    if terminated is None:
        return None
    return LastExit(
        status["name"][:LONGEST_NAME],
        terminated["exitCode"],
        (terminated.get("reason") or "")[:LONGEST],
        (terminated.get("startedAt") or "")[:LONGEST_TIME],
        (terminated.get("finishedAt") or "")[:LONGEST_TIME],
        tail(terminated.get("message") or "", LONGEST_MESSAGE),
    )


def tail(text: str, most: int) -> str:
    """Return the end of a text, at most so many bytes of it."""
    return text[-most:].encode(errors="replace")[-most:].decode(errors="ignore") if text else ""


def _latest(ends: Iterable[LastExit | None]) -> LastExit | None:
    found = [one for one in ends if one is not None]
    return max(found, key=lambda one: (one.reason != RESTARTED_ALL, one.end), default=None)


def _began_of(status: Json) -> str:
    state = status.get("state") or {}
    known = state.get("running") or state.get("terminated") or {}
    return (known.get("startedAt") or "")[:LONGEST_TIME]


def following(before: Restarts | None, now: Restarts | None) -> Restarts | None:
    """Return the restarts of a pod as they are now, with what only the state before them says.

    If all containers restarted, the kubelet forgets with which exit code the one ended that was the reason: it was
    there before. A number never falls, and what ended last is kept if no container has restarted since.
    """
    if before is None or now is None:
        return now if before is None or before.number == 0 else before
    if now.number < before.number:
        return before
    last = now.last
    if last is None or last.reason == RESTARTED_ALL:
        last = before.last if now.number == before.number else before.pending or last
    pending = now.pending or (before.pending if now.number == before.number else None)
    return msgspec.structs.replace(now, last=last, pending=pending, counted=max(before.counted, now.counted))
