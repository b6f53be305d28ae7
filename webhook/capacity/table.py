"""The known providers, and the evidence for each label.

"Seen": on a real node, or in the vendor's code. "Documented": on a page of the vendor. What is not verified says so.
A new provider is a Provider here, its place in `ROWS`, and its nodes in the test.
"""

import re
from dataclasses import replace
from typing import Final

from webhook.capacity.provider import PRESENCE, Provider, combine

KARPENTER: Final = Provider(
    name="karpenter",
    spot_labels={"karpenter.sh/capacity-type": ("spot",)},
    # The well-known values in Karpenter's pkg/apis/v1/labels.go. EKS Auto Mode and AKS node auto-provisioning are
    # Karpenter too and label the same. Taints come from the NodePool alone.
    on_demand_labels={"karpenter.sh/capacity-type": ("on-demand", "reserved")},
    node_labels=("karpenter.sh/nodepool", "karpenter.sh/capacity-type"),
)

# Every node that Ocean launches has the key (documented, also as a topology key that distinguishes spot from on-demand
# nodes), and public code reads the value `spot` from it: so NotIn keeps the scheduler off spot nodes. According to the
# same pages, affinity to `spot` is not supported, so none is injected, and Ocean launches a spot node for every pod
# without affinity to `od`. So that affinity is injected beside NotIn: as a preference, as in the vendor's
# wave-operator, because as a requirement it would exclude on-demand nodes that Ocean did not launch. Not verified:
# whether Ocean's autoscaler respects NotIn alone.
OCEAN: Final = Provider(
    name="ocean",
    spot_labels={"spotinst.io/node-lifecycle": ("spot",)},
    on_demand_labels={"spotinst.io/node-lifecycle": ("od",)},
    preferred=(),
    preferred_on_demand=("spotinst.io/node-lifecycle",),
    node_labels=("spotinst.io/node-lifecycle",),
)

# Documented: a node of Cast AI has one of the two labels, any other node has neither.
CASTAI: Final = Provider(
    name="castai",
    spot_labels={"scheduling.cast.ai/spot": ("true",)},
    on_demand_labels={"scheduling.cast.ai/on-demand": ("true",)},
    tolerations=({"key": "scheduling.cast.ai/spot", "operator": "Exists"},),
    node_labels=("provisioner.cast.ai/managed-by",),
)

# The machine API labels a spot machine and its node with an empty value (seen in its tests); hosted control planes
# have a key of their own for the same (documented).
OPENSHIFT: Final = Provider(
    name="openshift",
    spot_labels={
        "machine.openshift.io/interruptible-instance": PRESENCE,
        "hypershift.openshift.io/interruptible-instance": PRESENCE,
    },
    node_labels=("node.openshift.io/os_id",),
)

# Spot VMs carry `gke-spot` and, since 1.25.5, `gke-provisioning=spot` as well; preemptible VMs `gke-preemptible` and
# `gke-provisioning=preemptible`, without `gke-spot` (seen); all others `gke-provisioning=standard`. Autopilot refuses
# pods whose node affinity names a key outside its list: `gke-spot` is in every list that its refusals have printed,
# the other two in none (one list seen whole, later ones in part). As every Spot VM has `gke-spot`, that key alone is
# right on Standard and safe on Autopilot. It does not exclude preemptible VMs: PREEMPTIBLE does.
# A custom ComputeClass chooses between spot and on-demand by itself, and its pods may name none of these keys (rejected
# by `ccc-node-affinity-selector-limitation`, on Standard too); for Autopilot's first built-in classes `gke-spot` is
# documented.
GKE: Final = Provider(
    name="gke",
    spot_labels={
        "cloud.google.com/gke-spot": ("true",),
        "cloud.google.com/gke-provisioning": ("spot", "preemptible"),
        "cloud.google.com/gke-preemptible": ("true",),
    },
    on_demand_labels={"cloud.google.com/gke-provisioning": ("standard",)},
    # Where Autopilot, node auto-provisioning or the pool's owner put the taint; bare `--spot` pools have none.
    tolerations=({"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"},),
    excluded=("cloud.google.com/gke-spot",),
    closed_by={
        "cloud.google.com/compute-class": ("Accelerator", "Balanced", "General-Purpose", "Performance", "Scale-Out")
    },
    node_labels=("cloud.google.com/gke-nodepool",),
    provider_id=re.compile("gce://"),
)

