"""Checks the installation: whether there is one and only one, its version, its pods and its endpoints. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from webhook.doctor.finding import Diagnosis, ok, problem, warning
from webhook.doctor.installation import called_in, version_of
from webhook.doctor.shipped import CONTROLLER, NAME, WORKLOADS
from webhook.doctor.snapshot import Snapshot
from webhook.objects.patch import at
from webhook.objects.problem import Json, listed

OURS: Final = ".retry-policy.dev"  # the names of our webhooks end in this
OLDEST: Final = (1, 30)  # of Kubernetes
NOTHING_COUNTED: Final = "no end is counted, no limit on disruptions holds, and no certificate is renewed"


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield what is right and wrong with the installation."""
    if is_absent(snapshot):
        what = "is not installed in this cluster: there are neither webhook configurations nor a Deployment of it"
        yield problem(NAME, what, snapshot.installed.install)
        return
    yield from _others(snapshot)
    yield from _kubernetes(snapshot)
    if snapshot.installed.deployment:
        yield from _deployed(snapshot, snapshot.installed.deployment, _effect(snapshot))
        yield from _pods(snapshot)
    elif snapshot.deployments is not None:
        where = f"Deployment {snapshot.installed.namespace}/{NAME}"
        yield problem(where, "does not exist, so no server answers the API server", snapshot.installed.apply)
    if snapshot.installed.controller:
        yield from _deployed(snapshot, snapshot.installed.controller, NOTHING_COUNTED)
    elif snapshot.deployments is not None:
        where = f"Deployment {snapshot.installed.namespace}/{CONTROLLER}"
        yield problem(where, f"does not exist: {NOTHING_COUNTED}", snapshot.installed.apply)
    yield from _endpoints(snapshot)


def is_absent(snapshot: Snapshot) -> bool:
    """Return True if everything of an installation was looked for, and nothing was found."""
    read = snapshot.deployments is not None and snapshot.mutating is not None and snapshot.validating is not None
    found = [*(snapshot.deployments or ()), *(one for _, one in _configurations(snapshot))]
    return read and not found


def _configurations(snapshot: Snapshot) -> Iterator[tuple[str, Json]]:
    """Yield the webhook configurations that have webhooks of ours, with their kind."""
    for kind, found in snapshot.configurations:
        for one in found or ():
            if one["metadata"]["name"] == NAME or any(is_ours(hook) for hook in one.get("webhooks") or ()):
                yield kind, one


def is_ours(hook: Json) -> bool:
    """Return True if a webhook has a name of ours."""
    return str(hook.get("name", "")).endswith(OURS)


