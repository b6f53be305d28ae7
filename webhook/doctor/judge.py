"""Runs all checks on a Snapshot, in the order in which a person would look. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from webhook.doctor.checks import (
    admission,
    asked_object,
    certificates,
    configurations,
    installed,
    leader,
    namespaces,
    others,
    permissions,
    placement,
    policy,
)
from webhook.doctor.checks.installed import is_without_server
from webhook.doctor.finding import Diagnosis, Section, bounded, warning
from webhook.doctor.snapshot import Snapshot
from webhook.objects.patch import at


def causes(snapshot: Snapshot) -> Iterator[str]:
    """Yield the sections that can explain problems of others, the likeliest first.

    Without any replica nothing else can be right. Replicas that are there and not ready mostly lack a permission, a
    policy or a certificate. Where a replica is ready, permissions and certificates are what others depend on.
    """
    root = snapshot.installed.deployment
    if snapshot.deployments is not None and (not root or at(root, ("spec", "replicas")) == 0):
        yield "Installation"
    yield "Permissions"
    if is_without_server(snapshot):
        yield from ("Policy", "Certificate", "Installation")
    yield from ("Certificate", "Webhooks")


def _causes_first(snapshot: Snapshot, sections: list[Section]) -> list[Section]:
    """Return the sections, first the one that explains the others if there are several with problems."""
    wrong = [one.title for one in sections if any(finding.status == "problem" for finding in one.findings)]
    if len(wrong) < 2:  # noqa: PLR2004 - a single one explains nothing else
        return sections
    first = next((title for title in causes(snapshot) if title in wrong), None)
    return sorted(sections, key=lambda one: one.title != first)


CHECKS: Final[dict[str, Callable[[Snapshot], Iterator[Diagnosis]]]] = {
    "Object": asked_object.check,
    "Installation": installed.check,
    "Webhooks": configurations.check,
    "Certificate": certificates.check,
    "Admission": admission.check,
    "Leader": leader.leases,
    "Delays": leader.delays,
    "Policy": policy.check,
    "Placement": placement.check,
    "Namespaces": namespaces.check,
    "Kinds": configurations.kinds,
    "Permissions": permissions.check,
    "Others": others.check,
}
# That say something if nothing is installed.
WITHOUT_INSTALLATION: Final = ("Installation", "Delays", "Namespaces", "Kinds")
ANSWERS: Final = ("Object", "Namespaces")  # that come first if the user asks about a namespace or an object


def judge(snapshot: Snapshot) -> list[Section]:
    """Return the findings of all checks, by section, first the one that explains others; none without a finding."""
    titles = list(WITHOUT_INSTALLATION if installed.is_absent(snapshot) else CHECKS)
    if snapshot.asked is not None:
        titles.sort(key=lambda title: title not in ANSWERS)
    sections = [Section(title, bounded([*_found_by(title, snapshot), *_not_seen(snapshot, title)])) for title in titles]
    return _causes_first(snapshot, [one for one in sections if one.findings])


def _found_by(title: str, snapshot: Snapshot) -> list[Diagnosis]:
    """Return what a check has found; nothing if it raises for another reason than an object that it can name."""
    with snapshot.left_out.around("the check", {"metadata": {"name": title}}):
        return [*CHECKS[title](snapshot)]
    return []


def _not_seen(snapshot: Snapshot, title: str) -> Iterator[Diagnosis]:
    """Yield a warning for what a check needs and the user may not read, and for each other error of reading."""
    unread = [one for one in dict.fromkeys(snapshot.unread) if one.section == title]
    lacking = [one for one in unread if one.right]
    if lacking:
        fix = "; ".join(f"kubectl auth can-i {one.right.partition(' (')[0]}" for one in lacking)
        what = f"not looked at, because you lack the right to {', '.join(one.right for one in lacking)}"
        fix = f"{fix.replace(' in namespace ', ' -n ')}   # an admin grants it"
        yield warning(", ".join(one.what for one in lacking), what, fix)
    for one in unread:
        if not one.right:
            yield warning(one.what, f"not looked at: {one.why}", "kubectl get --raw /readyz?verbose")
    if title in snapshot.cut:
        yield warning(title, snapshot.cut[title], "retry-policy doctor -n NAMESPACE")