# Is combined with GKE in clusters with preemptible VMs, which Autopilot does not have. A policy cannot name it.
PREEMPTIBLE: Final = Provider(
    name="preemptible",
    spot_labels={"cloud.google.com/gke-preemptible": ("true",)},
    tolerations=(
        {"key": "cloud.google.com/gke-preemptible", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
    ),
    node_labels=("cloud.google.com/gke-preemptible",),
)

# `priority` replaces `scalesetpriority`, which AKS writes on spot nodes alone and node auto-provisioning on all (seen
# in karpenter-provider-azure); spot nodes have had the older key all along, so that one is required.
AKS: Final = Provider(
    name="aks",
    spot_labels={"kubernetes.azure.com/scalesetpriority": ("spot",), "kubernetes.azure.com/priority": ("spot",)},
    on_demand_labels={
        "kubernetes.azure.com/scalesetpriority": ("regular",),
        "kubernetes.azure.com/priority": ("regular",),
    },
    tolerations=(
        {
            "key": "kubernetes.azure.com/scalesetpriority",
            "operator": "Equal",
            "value": "spot",
            "effect": "NoSchedule",
        },
    ),
    node_labels=("kubernetes.azure.com/cluster", "kubernetes.azure.com/scalesetpriority"),
    provider_id=re.compile("azure://"),
)

# Managed node groups alone label their capacity. Self-managed ones (kops, eksctl's unmanaged groups) have the same
# `aws:///` providerID and no such label, spot or not, and on AWS they are common: taking them for EKS would promise
# on-demand nodes and deliver spot. So the providerID is not used here: such a cluster gets no placement, and a warning.
EKS: Final = Provider(
    name="eks",
    spot_labels={"eks.amazonaws.com/capacityType": ("SPOT",)},
    on_demand_labels={"eks.amazonaws.com/capacityType": ("ON_DEMAND", "CAPACITY_BLOCK")},
    node_labels=("eks.amazonaws.com/capacityType", "eks.amazonaws.com/nodegroup"),
)

# Written by Alibaba's cloud controller manager since v2.10.2 (January 2025; seen): spot nodes from before look like
# on-demand nodes.
# Its providerID is REGION.INSTANCE, with or without `alicloud://` (pkg/controller/helper/node_utils.go).
ACK: Final = Provider(
    name="ack",
    spot_labels={"node.alibabacloud.com/spot-strategy": ("SpotWithPriceLimit", "SpotAsPriceGo")},
    on_demand_labels={"node.alibabacloud.com/spot-strategy": ("NoSpot",)},
    node_labels=("node.alibabacloud.com/spot-strategy", "node.alibabacloud.com/nodepool-id", "ack.aliyun.com"),
    provider_id=re.compile(r"(alicloud://)?[a-z]{2}-[a-z0-9-]+\.i-"),
)

# Most specific first: autoscalers that launch nodes come before the clouds of these nodes.
ROWS: Final = (KARPENTER, OCEAN, CASTAI, OPENSHIFT, GKE, PREEMPTIBLE, AKS, EKS, ACK)

# The providers that a policy can name, except for `auto`, `any` and `custom`.
PROVIDERS: Final = {row.name: row for row in ROWS if row is not PREEMPTIBLE}

# Needs no recognition: `off_spot` excludes the spot nodes of all providers. Spot nodes cannot be required, because no
# node has the labels of all providers. GKE Autopilot rejects pods with it.
ANY: Final = replace(combine(*ROWS), name="any", requirable=False)
