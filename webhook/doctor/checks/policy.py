"""Checks the stored policy: whether it can be read, and whether the replicas use it. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from webhook.admission.engine import read_policy
from webhook.doctor.checks.installed import is_without_server
from webhook.doctor.finding import Diagnosis, ok, problem, warning
from webhook.doctor.snapshot import Snapshot
from webhook.objects.patch import at
from webhook.objects.problem import Json, listed
from webhook.objects.times import time_of
from webhook.policy.model import Policy
from webhook.policy.parse import KEY

REPEATED: Final = timedelta(minutes=6)  # a replica repeats the Event of a refused policy every five minutes


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield what is right and wrong with the policy."""
    place = snapshot.installed.policy
    if place is None:
        yield ok("Policy", "is not in a ConfigMap, so it was not looked at: the server has no --policy-configmap")
        return
    if snapshot.config_maps is None:
        return
    namespace, name = place
    where = f"ConfigMap {namespace}/{name}"
    edit = snapshot.installed.edit_policy()
    if not snapshot.config_maps:
        yield problem(where, f"does not exist: {_in_force(snapshot)}", snapshot.installed.apply)
        return
    root = snapshot.config_maps[0]
    text = at(root, ("data", KEY))
    if not isinstance(text, str):
        yield problem(where, f"data[{KEY}]: is missing: {_in_force(snapshot)}", edit)
        return
    policy, problems = read_policy(text)
    if policy is None:
        number = len(problems) - 1
        more = f", and {number} more {'problem' if number == 1 else 'problems'}" if number else ""
        yield problem(where, f"is refused: {problems[0]}{more}; {_in_force(snapshot)}", edit)
    elif told := _refusal(snapshot, root, name):
        yield warning(where, f"is good for version {snapshot.version}, and a replica refuses it: {told}", edit)
    else:
        yield ok(where, f"profiles {listed(sorted(policy.profiles))}")
    if policy is not None:
        yield from _stopped(snapshot, policy, where)


def _in_force(snapshot: Snapshot) -> str:
    if is_without_server(snapshot):
        return "no replica is ready, so no policy is in force"
    return "the replicas keep the last good policy, and new ones do not become ready"


def _stopped(snapshot: Snapshot, policy: Policy, where: str) -> Iterator[Diagnosis]:
    """Yield a warning for each thing that a policy stops, or only reports."""
    edit = snapshot.installed.edit_policy
    if policy.emergency.actions == "Stop":
        what = "emergency.actions is Stop: the leader counts pods, and does nothing else to any object"
        yield warning(where, what, edit("actions: Run"))
    if policy.emergency.retries == "Stop":
        what = "emergency.retries is Stop: what is created or changed now gets no retries"
        yield warning(where, what, edit("retries: Run"))
    reporting = sorted(name for name, profile in policy.profiles.items() if profile.actions == "Report")
    if reporting:
        profiles = f"profile{'s' * (len(reporting) > 1)} {listed(reporting)}"
        what = f"{profiles}: actions is Report, so the leader only says in Events what it would do"
        yield warning(where, what, edit("actions: Act"))


def _refusal(snapshot: Snapshot, root: Json, name: str) -> str:
    """Return the message of a replica that refuses the stored policy; empty if none does."""
    now, changed = snapshot.now, _changed_at(root)
    for one in snapshot.events or ():
        if one.get("reason") == "PolicyRefused" and at(one, ("involvedObject", "name")) == name:
            told_at = time_of(one.get("lastTimestamp"))
            if told_at and now and now - told_at < REPEATED and not (changed and told_at < changed):
                return str(one.get("message"))
    return ""


def _changed_at(root: Json) -> datetime | None:
    times = [time_of(one.get("time")) for one in root["metadata"].get("managedFields") or ()]
    return max((one for one in times if one is not None), default=None)
