"""Two node pools, spot and on-demand, like those of GKE; KWOK simulates their kubelets.

On any cluster only pods of tests run on these nodes: every node has the label
`kwok.x-k8s.io/node: fake`, and on a cluster that is not ours a taint of the same key and value; test manifests carry
PLACEMENT, a node selector and a toleration for the two (`manifests.job` puts them in). On our own control plane there
are no other nodes and there is no taint, so a manifest without them runs as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.control_plane import WHILE_WAITING
from tests.cluster.processes import HarnessError
from tests.documents import document_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.processes import Processes

STAGES = Path(__file__).parent / "stages"
MARK = "kwok.x-k8s.io/node"
SPOT = "cloud.google.com/gke-spot"
POOL = "cloud.google.com/gke-nodepool"
NODES_PER_POOL = 3
PLACEMENT: Mapping[str, Any] = {
    "nodeSelector": {MARK: "fake"},
    "tolerations": [{"key": MARK, "operator": "Equal", "value": "fake", "effect": "NoSchedule"}],
}
USER = "kwok"
POLICY = "kwok-does-as-a-kubelet"
# KWOK plays a stage on the pod of an earlier event, by its name alone. On a busy machine it is late: it would delete
# the next pod of that name, start a running pod again, and end an ended one. A kubelet does none of that.
DOES_AS_A_KUBELET: Mapping[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": POLICY},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]},
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/status"]},
            ]
        },
        "matchConditions": [
            {"name": "by-kwok", "expression": f"request.userInfo.username == {USER!r}"},
            {
                "name": "not-as-a-kubelet",
                "expression": "request.operation == 'DELETE' ? !has(oldObject.metadata.deletionTimestamp)"
                " : oldObject.status.phase in ['Failed', 'Succeeded'] || has(oldObject.status.startTime)"
                " && object.status.?startTime.orValue(null) != oldObject.status.startTime",
            },
        ],
        "validations": [{"expression": "false"}],
    },
}
BINDING: Mapping[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": POLICY},
    "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
}


def start(binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, *, foreign: bool) -> None:
    """Start KWOK, create the nodes, and wait until they are Ready."""
    kubectl.apply({"apiVersion": "v1", "kind": "List", "items": [DOES_AS_A_KUBELET, BINDING]})
    kubeconfig = document_of(kubectl.kubeconfig.read_text())
    for one in kubeconfig["users"]:
        one["user"] |= {"as": USER, "as-groups": ["system:masters"]}
    of_kwok = kubectl.kubeconfig.with_name("kwok.kubeconfig")
    of_kwok.write_text(json.dumps(kubeconfig))
    processes.start(
        "kwok",
        [
            binaries["kwok"],
            f"--kubeconfig={of_kwok}",
            "--node-lease-duration-seconds=40",  # like a kubelet; without a lease the nodes become not ready
            f"--manage-nodes-with-annotation-selector={MARK}=fake",
            f"--config={STAGES / 'node.yaml'}",
            f"--config={STAGES / 'pod.yaml'}",
        ],
    )
    nodes = [
        _node(pool, f"{pool}-{number}", foreign=foreign)
        for pool in ("spot", "on-demand")
        for number in range(NODES_PER_POOL)
    ]
    created = kubectl.run("create", "--filename=-", stdin={"apiVersion": "v1", "kind": "List", "items": nodes})
    if created.returncode:
        raise HarnessError(created.stderr)
    waiting = ("wait", "node", f"--selector={MARK}=fake", "--for=condition=Ready", WHILE_WAITING)
    processes.wait_until(lambda: kubectl.run(*waiting).returncode == 0, "the nodes to be Ready", log="kwok")


def remove(kubectl: Kubectl) -> None:
    """Delete the nodes and what was created for KWOK, in a cluster that is not this run's own."""
    for one in (BINDING, DOES_AS_A_KUBELET):
        kubectl.run("delete", str(one["kind"]), str(one["metadata"]["name"]), "--ignore-not-found")
    kubectl.run("delete", "node", f"--selector={MARK}=fake", "--wait=false")


def own_node(name: str, *, spot: bool) -> dict[str, Any]:
    """Return a node of a pool, with this name."""
    return _node("spot" if spot else "on-demand", name, foreign=False)


def _node(pool: str, name: str, *, foreign: bool) -> dict[str, Any]:
    spot = pool == "spot"
    taints = [(SPOT, "true")] * spot + [(MARK, "fake")] * foreign
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {MARK: "fake"},
            "labels": {
                MARK: "fake",
                POOL: pool,
                **({SPOT: "true"} if spot else {}),
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "n2-standard-64",
                "topology.kubernetes.io/region": "europe-west1",
                "topology.kubernetes.io/zone": "europe-west1-b",
            },
        },
        "spec": {
            "providerID": f"gce://test/europe-west1-b/{name}",
            "taints": [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in taints],
        },
    }
