"""Find whether a pod requires capacity that is set aside: neither spot nor on-demand, such as a reservation.

Reads spec.nodeSelector, spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution and annotations. The
types of these fields have been checked; any of them may be absent or null. Nodes of spot and on-demand pools have none
of these labels, so a requirement of spot or on-demand nodes has no use beside them.
"""

from collections.abc import Sequence
from typing import Final

from webhook.capacity.contradictions import in_every_term
from webhook.capacity.provider import Labels
from webhook.objects.problem import Json, Path

# Labels of nodes with reserved capacity, each with the values that do not mean reserved capacity.
# GKE: flex-start VMs, those of queued provisioning, and reservations (consuming-reservations in its manual;
# FlexStartLabel in GKE's own autoscaler; xpk and axlearn select a reservation by its name alone). Karpenter on AWS and
# EKS Auto Mode: capacity reservations and capacity blocks (odcrs in Karpenter's manual, auto-odcr in EKS'). Their
# capacity-type `reserved`, and EKS' CAPACITY_BLOCK, are on-demand in the table of providers: a pod that requires them
# excludes spot nodes. No label of AKS for its capacity reservation groups was found.
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
# The nodes of a ProvisioningRequest are created for the pods of its template, which has no injected node affinity.
# Kueue writes the annotation (ProvisioningRequestPodAnnotationKey in cluster-autoscaler/apis, and its former name).
ANNOTATIONS: Final = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)


def set_aside(pod_spec: Json, annotations: Json) -> Path | None:
    """Return the path of the annotation, node selector key or expression that requires such capacity; or None."""
    for key in ANNOTATIONS:
        if key in annotations:
            return ("metadata", "annotations", key)
    for key, value in (pod_spec.get("nodeSelector") or {}).items():
        if key in LABELS and value not in LABELS[key]:
            return ("spec", "nodeSelector", key)
    return in_every_term(pod_spec, requiring) if pod_spec.get("affinity") else None


def requiring(expressions: Sequence[Json]) -> int | None:
    """Return the index of a term's first expression that requires such capacity; None if there is none."""
    for position, expression in enumerate(expressions):
        others = LABELS.get(expression.get("key") or "")
        if others is None:
            continue
        operator, values = expression.get("operator"), expression.get("values") or ()
        if operator == "Exists" or (operator == "In" and not set(values) & set(others)):
            return position
    return None
