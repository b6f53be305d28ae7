"""Runs all checks on a Snapshot, in the order in which a person would look. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from webhook.doctor.cause import causes_first
from webhook.doctor.checks import (
    admission,
    asked_object,
    certificates,
    configurations,
    delays,
    installed,
    kinds,
    leader,
    namespaces,
    others,
    permissions,
    placement,
    policy,
)
from webhook.doctor.finding import Finding, Section, bounded, warning
from webhook.doctor.snapshot import Snapshot

CHECKS: Final[dict[str, Callable[[Snapshot], Iterator[Finding]]]] = {
    "Object": asked_object.check,
    "Installation": installed.check,
    "Webhooks": configurations.check,
    "Certificate": certificates.check,
    "Admission": admission.check,
    "Leader": leader.check,
    "Delays": delays.check,
    "Policy": policy.check,
    "Placement": placement.check,
    "Namespaces": namespaces.check,
    "Kinds": kinds.check,
    "Permissions": permissions.check,
    "Others": others.check,
}
WITHOUT_INSTALLATION: Final = (
    "Installation",
    "Delays",
    "Namespaces",
    "Kinds",
)  # that say something if nothing is installed
ANSWERS: Final = ("Object", "Namespaces")  # that come first if the user asks about a namespace or an object


def judge(snapshot: Snapshot) -> list[Section]:
    """Return the findings of all checks, by section, first the one that explains others; none without a finding."""
    titles = list(WITHOUT_INSTALLATION if installed.is_absent(snapshot) else CHECKS)
    if snapshot.asked is not None:
        titles.sort(key=lambda title: title not in ANSWERS)
    sections = [Section(title, bounded([*found_by(title, snapshot), *not_seen(snapshot, title)])) for title in titles]
    return causes_first(snapshot, [one for one in sections if one.findings])


def found_by(title: str, snapshot: Snapshot) -> list[Finding]:
    """Return what a check has found; nothing if it raises for another reason than an object that it can name."""
    with snapshot.left_out.around("the check", {"metadata": {"name": title}}):
        return [*CHECKS[title](snapshot)]
    return []


def not_seen(snapshot: Snapshot, title: str) -> Iterator[Finding]:
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
