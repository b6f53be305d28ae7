"""A device of a node, as published by a driver of dynamic resource allocation, for the pods of one test."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

DRIVER = "retry-policy-test.example.com"
CLAIM = "gpu"
OLDEST_WITH_TAINTS = 36  # minor version of Kubernetes whose feature gate DRADeviceTaints is on by default


class Device:
    """A device of one node; device, class and pool have the node's name."""

    def __init__(self, kubectl: Kubectl, node: str) -> None:
        self.kubectl = kubectl
        self.node = node

    def publish(self, *taints: Object) -> None:
        """Create the ResourceSlice or replace it, with these taints on the device."""
        device = {"name": "gpu-0", **({"taints": list(taints)} if taints else {})}
        pool = {"name": self.node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": self.node, "devices": [device]}
        self.kubectl.apply(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": self.node},
                "spec": spec,
            }
        )

    def break_down(self) -> None:
        """Taint the device like its driver when the device fails: pods that use it are ended."""
        self.publish({"key": "broken", "effect": "NoExecute"})

    def claimed_by(self, team: Namespace, job: Object) -> Object:
        """Create a claim on the device; return a Job whose pods need it."""
        request = {"name": "one", "exactly": {"deviceClassName": self.node}}
        team.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": CLAIM},
                "spec": {"devices": {"requests": [request]}},
            }
        )
        spec = job["spec"]["template"]["spec"]
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": CLAIM}]
        return job


@contextmanager
def own_device(kubectl: Kubectl, node: str) -> Iterator[Device]:
    """Publish a device on a node, and remove it at the end."""
    device = Device(kubectl, node)
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    kubectl.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": node},
            "spec": {"selectors": [selector]},
        }
    )
    try:
        device.publish()
        yield device
    finally:
        kubectl.run("delete", f"resourceslice/{node}", f"deviceclass/{node}", "--ignore-not-found", "--wait=false")


def minor_version(kubectl: Kubectl) -> int:
    """Return the minor version of Kubernetes: 37 for 1.37."""
    version: Object = json.loads(kubectl.run("get", "--raw", "/version").stdout)
    return int(str(version["minor"]).rstrip("+"))
