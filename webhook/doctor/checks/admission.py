"""Judges the answers to the Jobs of the dry run: whether the API server reaches the webhook, and obeys it. Pure."""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Final

from webhook.admission.judge import judge
from webhook.admission.modes import ENFORCED
from webhook.doctor.finding import Diagnosis, ok, problem, warning
from webhook.doctor.installation import Installation, version_of
from webhook.doctor.shipped import NAME
from webhook.doctor.snapshot import Probe, Snapshot
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.rules.facts import Facts
from webhook.rules.opt_in import labels_of

FAILED: Final = re.compile(r'failed calling webhook "([^"]*\.retry-policy\.dev)"')
# What the end of the API server's message means, and the command that helps; the first one that is found counts.
CAUSES: Final = (
    ("x509:", "the API server does not trust the server's certificate", "{certificate}"),
    ("tls:", "the TLS connection to the server fails", "logs -l app.kubernetes.io/name={name} --tail=50"),
    ("no endpoints available", "no server is ready behind the Service", "get pods,endpointslices"),
    ("not found", "the Service does not exist", "get services"),
    ("connection refused", "no server listens behind the Service", "get deployments,pods"),
    ("no route to host", "no network leads from the API server to the server", "describe networkpolicies"),
    (
        "deadline exceeded",
        "no answer in time: a firewall or a NetworkPolicy drops the connection, or the server hangs",
        "describe networkpolicies",
    ),
    ("the server is currently unable", "the server has no policy, or its look-ups fail", "get events"),
)


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield what the dry run shows."""
    probe = snapshot.probe
    if probe is None:
        if snapshot.namespaces is not None and not any(one.section == "Admission" for one in snapshot.unread):
            what = "was not created: no namespace is opted in with a known profile and a mode other than Audit"
            yield warning("Job in a dry run", what, opt_in(snapshot))
        return
    where = f"Job in a dry run in namespace {probe.namespace}"
    if probe.stored is None:
        yield _refused(snapshot.installed, where, probe.refusal)
        return
    findings = [*_changed(snapshot, where, probe, probe.stored), *_denied(snapshot, where, probe)]
    yield from findings
    if not findings:
        enforced = probe.mode in ENFORCED
        done = "was changed as the policy says" if enforced else "was answered with the warnings of mode Warn"
        yield ok(where, f"{done}; one with a wrong annotation was {'denied' if enforced else 'warned about'}")


def opt_in(snapshot: Snapshot) -> str:
    """Return the command that opts a namespace in."""
    return f"kubectl label namespace {snapshot.asked or 'NAMESPACE'} {names.PROFILE}=default"


def _refused(installed: Installation, where: str, refusal: str) -> Diagnosis:
    failed = FAILED.search(refusal)
    if failed is None:
        return warning(where, f"was refused by something else: {refusal}", "kubectl get resourcequotas,limitranges -A")
    for words, meaning, command in CAUSES:
        if words in refusal:
            fix = installed.kubectl(command.format(name=NAME, certificate=installed.certificate_command))
            return problem(where, f"the call of {failed[1]} failed: {meaning} ({_end_of(refusal)})", fix)
    fix = installed.kubectl(f"logs -l app.kubernetes.io/name={NAME} --tail=50")
    return problem(where, f"the call of {failed[1]} failed ({_end_of(refusal)})", fix)


def _end_of(refusal: str) -> str:
    """Return the end of the API server's message, which has the reason."""
    return refusal.partition("failed to call webhook: ")[2] or refusal


def _changed(snapshot: Snapshot, where: str, probe: Probe, stored: Json) -> Iterator[Diagnosis]:
    """Yield a problem if the first Job was not changed, or was changed again by something else."""
    if probe.mode not in ENFORCED:
        if not probe.warnings:
            yield _not_called(snapshot, where, "got no warning of mode Warn")
        return
    if names.PROFILE not in labels_of(stored):
        yield _not_called(snapshot, where, "was stored unchanged")
        return
    policy, profile = snapshot.policy, labels_of(stored)[names.PROFILE]
    if (
        policy is None
        or profile not in policy.profiles
        or version_of(snapshot.installed.deployment) != snapshot.version
    ):
        return
    root = {"apiVersion": "batch/v1", "kind": "Job", **deepcopy(stored)}
    again = judge(root, policy, profile, Facts(profile_name=None))
    if again is not None and again.verdict == "changed":
        what = f"something else changed what this webhook wrote: {again.findings[0]}"
        fix = "kubectl get mutatingwebhookconfigurations,mutatingadmissionpolicies"
        yield warning(where, f"{what}, if it were admitted again", fix)


def _not_called(snapshot: Snapshot, where: str, what: str) -> Diagnosis:
    installed = snapshot.installed
    why = "the mutating webhook was not called, or its call failed and failurePolicy is Ignore"
    return problem(where, f"{what}: {why}", installed.kubectl("get pods,endpointslices,events"))


def _denied(snapshot: Snapshot, where: str, probe: Probe) -> Iterator[Diagnosis]:
    installed = snapshot.installed
    if FAILED.search(probe.denial):
        yield _refused(installed, where, probe.denial)
    elif probe.mode in ENFORCED and names.INTERRUPTIBLE not in probe.denial:
        why = f"with the annotation {names.INTERRUPTIBLE}: doctor was not denied"
        fix = installed.kubectl(f"get events; kubectl describe validatingwebhookconfiguration {NAME}")
        yield problem(where, f"{why}: the validating webhook was not called, or its call failed", fix)
