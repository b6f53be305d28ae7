"""Finds the section whose problem explains those of other sections, so that it is printed first. Pure."""

from collections.abc import Iterator

from webhook.doctor.checks.installed import is_without_server
from webhook.doctor.finding import Section
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


def causes_first(snapshot: Snapshot, sections: list[Section]) -> list[Section]:
    """Return the sections, first the one that explains the others if there are several with problems."""
    wrong = [one.title for one in sections if any(finding.status == "problem" for finding in one.findings)]
    if len(wrong) < 2:  # noqa: PLR2004 - a single one explains nothing else
        return sections
    first = next((title for title in causes(snapshot) if title in wrong), None)
    return sorted(sections, key=lambda one: one.title != first)
