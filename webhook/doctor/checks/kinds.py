"""Checks the kinds of the cluster: which of them the webhook handles, and in which versions. Pure."""

from collections.abc import Iterator

from webhook.doctor.finding import Finding, ok, problem, warning
from webhook.doctor.snapshot import Snapshot
from webhook.objects.problem import listed
from webhook.systems.job_set.spec import JOB_SET, features_of
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS


def check(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the kinds that are there, and those of which only unknown versions are served."""
    if snapshot.kinds is None:
        return
    handled = []
    for row in KINDS.values():
        served = snapshot.kinds.get((row.group, row.resource), [])
        if not served or not row.admitted:
            continue
        if set(served) & set(row.versions):
            handled.append(row.kind)
        else:
            yield unknown_version(row, served)
    yield from job_sets(snapshot)
    yield ok("Kinds", f"handled in this cluster: {listed(list(dict.fromkeys(handled)))}")


def unknown_version(row: KindSpec, served: list[str]) -> Finding:
    """Return the problem that no version of a kind is served that the webhook knows."""
    name = f"{row.resource}.{row.group}"
    what = f"is served only as {listed(served)}, and the webhook knows {listed(list(row.versions))}: it is not called"
    return problem(
        f"CustomResourceDefinition {name}", f"{what}; upgrade the operator", f"kubectl get crd {name} -o yaml"
    )


def job_sets(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a warning if the CRD of JobSets is too old for the rules that a disruption needs."""
    for crd in snapshot.job_set_crd or ():
        served = snapshot.kinds is not None and set(JOB_SET.versions) & set(
            snapshot.kinds.get((JOB_SET.group, JOB_SET.resource), ())
        )
        if served and not features_of(crd).message_patterns:
            name = crd["metadata"]["name"]
            what = "is older than JobSet 0.10 (no onJobFailureMessagePatterns): a disruption replaces only the pod"
            yield warning(
                f"CustomResourceDefinition {name}", f"{what}; upgrade JobSet", f"kubectl get crd {name} -o yaml"
            )