def _others(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield a problem for each part of a second installation."""
    own = snapshot.installed.namespace
    for kind, one in _configurations(snapshot):
        name = one["metadata"]["name"]
        called = at(one, ("webhooks", 0, "clientConfig", "service", "namespace"))
        if name != NAME:
            what = f"belongs to a second installation: it calls namespace {called}, and {NAME} is called as well"
            yield problem(f"{kind} {name}", what, f"kubectl delete {kind.lower()} {name}")
    for one in snapshot.deployments or ():
        namespace, name = one["metadata"]["namespace"], one["metadata"]["name"]
        if namespace != own:
            what = f"belongs to a second installation; the webhook configurations {NAME} call namespace {own}"
            yield problem(f"Deployment {namespace}/{name}", what, f"kubectl -n {namespace} delete deployment {name}")


def _kubernetes(snapshot: Snapshot) -> Iterator[Diagnosis]:
    found = re.match(r"v?([0-9]+)\.([0-9]+)", snapshot.server_version or "")
    if found and (int(found[1]), int(found[2])) < OLDEST:
        what = f"is {snapshot.server_version}; the webhook needs 1.30 or newer"
        yield problem("Kubernetes", what, "kubectl version")


def _deployed(snapshot: Snapshot, root: Json, without: str) -> Iterator[Diagnosis]:
    """Yield the version and the number of replicas of a Deployment; `without`: what happens if none is ready."""
    installed, name, version = snapshot.installed, root["metadata"]["name"], version_of(root)
    where = f"Deployment {installed.namespace}/{name}"
    if not version:
        yield warning(where, "does not say which version it runs", installed.kubectl(f"get deployment {name} -o yaml"))
    elif version != snapshot.version:
        what = f"runs version {version}, and this command line is version {snapshot.version}: use the same"
        yield warning(where, what, f"pip install retry-policy-webhook=={version}")
    wanted = at(root, ("spec", "replicas"))
    ready = at(root, ("status", "readyReplicas")) or 0
    wanted = 1 if wanted is None else wanted
    if wanted == 0:
        yield problem(where, f"is scaled to 0 replicas: {without}", installed.scale_up(name))
    elif ready == 0:
        what = f"has no ready replica of {wanted}: {without}"
        yield problem(where, what, _why_not_ready(snapshot, name))
    elif ready < wanted:
        what = f"has {ready} ready of {wanted} replicas"
        yield warning(where, what, installed.kubectl(f"describe deployment {name}"))
    else:
        replicas = "replica" if wanted == 1 else "replicas"
        yield ok(where, f"version {version or 'unknown'}, {ready} of {wanted} {replicas} ready")


def is_without_server(snapshot: Snapshot) -> bool:
    """Return True if it is known that no replica is ready."""
    root = snapshot.installed.deployment
    return not (at(root, ("status", "readyReplicas")) if root else snapshot.deployments is None)


def _effect(snapshot: Snapshot) -> str:
    """Return what happens to Jobs while no replica answers, by the stored failurePolicy of the webhook."""
    root = snapshot.named(snapshot.mutating, NAME)
    hooks = [] if root is None else [hook for hook in root.get("webhooks") or () if hook.get("name") == WORKLOADS]
    if hooks and hooks[0].get("failurePolicy") == "Ignore":
        return "Jobs in opted-in namespaces are stored as their authors wrote them (failurePolicy Ignore)"
    if snapshot.mutating is not None and not hooks:
        return "no policy applies, and the webhook for Jobs is missing as well"
    return "Jobs in opted-in namespaces are refused"


def _why_not_ready(snapshot: Snapshot, deployment: str) -> str:
    """Return the command that shows why no replica is ready: about a pod, else about the lack of pods."""
    waiting = [one for one in snapshot.pods or () if not _is_ready(one) and not _is_ended(one)]
    if waiting:
        return snapshot.installed.kubectl(_trouble(waiting[0])[1].format(waiting[0]["metadata"]["name"]))
    if snapshot.pods is None:
        return snapshot.installed.kubectl(f"describe deployment {deployment}")
    return snapshot.installed.kubectl("events --types=Warning")


def _is_ended(pod: Json) -> bool:
    """Return True if a pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def _pods(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for one in snapshot.pods or ():
        if _is_ended(one) or _is_ready(one):
            continue
        name = one["metadata"]["name"]
        reason, command = _trouble(one)
        told = last_event(snapshot, "Pod", name)
        what = f"is not ready: {reason or told or 'its log says why'}"
        fix = snapshot.installed.kubectl(command.format(name))
        yield warning(f"Pod {snapshot.installed.namespace}/{name}", what, fix)


def _is_ready(pod: Json) -> bool:
    conditions = at(pod, ("status", "conditions")) or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _trouble(pod: Json) -> tuple[str, str]:
    """Return why a pod is not ready, by its status, and the command that shows more, without the pod's name."""
    for one in at(pod, ("status", "conditions")) or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return f"not scheduled: {one.get('message')}", "describe pod {}"
    for one in at(pod, ("status", "containerStatuses")) or ():
        waiting = at(one, ("state", "waiting"))
        if waiting:
            crashed = waiting.get("reason") == "CrashLoopBackOff"
            said = ": ".join(part for part in (waiting.get("reason"), waiting.get("message")) if part)
            return said, "logs {} --previous" if crashed else "describe pod {}"
    return "", "logs {} --tail=50"


def last_event(snapshot: Snapshot, kind: str, name: str) -> str:
    """Return reason and message of the newest Event about an object; empty if there is none."""
    found = [
        one
        for one in snapshot.events or ()
        if (at(one, ("involvedObject", "kind")), at(one, ("involvedObject", "name"))) == (kind, name)
    ]
    newest = max(found, key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""), default=None)
    return "" if newest is None else f"{newest.get('reason')}: {newest.get('message')}"


def _endpoints(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield whether the API server finds a server behind the Service, unless it calls a URL."""
    installed = snapshot.installed
    where = f"Service {installed.namespace}/{NAME}"
    found = [one for _, one in _configurations(snapshot)]
    if snapshot.services is None or (found and not called_in(found)):
        return
    if not snapshot.services:
        yield problem(where, "does not exist, so the API server does not find the server", installed.apply)
        return
    if snapshot.slices is None:
        return
    ready = sum(
        at(one, ("conditions", "ready")) is not False for part in snapshot.slices for one in part.get("endpoints") or ()
    )
    if ready:
        yield ok(where, f"{ready} ready {'endpoint' if ready == 1 else 'endpoints'}")
        return
    selector: dict[str, str] = at(snapshot.services[0], ("spec", "selector")) or {}
    labels = at(installed.deployment, ("spec", "template", "metadata", "labels")) or {}
    wrong = [f"{key}={value}" for key, value in selector.items() if labels.get(key) != value]
    number = sum(_is_ready(one) for one in snapshot.pods or ())
    what = "has no ready endpoint, so the API server reaches no server"
    if wrong and labels:
        yield problem(where, f"{what}: its selector {listed(wrong)} matches no pod of the Deployment", installed.apply)
    elif number:
        fix = installed.kubectl(f"get endpointslices -l kubernetes.io/service-name={NAME} -o yaml")
        yield problem(where, f"{what}, although {number} {'pod is' if number == 1 else 'pods are'} ready", fix)
    else:
        stopped = at(installed.deployment, ("spec", "replicas")) == 0
        fix = installed.scale_up(NAME) if stopped else _why_not_ready(snapshot, NAME)
        yield problem(where, f"{what}, and no pod is ready", fix)
