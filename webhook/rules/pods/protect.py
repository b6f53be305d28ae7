"""Asks the node autoscaler not to remove the node of a pod: on-demand, its attempt is paid for, and is often the last.

Writes, where absent:
    metadata.annotations[karpenter.sh/do-not-disrupt]
    metadata.annotations[cluster-autoscaler.kubernetes.io/safe-to-evict]

Both end with the pod: a node is free to go once its protected pods have ended.
"""

from typing import Final

from webhook.objects.patch import Editor, Pattern
from webhook.objects.problem import Json
from webhook.rules.annotations import OWN

# Karpenter, and GKE, EKS and AKS with it; the Cluster Autoscaler, and those that read its annotation.
PROTECTION: Final = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
WRITES: Final[tuple[Pattern, ...]] = tuple((*OWN, key) for key in PROTECTION)


def edit(said: Json, editor: Editor) -> None:
    """Add the annotations that a pod lacks; `said`: those that it has. What its author wrote stays."""
    editor.update(OWN, {key: value for key, value in PROTECTION.items() if key not in said})
