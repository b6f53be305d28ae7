"""Tells whether a fault of its node or of a device explains the crash of a pod. Pure.

A program that loses its GPU, its disk or its network ends with a code of its own, most often 1. The kubelet says of a
device that it is unhealthy (`allocatedResourcesStatus`, KEP-4680, on by default since Kubernetes 1.36); a problem
detector says the rest in the conditions and taints of the Node. Both may come seconds after the crash, and are gone
with the node, so the account keeps the fact by which a crash was judged.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.objects.times import seconds
from webhook.policy.criteria import is_like
from webhook.policy.model import Hardware

# The fields of a container's status and of a Node that are decoded.
DEVICES_READ: Final[dict[str, Shape]] = {
    "allocatedResourcesStatus": [{"name": str, "resources": [{"resourceID": str, "health": str}]}]
}
NODE_READ: Final[Shape] = {
    "metadata": {"name": str, "creationTimestamp": str},
    "spec": {"taints": [{"key": str}]},
    "status": {"conditions": [dict.fromkeys(("type", "status", "reason"), str)]},
}
# Bounds on what is looked at: users may write a pod's status.
MOST_CONTAINERS: Final = 200
MOST_DEVICES: Final = 200  # of a container
MOST_FACTS: Final = 200  # conditions or taints of a node
LONGEST: Final = 100  # characters of a fact; an account keeps 128 bytes
READY: Final = "Ready"
GONE: Final = "the node is gone"
OF_READY: Final = f"condition {READY} "


def fault_of_devices(statuses: list[Json]) -> str:
    """Return which device of a pod's containers is unhealthy, by the status of the containers; empty if none is."""
    return next(_unhealthy(statuses), "")[:LONGEST]


def _unhealthy(statuses: list[Json]) -> Iterator[str]:
    for status in islice(statuses, MOST_CONTAINERS):
        for resource in islice(status.get("allocatedResourcesStatus") or (), MOST_DEVICES):
            for device in islice(resource.get("resources") or (), MOST_DEVICES):
                if device.get("health") == "Unhealthy":
                    yield f"device {device.get('resourceID')} of {resource.get('name')} is unhealthy"


def fault_of_node(node: Json | None, hardware: Hardware, ended: str = "") -> str:
    """Return a fault of a Node, decoded as NODE_READ; empty if it has none. None: it does not exist.

    A fault of the machine goes before a node that is not ready: it may have ended the kubelet too.
    `ended`: when a pod ended there, RFC 3339. If the Node was created later, it is another one of that name.
    """
    if node is None:
        return GONE
    created, end = seconds((node.get("metadata") or {}).get("creationTimestamp")), seconds(ended)
    if created is not None and end is not None and created > end:
        return GONE
    return max(_faults(node, hardware), key=is_of_machine, default="")[:LONGEST]


def is_of_machine(fault: str) -> bool:
    """Return True if a fault tells of the machine: a node that is gone or not ready may be reclaimed, or updated."""
    return fault != GONE and not fault.startswith(OF_READY)


def _faults(node: Json, hardware: Hardware) -> Iterator[str]:
    for one in islice((node.get("status") or {}).get("conditions") or (), MOST_FACTS):
        kind, status = one.get("type") or "", one.get("status")
        is_told = kind == READY or any(is_like(kind, pattern) for pattern in hardware.conditions)
        if is_told and (status != "True" if kind.endswith(READY) else status == "True"):
            reason = one.get("reason")
            yield f"condition {kind} is {status}" + (f" ({reason})" if reason else "")
    for one in islice((node.get("spec") or {}).get("taints") or (), MOST_FACTS):
        key = one.get("key") or ""
        if any(is_like(key, pattern) for pattern in hardware.taints):
            yield f"taint {key}"
