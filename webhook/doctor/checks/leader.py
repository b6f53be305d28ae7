"""Whether a replica leads, and whether pods are held back for longer than their delay."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from webhook.accounts.words import counted
from webhook.doctor.finding import Diagnosis, ok, problem, warning
from webhook.doctor.shipped import LEDGER
from webhook.doctor.snapshot import SeenLease, Snapshot
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.times import time_of
from webhook.pods import on_failure
from webhook.systems.account_object import ACCOUNT

# Seconds by which a clock may differ. The leader renews every two seconds; certificates allow five minutes.
SKEW: Final = 30.0
AHEAD: Final = 5.0  # the API server's time has whole seconds
LATE: Final = 60.0  # seconds that the leader may need; it takes seconds, unless another one has to take over
GATES: Final = ("spec", "schedulingGates")


def leases(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield what is right and wrong with each Lease."""
    for seen in snapshot.leases or ():
        yield _lease(snapshot, seen)
    if snapshot.kinds is not None and (ACCOUNT.group, ACCOUNT.resource) not in snapshot.kinds:
        where = f"CustomResourceDefinition {ACCOUNT.resource}.{ACCOUNT.group}"
        yield problem(where, "does not exist: nothing is counted", snapshot.installed.apply)


def _lease(snapshot: Snapshot, seen: SeenLease) -> Diagnosis:
    installed = snapshot.installed
    where = f"Lease {installed.namespace}/{seen.name}"
    work = "writes the ledger" if seen.name == LEDGER else "runs requested retries"
    logs = installed.kubectl("logs -l app.kubernetes.io/component=controller --tail=50")
    if seen.lease is None:
        return warning(where, f"does not exist: no replica has ever led, so none {work}", logs)
    holder = at(seen.lease, ("spec", "holderIdentity"))
    renewed = time_of(at(seen.lease, ("spec", "renewTime")))
    if not holder or renewed is None:
        say = problem if seen.renewed is False else warning
        return say(where, f"is held by no replica, so none {work}", logs)
    age = (seen.now - renewed).total_seconds()
    if seen.renewed is False:
        what = f"was not renewed for {age:.0f} s: {holder} has ended or does not reach the API server, so none {work}"
        return problem(where, what, installed.kubectl("get pods,events"))
    if age < -AHEAD or (seen.renewed and age > SKEW):
        differs = f"{abs(age):.0f} s {'ahead of' if age < 0 else 'behind'} the API server's clock"
        what = f"the clock of {holder} is {differs}: certificates and time limits are judged by a wrong time"
        pod = str(holder).partition("_")[0]
        fix = installed.kubectl(f"get pod {pod} -o wide   # then correct the time of its node (NTP)")
        return problem(where, what, fix)
    held = f"renewed {max(age, 0):.0f} s ago"
    if seen.name == LEDGER and any(one.role == LEDGER for one in snapshot.missing_rights or ()):
        what = f"{holder} leads, {held}, and lacks permissions that the ledger needs"
        return warning(where, what, installed.apply)
    return ok(where, f"{holder} {work}, {held}")


def delays(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield each pod whose delay is over and has not ended; one finding if there are only others."""
    if snapshot.delayed is None or snapshot.now is None:
        return
    ends = snapshot.deployments is None or bool(snapshot.deployments)
    late: list[Diagnosis] = []
    for pod in snapshot.delayed:
        with snapshot.left_out.around("Pod", pod):
            late += _late(pod, snapshot.now) if ends else [_held(pod, "is held back by a delay: no controller ends it")]
    yield from late
    if snapshot.delayed and not late:
        yield ok("Delays", f"{counted(len(snapshot.delayed), 'pod')} held back by a delay that is not over")


def _late(pod: Json, now: datetime) -> list[Diagnosis]:
    """Return what is wrong if the delay of a pod is over and has not ended, as a list of at most one."""
    late = _late_by(pod, now)
    if late <= LATE:
        return []
    return [_held(pod, f"is held back by a delay that ended {late:.0f} s ago: no leader removes its gate")]


def _held(pod: Json, what: str) -> Diagnosis:
    """Return the problem of a pod that is held back, with the command that lets it run."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    place = [gate.get("name") for gate in at(pod, GATES)].index(names.DELAY)
    gate = f'[{{"op":"remove","path":"/spec/schedulingGates/{place}"}}]'
    fix = f"kubectl -n {namespace} patch pod {name} --type=json -p '{gate}'"
    return problem(f"Pod {namespace}/{name}", what, fix)


def _late_by(pod: Json, now: datetime) -> float:
    """Return the seconds since the delay of a pod has ended; negative if it has not; since its creation if unknown."""
    said = at(pod, ("metadata", "annotations", names.AFTER_FAILURE))
    end = time_of(on_failure.read(said or "").not_before) or time_of(at(pod, ("metadata", "creationTimestamp")))
    return 0.0 if end is None else (now - end).total_seconds()


def is_delayed(pod: Json) -> bool:
    """Return True if a pod has the scheduling gate of a delay."""
    return any(gate.get("name") == names.DELAY for gate in at(pod, GATES) or ())
