"""Real disruptions, each caused by a component of the control plane: no status is written by the tests."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tests.awaiting import until
from tests.cluster.kubectl import KubectlError
from tests.cluster.namespace import Api
from tests.cluster.nodes import MARK, own_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

NODES = "api/v1/nodes"
OWN = "retry-policy-test/own"  # label and taint of nodes that belong to one test
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CLASS = "retry-policy-test-high"


class OwnNodes:
    """Nodes on which only those pods run that `on` places there."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.name = f"own-{secrets.token_hex(3)}"
        self.nodes: list[str] = []

    def add(self, *, spot: bool = True, zone: str | None = None) -> str:
        """Add a node and return its name once it takes pods; `zone`: the end of its zone's name, only of this test."""
        name = self.create(spot=spot, zone=zone)
        until(lambda: all(takes_pods(node) for node in self.found() if node["metadata"]["name"] == name))
        return name

    def create(self, *, spot: bool, zone: str | None = None) -> str:
        """Add a node as `add` does, and return its name at once."""
        name = f"{self.name}-{'spot' if spot else 'on-demand'}-{len(self.nodes)}"
        node = own_node(name, spot=spot)
        node["metadata"]["labels"][OWN] = self.name
        if zone is not None:
            node["metadata"]["labels"][ZONE] = f"{self.name}-{zone}"
        node["spec"]["taints"].append({"key": OWN, "value": self.name, "effect": "NoSchedule"})
        self.api.create(NODES, node)
        self.nodes.append(name)
        return name

    def found(self) -> list[Object]:
        """Return the nodes, as the API server has them."""
        found: list[Object] = self.api.list(NODES, labelSelector=f"{OWN}={self.name}")["items"]
        return found

    def remove(self) -> None:
        """Delete the nodes."""
        self.api.send("DELETE", NODES, labelSelector=f"{OWN}={self.name}")


def takes_pods(node: Object) -> bool:
    """Return True once nothing but the taints of its pool keeps pods away: a new node is tainted until it is ready."""
    return not any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints") or ())


@contextmanager
def own_nodes(kubectl: Kubectl, *, spot: int = 0, on_demand: int = 0) -> Iterator[OwnNodes]:
    """Yield nodes of both pools for one test, and delete them at its end."""
    nodes = OwnNodes(Api.connect(kubectl.kubeconfig))
    try:
        for is_spot in (True,) * spot + (False,) * on_demand:
            nodes.create(spot=is_spot)
        until(lambda: all(map(takes_pods, nodes.found())))
        yield nodes
    finally:
        nodes.remove()
        nodes.api.close()


def on(nodes: OwnNodes, manifest: Object, *, cpu: str | None = None) -> Object:
    """Place the pods of a Job on a test's own nodes; `cpu` is the request of each."""
    spec = manifest["spec"]["template"]["spec"]
    place(nodes, spec)
    if cpu is not None:
        spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return manifest


def place(nodes: OwnNodes, spec: Object) -> None:
    """Place pods with this spec on a test's own nodes."""
    spec["nodeSelector"] = {MARK: "fake", OWN: nodes.name}
    spec["tolerations"] = [
        *spec.get("tolerations", []),
        {"key": OWN, "operator": "Equal", "value": nodes.name, "effect": "NoSchedule"},
    ]


def taint(kubectl: Kubectl, node: str) -> None:
    """Taint a node, so that the taint manager ends all of its pods."""
    tainted = kubectl.run("taint", "node", node, "maintenance=now:NoExecute")
    assert tainted.returncode == 0, tainted.stderr


def untaint(kubectl: Kubectl, node: str) -> None:
    assert kubectl.run("taint", "node", node, "maintenance-").returncode == 0


def delete(kubectl: Kubectl, node: str) -> None:
    """Delete a Node, as a cloud does when its machine no longer exists."""
    deleted = kubectl.run("delete", "node", node, "--wait=false")
    assert deleted.returncode == 0, deleted.stderr


def cordon(kubectl: Kubectl, node: str) -> None:
    assert kubectl.run("cordon", node).returncode == 0


def preempt(kubectl: Kubectl, team: Namespace, *pods: Object, cpu: str = "40") -> None:
    """Let the scheduler preempt pods that use most of a node, for a pod of higher priority that ends at once."""
    kubectl.run("create", "priorityclass", CLASS, "--value=1000")  # it may exist already
    name = f"first-{secrets.token_hex(2)}"
    first = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "priorityClassName": CLASS,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.invalid/main", "resources": {"requests": {"cpu": cpu}}}],
            "nodeSelector": {HOSTNAME: pods[0]["spec"]["nodeName"]},
            "tolerations": [{"operator": "Exists"}],
        },
    }
    until(partial(is_admitted, team, first))
    ended = {pod["metadata"]["uid"] for pod in pods}
    team.wait_for_all("pods", lambda pods: all(one["metadata"]["uid"] not in ended for one in pods))
    team.run("delete", "pod", name, "--force", "--grace-period=0")


def is_admitted(team: Namespace, pod: Object) -> bool:
    """Create a pod; return True if admission knows its priority class already."""
    try:
        team.create(pod)
    except KubectlError as error:
        if "no PriorityClass" not in str(error):
            raise
        return False
    return True
