"""Recognition of a cluster's provider by its nodes."""

import pytest

from tests.unit.capacity.matcher import meets
from webhook.capacity.provider import off_spot, on_spot
from webhook.capacity.recognition import NodeFacts, provider_named, recognise
from webhook.capacity.table import EKS, GKE, KARPENTER

GKE_NODE = NodeFacts({"cloud.google.com/gke-nodepool": "default"}, "gce://project/zone/gke-c-default-1")
PREEMPTIBLE_NODE = NodeFacts(
    {"cloud.google.com/gke-nodepool": "batch", "cloud.google.com/gke-preemptible": "true"},
    "gce://project/zone/gke-c-batch-1",
)
MANAGED_NODE = NodeFacts(
    {"eks.amazonaws.com/nodegroup": "system", "eks.amazonaws.com/capacityType": "ON_DEMAND"}, "aws:///eu-west-1a/i-1"
)
KARPENTER_NODE = NodeFacts(
    {"karpenter.sh/nodepool": "batch", "karpenter.sh/capacity-type": "spot"}, "aws:///eu-west-1a/i-2"
)
AKS_NODE = NodeFacts({"kubernetes.azure.com/cluster": "MC_a"}, "azure:///subscriptions/s")

CLUSTERS = {
    "gke by its labels": ([GKE_NODE], "gke"),
    "gke by its providerID": ([NodeFacts({}, "gce://project/zone/gke-c-1")], "gke"),
    "gke with preemptible VMs": ([GKE_NODE, PREEMPTIBLE_NODE], "gke+preemptible"),
    "eks managed node group": ([MANAGED_NODE], "eks"),
    "karpenter": ([KARPENTER_NODE], "karpenter"),
    "eks managed node group with karpenter": ([MANAGED_NODE, KARPENTER_NODE], "eks+karpenter"),
    "aks by its labels": ([AKS_NODE], "aks"),
    "aks by its providerID": ([NodeFacts({}, "azure:///subscriptions/s/resourceGroups/r")], "aks"),
    "aks node auto-provisioning": (
        [AKS_NODE, NodeFacts({**AKS_NODE.labels, **KARPENTER_NODE.labels}, "azure:///subscriptions/s")],
        "aks+karpenter",
    ),
    "ocean on eks": ([MANAGED_NODE, NodeFacts({"spotinst.io/node-lifecycle": "od"}, "aws:///a/i-3")], "eks+ocean"),
    "castai on gke": (
        [GKE_NODE, NodeFacts({"provisioner.cast.ai/managed-by": "cast.ai"}, "gce://p/z/n")],
        "castai+gke",
    ),
    "ack by its labels": ([NodeFacts({"ack.aliyun.com": "c1"}, "cn-hangzhou.i-1")], "ack"),
    "ack by its providerID": ([NodeFacts({}, "cn-hangzhou.i-bp1234")], "ack"),
    "ack by its providerID, outside China": ([NodeFacts({}, "alicloud://ap-southeast-1.i-t4n12")], "ack"),
    "openshift on google cloud": ([NodeFacts({"node.openshift.io/os_id": "rhel"}, "gce://p/z/n")], "openshift"),
}


@pytest.mark.parametrize(("nodes", "name"), CLUSTERS.values(), ids=CLUSTERS)
def test_a_cluster_is_recognised_by_its_nodes(nodes: list[NodeFacts], name: str) -> None:
    provider = recognise(nodes, has_karpenter_node_pools=False)
    assert provider is not None
    assert provider.name == name


@pytest.mark.parametrize(
    "node",
    [
        NodeFacts({}),
        NodeFacts({"kubernetes.io/os": "linux"}, "kind://docker/kind/node"),
        NodeFacts({"alpha.eksctl.io/nodegroup-name": "unmanaged"}, "aws:///eu-west-1a/i-4"),
        NodeFacts({"eks.amazonaws.com/compute-type": "fargate"}, "aws:///eu-west-1a/f/fargate-ip-10-0-0-1"),
        NodeFacts({}, "ack-hybrid://123456"),
    ],
)
def test_nodes_without_capacity_labels_are_not_recognised(node: NodeFacts) -> None:
    assert recognise([node], has_karpenter_node_pools=False) is None


def test_a_cluster_without_nodes_is_not_recognised() -> None:
    assert recognise([], has_karpenter_node_pools=False) is None


def test_karpenter_is_recognised_by_its_node_pools() -> None:
    assert recognise([], has_karpenter_node_pools=True) is KARPENTER
    mixed = recognise([MANAGED_NODE], has_karpenter_node_pools=True)
    assert mixed is not None
    assert mixed.name == "eks+karpenter"


@pytest.mark.parametrize("nodes", [[MANAGED_NODE, KARPENTER_NODE], [KARPENTER_NODE, MANAGED_NODE]])
def test_the_order_of_nodes_has_no_effect(nodes: list[NodeFacts]) -> None:
    mixed = recognise(nodes, has_karpenter_node_pools=False)
    assert mixed is not None
    assert on_spot(mixed) == on_spot(KARPENTER)
    assert off_spot(mixed) == off_spot(KARPENTER) + off_spot(EKS)


def test_spot_vms_are_required_on_gke_beside_preemptible_ones() -> None:
    provider = recognise([GKE_NODE, PREEMPTIBLE_NODE], has_karpenter_node_pools=False)
    assert provider is not None
    assert on_spot(provider) == on_spot(GKE)


def test_nodes_can_be_any_iterable() -> None:
    assert recognise(iter([MANAGED_NODE]), has_karpenter_node_pools=False) is EKS


def test_gke_named_in_a_policy_includes_preemptible_vms_if_there_are_such_nodes() -> None:
    without = recognise([GKE_NODE], has_karpenter_node_pools=False)
    with_them = recognise([GKE_NODE, PREEMPTIBLE_NODE], has_karpenter_node_pools=False)
    assert provider_named("gke", None) is GKE
    assert provider_named("gke", without) is GKE
    assert not meets(dict(PREEMPTIBLE_NODE.labels), off_spot(provider_named("gke", with_them)))


def test_any_other_provider_named_in_a_policy_is_used_unchanged() -> None:
    recognised = recognise([GKE_NODE, PREEMPTIBLE_NODE], has_karpenter_node_pools=False)
    assert provider_named("eks", recognised) is EKS
