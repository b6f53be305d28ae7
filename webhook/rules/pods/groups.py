"""Finds out whether a pod is scheduled together with others, so that it cannot go to another kind of node alone.

Reads:
    metadata.labels, metadata.annotations: the groups of gang schedulers
    metadata.labels[jobset.sigs.k8s.io/job-restart-attempt]
    spec.{schedulingGroup,workloadRef}, spec.resourceClaims[*].resourceClaimName

All pods of a group must be alike: Kubernetes does not promise to place one that differs (KEP-4671), and if one pod of a
gang finds no node, none of them starts.
"""

from typing import Final

from webhook.objects.problem import Json
from webhook.systems.job_set.spec import JOB_RESTART
from webhook.systems.pods import OF_GROUPS

# Kueue; coscheduling (scheduler-plugins) with its current and two older keys, which Koordinator reads too.
LABELS: Final = frozenset(
    {
        "kueue.x-k8s.io/pod-group-name",
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
        "pod-group.scheduling.sigs.k8s.io/name",
    }
)
# Volcano, which writes both; YuniKorn; Koordinator; KAI. Kueue's serving groups have the annotation alone.
ANNOTATIONS: Final = frozenset(
    {
        "gang.scheduling.koordinator.sh/name",
        "kueue.x-k8s.io/pod-group-name",
        "pod-group-name",
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-name",
        "yunikorn.apache.org/task-group-name",
    }
)
# The group's name in the Workload API: of Kubernetes 1.36 and later, and of 1.35.
FIELDS: Final = ("schedulingGroup", "workloadRef")


def is_grouped(pod: Json) -> bool:
    """Return True if a pod names a group with which it is scheduled."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if not LABELS.isdisjoint(metadata.get("labels") or {}):
        return True
    return not ANNOTATIONS.isdisjoint(metadata.get("annotations") or {}) or any(map(spec.get, FIELDS))


def moves_as_one(pod: Json, source: str) -> bool:
    """Return True if a source has the same attempt for all pods of a pod's group.

    A JobSet's has not for a Job that was restarted alone.
    """
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return source in OF_GROUPS and labels.get(JOB_RESTART) in {None, "0"}


def has_named_claim(pod_spec: Json) -> bool:
    """Return True if a pod uses a ResourceClaim by its name, whose devices may be allocated on one node already.

    A claim that is made from a template is allocated for each pod.
    """
    return any(claim.get("resourceClaimName") for claim in pod_spec.get("resourceClaims") or ())
