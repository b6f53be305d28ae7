"""Checks the other admission plugins of the cluster that see Jobs or pods of opted-in namespaces. Pure."""

import json
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from webhook.doctor.checks.installed import is_ours
from webhook.doctor.checks.selectors import matches_namespace, sees
from webhook.doctor.finding import Diagnosis, ok, warning
from webhook.doctor.shipped import CONTROLLER, MUTATING, NAME
from webhook.doctor.snapshot import Snapshot
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json, listed
from webhook.rules.opt_in import labels_of
from webhook.systems.job_set.spec import JOB_SET

# What both this webhook and another one may change: group and resource.
SHARED: Final = (("", "pods"), ("batch", "jobs"), (JOB_SET.group, JOB_SET.resource))
# What the server itself updates. What another webhook adds to such an update counts as written by the server.
UPDATED: Final = (*SHARED, ("", "pods/status"), ("batch", "jobs/status"), (JOB_SET.group, f"{JOB_SET.resource}/status"))
# Known programs, by a word in the name of a webhook, of its configuration, or of the namespace that it calls.
KNOWN: Final = {
    "jobset": "JobSet",
    "kueue": "Kueue",
    "istio": "Istio",
    "kyverno": "Kyverno",
    "gatekeeper": "Gatekeeper",
    "linkerd": "Linkerd",
    "volcano": "Volcano",
    "tekton": "Tekton",
}
SAFE: Final = frozenset({"JobSet", "Kueue", "Tekton"})  # tested together with this webhook


class Other(NamedTuple):
    """A webhook of another program: its configuration, its place in it, and the program's name, empty if unknown."""

    configuration: str
    place: int
    hook: Json
    program: str

    @property
    def name(self) -> str:
        """The name of the webhook, with its program."""
        shown = str(self.hook.get("name"))
        return f"{shown} ({self.program})" if self.program else shown


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield the other webhooks, and a warning for those that may fight with this one."""
    if snapshot.mutating is None:
        return
    found = list(_others(snapshot))
    findings = [*_on_updates(snapshot, found), *_order(snapshot, found), *_elsewhere(snapshot)]
    yield from findings
    if not findings:
        seeing = listed([f"{one.configuration}: {one.name}" for one in found])
        both = f"none fights with this one; these see Jobs or pods too: {seeing}"
        yield ok("Other webhooks", both if found else "none sees Jobs or pods of opted-in namespaces")


def _others(snapshot: Snapshot) -> Iterator[Other]:
    """Yield the webhooks of other programs that are called for Jobs, JobSets or pods of an opted-in namespace."""
    opted_in = [one for one in snapshot.namespaces or () if names.PROFILE in labels_of(one)]
    for root in snapshot.mutating or ():
        for index, hook in enumerate(root.get("webhooks") or ()):
            if is_ours(hook) or not any(matches_namespace(hook, one) for one in opted_in):
                continue
            rules, name = hook.get("rules") or (), root["metadata"]["name"]
            if any(sees(rules, *one, operation) for one in SHARED for operation in ("CREATE", "UPDATE")):
                yield Other(name, index, hook, _program_of(name, hook))


def _program_of(configuration: str, hook: Json) -> str:
    service = at(hook, ("clientConfig", "service", "namespace")) or ""
    text = f"{configuration} {hook.get('name')} {service}".lower()
    return next((program for word, program in KNOWN.items() if word in text), "")


def _on_updates(snapshot: Snapshot, found: list[Other]) -> Iterator[Diagnosis]:
    """Yield a warning for each webhook that is called for the server's own updates."""
    username = snapshot.installed.username(CONTROLLER)
    for one in found:
        seen = _updates_seen(one.hook.get("rules") or (), one.hook.get("matchConditions") or (), username)
        if not seen or one.program in SAFE:
            continue
        what = f"{one.name} is called for updates of {listed(seen)} by the server"
        why = "if it changes one, the update is denied"
        yield warning(f"{MUTATING} {one.configuration}", f"{what}: {why}", _exclusion(one, username))


def _updates_seen(rules: Iterable[Json], conditions: Iterable[Json], username: str) -> list[str]:
    """Return of what a plugin sees updates by the server; nothing if its conditions name the server."""
    if any(username in str(at(one, ("expression",))) for one in conditions):
        return []
    return [resource for group, resource in UPDATED if sees(rules, group, resource, "UPDATE")]


def _exclusion(one: Other, username: str) -> str:
    condition = {"name": "not-retry-policy-controller", "expression": f'request.userInfo.username != "{username}"'}
    path = f"/webhooks/{one.place}/matchConditions"
    has_some = bool(one.hook.get("matchConditions"))
    patch = {"op": "add", "path": f"{path}/-" if has_some else path, "value": condition if has_some else [condition]}
    return f"kubectl patch mutatingwebhookconfiguration {one.configuration} --type=json -p '{json.dumps([patch])}'"


def _order(snapshot: Snapshot, found: list[Other]) -> Iterator[Diagnosis]:
    """Yield a warning if Kueue comes after this webhook, which is then not called again.

    The API server calls configurations in the order of their names.
    """
    own = snapshot.named(snapshot.mutating, NAME) or {}
    final = [hook for hook in own.get("webhooks") or () if hook.get("reinvocationPolicy") != "IfNeeded"]
    for one in found:
        if one.program == "Kueue" and one.configuration > NAME and final:
            what = f"{one.name} suspends Jobs after this webhook has judged them, and this webhook is not called again"
            yield warning(f"{MUTATING} {one.configuration}", what, snapshot.installed.apply)


def _elsewhere(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield a warning for each MutatingAdmissionPolicy that changes Jobs or pods on updates by the server."""
    username = snapshot.installed.username(CONTROLLER)
    for root in snapshot.mutating_policies or ():
        spec = root.get("spec") or {}
        rules = at(spec, ("matchConstraints", "resourceRules")) or ()
        if seen := _updates_seen(rules, spec.get("matchConditions") or (), username):
            name = root["metadata"]["name"]
            what = f"is applied to updates of {listed(seen)} by the server: if it changes one, the update is denied"
            condition = f"matchConditions: request.userInfo.username != '{username}'"
            fix = f"kubectl edit mutatingadmissionpolicy {name}   # add to {condition}"
            yield warning(f"MutatingAdmissionPolicy {name}", what, fix)
