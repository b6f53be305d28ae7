"""v1: Pods, and the pod fields that rules read in templates too."""

from typing import Final

from webhook.kinds.kind_spec import KindSpec
from webhook.objects.shape import ANY_KEY, Shape

NODE_SELECTOR_TERM: Final[Shape] = {
    "matchExpressions": [{"key": str, "operator": str, "values": [str]}],
    "matchFields": [{}],
}

METADATA: Final[Shape] = {
    "name": str,
    "annotations": {ANY_KEY: str},
    "labels": {ANY_KEY: str},
    "deletionTimestamp": str,
    "ownerReferences": [{"apiVersion": str, "kind": str, "name": str, "uid": str, "controller": bool}],
}

# An object of any kind that stands in another: what else is read of it, its own row says.
OBJECT: Final[Shape] = {"apiVersion": str, "kind": str, "metadata": METADATA}

CONTAINER: Final[Shape] = {"name": str, "restartPolicy": str, "restartPolicyRules": [{"action": str}]}

# What rules read in a pod template outside JobSpecs.
POD_TEMPLATE: Final[Shape] = {
    "metadata": {"annotations": {ANY_KEY: str}},
    "spec": {"containers": [CONTAINER], "initContainers": [CONTAINER]},
}

REQUIRED: Final[Shape] = {"nodeSelectorTerms": [NODE_SELECTOR_TERM]}

# What rules read in the pod template of a JobSpec of the nodes that it may run on.
NODE_CHOICE: Final[dict[str, Shape]] = {
    "nodeSelector": {ANY_KEY: str},
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": REQUIRED}},
}

POD_SPEC: Final[Shape] = {
    "nodeName": str,
    "nodeSelector": {ANY_KEY: str},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": REQUIRED,
            "preferredDuringSchedulingIgnoredDuringExecution": [{"preference": NODE_SELECTOR_TERM, "weight": int}],
        }
    },
    "tolerations": [{"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}],
    "schedulingGates": [{"name": str}],
    "schedulingGroup": {},
    "workloadRef": {},
    "resourceClaims": [{"resourceClaimName": str}],
}

POD: Final = KindSpec(
    group="",
    versions=("v1",),
    kind="Pod",
    resource="pods",
    admitted=False,  # not as a workload: by entries of its own
    shape={"metadata": METADATA, "spec": POD_SPEC},
)
