"""Real disruptions, each by the part of the control plane that brings it: no status is written by hand."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.cluster.nodes import MARK, own_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

OWN = "retry-policy-test/node"  # label and taint of a node that belongs to one test
CLASS = "retry-policy-test-high"


@contextmanager
def node_of_its_own(kubectl: Kubectl, *, spot: bool = True) -> Iterator[str]:
    """A node where only pods run that `on` sends there."""
    name = f"own-{secrets.token_hex(3)}"
    node = own_node(name, spot=spot)
    node["metadata"]["labels"][OWN] = name
    node["spec"]["taints"].append({"key": OWN, "value": name, "effect": "NoSchedule"})
    kubectl.create(node)
    try:
        yield name
    finally:
        kubectl.run("delete", "node", name, "--ignore-not-found", "--wait=false")


def on(node: str, manifest: Object, *, cpu: str | None = None) -> Object:
    """Send the pods of a Job, or a pod, to a node of a test's own; `cpu` is what each asks for."""
    spec = manifest["spec"]["template"]["spec"] if "template" in manifest["spec"] else manifest["spec"]
    spec["nodeSelector"] = {MARK: "fake", OWN: node}
    spec["tolerations"] = [
        *spec.get("tolerations", []),
        {"key": OWN, "operator": "Equal", "value": node, "effect": "NoSchedule"},
    ]
    if cpu is not None:
        spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return manifest


def evict(team: Namespace, pod: str) -> None:
    answer = team.evict(pod)
    assert answer.returncode == 0, answer.stderr


def taint(kubectl: Kubectl, node: str) -> None:
    """Have the taint manager end all pods of a node, and take the taint away again."""
    told = kubectl.run("taint", "node", node, "maintenance=now:NoExecute")
    assert told.returncode == 0, told.stderr


def untaint(kubectl: Kubectl, node: str) -> None:
    assert kubectl.run("taint", "node", node, "maintenance-").returncode == 0


def preempt(kubectl: Kubectl, team: Namespace, node: str, pod: Object) -> None:
    """Have the scheduler end a pod that takes most of a node for one that comes before it, and goes at once."""
    kubectl.run("create", "priorityclass", CLASS, "--value=1000")  # unless another test has
    name = f"first-{secrets.token_hex(2)}"
    first = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "priorityClassName": CLASS,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.invalid/main"}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    team.create(on(node, first, cpu="40"))
    uid = pod["metadata"]["uid"]
    team.wait_for_all("pods", lambda pods: all(one["metadata"]["uid"] != uid for one in pods))
    team.run("delete", "pod", name, "--force", "--grace-period=0")
