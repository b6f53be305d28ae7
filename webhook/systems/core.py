"""v1: Pods, and the shapes of the metadata, container and node affinity fields that rules read in templates too."""

from typing import Final

from webhook.objects.shape import ANY_KEY, Shape
from webhook.systems.kind_spec import KindSpec

PARTS: Final = ("spec",)
# Exit codes of containers that SIGKILL or SIGTERM ended.
KILLED: Final = 137
TERMINATED: Final = 143
SIGNALLED: Final = (KILLED, TERMINATED)

ENDED: Final = ("Succeeded", "Failed")  # the phases of a pod that has ended
DISRUPTED: Final = "DisruptionTarget"  # the condition of a pod that the platform ends

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

# An object of any kind that is embedded in another; its own KindSpec has the shape of its other fields.
OBJECT: Final[Shape] = {"apiVersion": str, "kind": str, "metadata": METADATA}

CONTAINER: Final[Shape] = {
    "name": str,
    "restartPolicy": str,
    "restartPolicyRules": [{"action": str, "exitCodes": {"operator": str, "values": [int]}}],
}

# The fields that rules read in a pod template outside JobSpecs.
POD_TEMPLATE: Final[Shape] = {
    "metadata": {"annotations": {ANY_KEY: str}},
    "spec": {"containers": [CONTAINER], "initContainers": [CONTAINER], "restartPolicy": str},
}

REQUIRED: Final[Shape] = {"nodeSelectorTerms": [NODE_SELECTOR_TERM]}

# The fields by which a pod template restricts its nodes, as rules read them in a JobSpec.
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
    admitted=False,  # Pods have webhook entries of their own
    shape={"metadata": METADATA, "spec": POD_SPEC},
)
KINDS: Final = (POD,)
