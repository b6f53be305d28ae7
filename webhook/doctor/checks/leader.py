"""Checks which replica leads, whether its clock agrees with the API server's, and whether it can count. Pure."""

from collections.abc import Iterator
from typing import Final

from webhook.doctor.finding import Finding, ok, problem, warning
from webhook.doctor.shipped import LEDGER
from webhook.doctor.snapshot import SeenLease, Snapshot
from webhook.objects.patch import at
from webhook.objects.times import time_of
from webhook.systems.account_object import ACCOUNT

# Seconds by which a clock may differ. The leader renews every two seconds; certificates allow five minutes.
SKEW: Final = 30.0
AHEAD: Final = 5.0  # the API server's time has whole seconds


def check(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what is right and wrong with each Lease."""
    for seen in snapshot.leases or ():
        yield judged(snapshot, seen)
    if snapshot.kinds is not None and (ACCOUNT.group, ACCOUNT.resource) not in snapshot.kinds:
        where = f"CustomResourceDefinition {ACCOUNT.resource}.{ACCOUNT.group}"
        yield problem(where, "does not exist: nothing is counted", snapshot.installed.apply)


def judged(snapshot: Snapshot, seen: SeenLease) -> Finding:
    """Return what is right or wrong with one Lease."""
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
