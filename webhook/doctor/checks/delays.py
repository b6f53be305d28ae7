"""Finds the pods that are held back by a delay that is over: nobody ends it. Pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from webhook.doctor.finding import Finding, ok, problem
from webhook.doctor.snapshot import Snapshot
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.times import time_of
from webhook.pods import on_failure

LATE: Final = 60.0  # seconds that the leader may need; it takes seconds, unless another one has to take over
GATES: Final = ("spec", "schedulingGates")


def check(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield each pod whose delay is over and has not ended; one finding if there are only others."""
    if snapshot.delayed is None or snapshot.now is None:
        return
    late: list[Finding] = []
    for pod in snapshot.delayed:
        with snapshot.left_out.around("Pod", pod):
            late += judged(pod, snapshot.now)
    yield from late
    if snapshot.delayed and not late:
        yield ok("Delays", f"{len(snapshot.delayed)} pods are held back, none for too long")


def judged(pod: Json, now: datetime) -> list[Finding]:
    """Return what is wrong if the delay of a pod is over and has not ended, as a list of at most one."""
    late = late_by(pod, now)
    if late <= LATE:
        return []
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    place = [gate.get("name") for gate in at(pod, GATES)].index(names.DELAY)
    what = f"is held back by a delay that ended {late:.0f} s ago: no leader removes its gate"
    gate = f'[{{"op":"remove","path":"/spec/schedulingGates/{place}"}}]'
    fix = f"kubectl -n {namespace} patch pod {name} --type=json -p '{gate}'"
    return [problem(f"Pod {namespace}/{name}", what, fix)]


def late_by(pod: Json, now: datetime) -> float:
    """Return the seconds since the delay of a pod has ended; negative if it has not; since its creation if unknown."""
    said = at(pod, ("metadata", "annotations", names.AFTER_FAILURE))
    end = time_of(on_failure.read(said or "").not_before) or time_of(at(pod, ("metadata", "creationTimestamp")))
    return 0.0 if end is None else (now - end).total_seconds()


def is_delayed(pod: Json) -> bool:
    """Return True if a pod has the scheduling gate of a delay."""
    return any(gate.get("name") == names.DELAY for gate in at(pod, GATES) or ())
