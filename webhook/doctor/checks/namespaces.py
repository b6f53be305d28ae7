"""Checks which namespaces are opted in and how, and why nothing happens in the one that the user asks about. Pure."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from webhook.doctor.checks.admission import opt_in
from webhook.doctor.checks.selectors import matches_namespace
from webhook.doctor.finding import Diagnosis, Status, ok, problem, warning
from webhook.doctor.shipped import MUTATING, NAME, WORKLOADS
from webhook.doctor.snapshot import Snapshot
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.rules import opt_in as labels
from webhook.rules.opt_in import labels_of

QUIET: Final = {
    "Warn": "nothing is changed or denied, users only get warnings",
    "Audit": "nothing is changed or denied, only audit annotations and metrics say what would be",
}


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield how namespaces are opted in, and what is wrong with their labels."""
    if snapshot.namespaces is None:
        return
    asked = snapshot.named(snapshot.namespaces, snapshot.asked or "")
    if snapshot.asked is not None:
        if asked is None:
            yield problem(f"Namespace {snapshot.asked}", "does not exist", "kubectl get namespaces")
            return
        yield from judged(snapshot, asked)
        return
    opted_in, findings = False, list[Diagnosis]()
    for one in snapshot.namespaces:
        with snapshot.left_out.around("Namespace", one):
            is_opted_in = names.PROFILE in labels_of(one)
            opted_in = opted_in or is_opted_in
            findings += judged(snapshot, one) if is_opted_in or labels.warnings(one, None) else []
    if not opted_in:
        what = f"no namespace has the label {names.PROFILE}, so the policy applies nowhere"
        yield problem("Namespaces", what, opt_in(snapshot))
    yield from findings


def judged(snapshot: Snapshot, namespace: Json) -> Iterator[Diagnosis]:
    """Yield how one namespace is opted in, and what is wrong with its labels."""
    name, found = namespace["metadata"]["name"], labels_of(namespace)
    where = f"Namespace {name}"
    profile, mode = found.get(names.PROFILE), found.get(names.MODE)
    fix = _relabel(snapshot, namespace)
    for one in labels.warnings(namespace, None):
        key = str(one.path[-1])
        is_annotation = "annotations" in one.path
        yield warning(where, str(one), f"kubectl annotate namespace {name} {key}-" if is_annotation else fix)
    if profile is None:
        if snapshot.asked is not None:
            what = f"lacks the label {names.PROFILE}, so the policy does not apply to its objects"
            yield problem(where, what, fix)
        return
    findings = [*_unknown_profile(snapshot, where, name, profile), *_quiet(snapshot, where, name, mode)]
    findings += _unselected(snapshot, where, namespace)
    yield from findings
    if not findings:
        retries = ", requested retries" if snapshot.installed.requested_retries else ""
        yield ok(where, f"profile {profile}, mode {mode or 'Enforce'}{retries}")


def _relabel(snapshot: Snapshot, namespace: Json) -> str:
    """Return the one command that opts a namespace in, without its misspelt labels: the webhook denies halves of it."""
    found = labels_of(namespace)
    wrong = [key for one in labels.warnings(namespace, None) if (key := one.path[-1]) in found and key != names.MODE]
    meant = {close: found[key] for key in wrong for close in _near(key, (names.PROFILE, names.MODE))}
    words = [f"{key}-" for key in wrong]
    if names.PROFILE not in found:
        profiles = {} if snapshot.policy is None else snapshot.policy.profiles
        profile = meant.get(names.PROFILE, "default")
        words.append(f"{names.PROFILE}={profile if profile in profiles else 'default'}")
    mode = found.get(names.MODE, meant.get(names.MODE))
    if (mode is not None and mode != found.get(names.MODE)) or mode not in {None, *labels.MODES}:
        exact = [one for one in labels.MODES if one.lower() == str(mode).lower()]
        words.append(f"{names.MODE}={exact[0]}" if exact else f"{names.MODE}-")
    overwrite = "--overwrite " if names.MODE in found or len(words) > 1 else ""
    return f"kubectl label {overwrite}namespace {namespace['metadata']['name']} {' '.join(words)}"


def _near(key: str, known: Sequence[str]) -> list[str]:
    """Return the label that was probably meant by a misspelt one, as a list of at most one."""
    words = get_close_matches(key.rpartition("/")[2].lower(), [one.removeprefix(names.PREFIX) for one in known], n=1)
    return [names.PREFIX + one for one in words]


def _unknown_profile(snapshot: Snapshot, where: str, name: str, profile: str) -> Iterator[Diagnosis]:
    if snapshot.policy is not None and profile not in snapshot.policy.profiles:
        near = labels.nearest_profile(profile, snapshot.policy).removeprefix("label it ")
        best = min(snapshot.policy.profiles, key=lambda one: (one != near, one != "default", one))
        has = ", ".join(sorted(snapshot.policy.profiles)[:10])
        what = f"has the profile {profile!r}, which the policy does not have: its objects are left alone; it has {has}"
        yield problem(where, what, f"kubectl label --overwrite namespace {name} {names.PROFILE}={best}")


def _quiet(snapshot: Snapshot, where: str, name: str, mode: str | None) -> Iterator[Diagnosis]:
    """Yield a finding if nothing is enforced: a problem if the user asks about this namespace."""
    if mode not in {None, *labels.MODES}:
        what = f"has the mode {mode!r}, which is unknown: its objects are left alone; {labels.ALLOWED_MODES}"
        yield problem(where, what, f"kubectl label namespace {name} {names.MODE}-")
    elif mode in QUIET:
        status: Status = "warning" if snapshot.asked is None else "problem"
        since = _labelled_at(snapshot, name)
        what = f"has the mode {mode}{since}: {QUIET[mode]}"
        yield Diagnosis(status, where, what, f"kubectl label namespace {name} {names.MODE}-")


def _labelled_at(snapshot: Snapshot, name: str) -> str:
    """Return since when a namespace has its mode at the latest, if managedFields say so."""
    root = snapshot.named(snapshot.namespaces, name) or {}
    for one in (root.get("metadata") or {}).get("managedFields") or ():
        if f"'f:{names.MODE}'" in str(one.get("fieldsV1")) and one.get("time"):
            return f" since {one['time']} or earlier"
    return ""


def _unselected(snapshot: Snapshot, where: str, namespace: Json) -> Iterator[Diagnosis]:
    """Yield a problem if the stored webhook configuration leaves the namespace out."""
    root = snapshot.named(snapshot.mutating, NAME) or {}
    for hook in root.get("webhooks") or ():
        if hook.get("name") == WORKLOADS and not matches_namespace(hook, namespace):
            what = f"is left out by the namespaceSelector of {MUTATING} {NAME}: {WORKLOADS} is not called for it"
            yield problem(where, what, f"kubectl get mutatingwebhookconfiguration {NAME} -o yaml")
