"""All objects that a policy is exported to."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from webhook.export import creation, limits, placement
from webhook.export.objects import Envelope, mutating, validating
from webhook.kinds import KINDS, KindSpec, core
from webhook.objects.problem import Json
from webhook.policy.model import Policy

LIMITS: Final = "{kind}: refuses more retries than the profile of the namespace allows. Written by retry-policy export."
CREATION: Final = (
    "{kind}: sets retries, and what else the profile of the namespace sets at creation, as far as CEL can."
)
PLACEMENT: Final = "Pods: places those whose nodes do not depend on the attempt. Written by retry-policy export."


class Versions(NamedTuple):
    """The versions of the API in a version of Kubernetes; `mutating` is empty if it has no mutating policies."""

    mutating: str
    note: str = ""


# From the minor version of Kubernetes on.
MUTATING_VERSIONS: Final = {
    36: Versions("v1"),
    34: Versions(
        "v1beta1",
        "MutatingAdmissionPolicy is off by default in 1.34 and 1.35: start the API server with"
        " --feature-gates=MutatingAdmissionPolicy=true and --runtime-config=admissionregistration.k8s.io/v1beta1=true",
    ),
    33: Versions("", "before 1.34 there is no MutatingAdmissionPolicy v1beta1: nothing is set, only limits hold"),
}
OLDEST: Final = min(MUTATING_VERSIONS)


def versions_in(minor: int) -> Versions | None:
    """Return the versions of the API in Kubernetes 1.MINOR; None if it lacks what the expressions use."""
    known = [first for first in MUTATING_VERSIONS if first <= minor]
    return MUTATING_VERSIONS[max(known)] if known else None


def objects(policy: Policy, versions: Versions) -> Iterator[Json]:
    """Yield the admission policies of a policy, and their bindings."""
    for row in (core.POD, *(row for row in KINDS.values() if row.admitted)):
        yield from validating(envelope("limits", row, policy, LIMITS, "v1"), limits.spec(row, policy))
        if versions.mutating and creation.edits_something(row):
            of_kind = envelope("creation", row, policy, CREATION, versions.mutating)
            yield from mutating(of_kind, creation.spec(row, policy))
    if versions.mutating and placement.is_of_a_profile(policy):
        of_pods = envelope("placement", core.POD, policy, PLACEMENT, versions.mutating)
        yield from mutating(of_pods, placement.spec(policy))


def envelope(purpose: str, row: KindSpec, policy: Policy, description: str, version: str) -> Envelope:
    """Return the envelope of the admission policy of a kind."""
    return Envelope(
        purpose=purpose, row=row, policy=policy, description=description.format(kind=row.kind), version=version
    )
