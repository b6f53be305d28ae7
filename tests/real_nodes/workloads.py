"""Jobs whose pods run a script of a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cluster.real_nodes.images import SHELL
from tests.cluster.real_nodes.node import RESERVED

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

# A shell that is process 1 ignores SIGTERM unless it has a trap for it.
UNTIL_SIGTERM = "trap 'exit 143' TERM; while :; do sleep 1 & wait; done"
FOR_EVER = "while :; do sleep 1; done"


def container(script: str, name: str = "main", **fields: Any) -> Object:
    return {
        "name": name,
        "image": SHELL,
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        **fields,
    }


def job(script: str | Object, name: str = "train", *, pod: Object | None = None, **spec: Any) -> Object:
    """Return a Job of a script, or of a container; `pod`: further fields of its pods' spec."""
    main = container(script) if isinstance(script, str) else script
    # The grace period of Kubernetes is 30 s: so long each pod would take that does not end by SIGTERM.
    of_pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [main], **(pod or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": {"spec": of_pod}},
    }


def preferring(node: str) -> Object:
    """Return what lets a pod run on a reserved node as long as that takes pods, and then on any other."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        "tolerations": [{"key": RESERVED, "operator": "Equal", "value": node, "effect": "NoSchedule"}],
    }


def on_node(node: str) -> Object:
    """Return what binds a pod to a reserved node: its kubelet decides whether it takes it."""
    return {"nodeName": node, "tolerations": preferring(node)["tolerations"]}


def running(team: Namespace, name: str = "train", *, but: Object | None = None) -> Object:
    """Return the pod of a Job as soon as it runs, without the known pod `but`."""
    (found,) = team.running(name, 1, but=but)
    return found
