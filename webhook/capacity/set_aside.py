"""Whether a pod asks for capacity that is set aside for it: neither spot, nor to be had on demand.

Reads spec.nodeSelector, spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution and annotations.
Types have been checked before; anything may be absent or null. No node that a pool of spot or on-demand nodes makes has
such a label, so any requirement beside it is needless at best.
"""

from collections.abc import Sequence
from typing import Final

from webhook.capacity.contradictions import TERMS, terms
from webhook.capacity.provider import Labels
from webhook.objects.problem import Json, Path

# Node labels, each with the values that do not ask for such capacity.
# GKE: flex-start VMs, those of queued provisioning, and reservations (consuming-reservations in its manual;
# FlexStartLabel in GKE's own autoscaler; xpk and axlearn select a reservation by its name alone). Karpenter on AWS and
# EKS Auto Mode: capacity reservations and capacity blocks (odcrs in Karpenter's manual, auto-odcr in EKS'). Their
# capacity-type `reserved`, and EKS' CAPACITY_BLOCK, are on-demand in the table of providers: a pod that asks for them
# refuses spot. No label of AKS for its capacity reservation groups was found.
LABELS: Final[Labels] = {
    "cloud.google.com/gke-flex-start": ("false",),
    "cloud.google.com/gke-queued": ("false",),
    "cloud.google.com/reservation-affinity": ("none",),
    "cloud.google.com/reservation-blocks": (),
    "cloud.google.com/reservation-name": (),
    "cloud.google.com/reservation-project": (),
    "cloud.google.com/reservation-subblocks": (),
    "eks.amazonaws.com/capacity-reservation-id": (),
    "eks.amazonaws.com/capacity-reservation-type": (),
    "karpenter.k8s.aws/capacity-reservation-id": (),
    "karpenter.k8s.aws/capacity-reservation-type": (),
}
# The nodes of a ProvisioningRequest are made for the pods of its template, which has no term of ours
# (ProvisioningRequestPodAnnotationKey in cluster-autoscaler/apis, and what it was before; Kueue writes it).
ANNOTATIONS: Final = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)


def set_aside(pod_spec: Json, annotations: Json) -> Path | None:
    """Return the annotation, node selector key or expression that asks for such capacity; None if nothing does."""
    for key in ANNOTATIONS:
        if key in annotations:
            return ("metadata", "annotations", key)
    for key, value in (pod_spec.get("nodeSelector") or {}).items():
        if key in LABELS and value not in LABELS[key]:
            return ("spec", "nodeSelector", key)
    return in_every_term(pod_spec) if pod_spec.get("affinity") else None


def in_every_term(pod_spec: Json) -> Path | None:
    """Return the first of the expressions in every required term that ask for it: terms are ORed."""
    first = None
    for index, expressions in terms(pod_spec):
        position = asking(expressions)
        if position is None:
            return None
        first = first or (*TERMS, index, "matchExpressions", position)
    return first


def asking(expressions: Sequence[Json]) -> int | None:
    """Return which of a term's expressions asks for it; None if none does."""
    for position, expression in enumerate(expressions):
        others = LABELS.get(expression.get("key") or "")
        if others is None:
            continue
        operator, values = expression.get("operator"), expression.get("values") or ()
        if operator == "Exists" or (operator == "In" and not set(values) & set(others)):
            return position
    return None
