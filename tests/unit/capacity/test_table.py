"""Each provider of the table, with nodes as the provider labels them."""

import pytest

from tests.unit.capacity.matcher import meets, score
from webhook.capacity.provider import Provider, combine, off_spot, on_demand_preferences, on_spot, spot_preferences
from webhook.capacity.table import ANY, GKE, OCEAN, PREEMPTIBLE, PROVIDERS, ROWS

GKE_WITH_PREEMPTIBLE = combine(GKE, PREEMPTIBLE)

SPOT_NODES = {
    "gke spot": (GKE, {"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-provisioning": "spot"}),
    "gke spot before the provisioning label": (GKE, {"cloud.google.com/gke-spot": "true"}),
    "eks spot": (PROVIDERS["eks"], {"eks.amazonaws.com/capacityType": "SPOT"}),
    "karpenter spot": (
        PROVIDERS["karpenter"],
        {"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot"},
    ),
    "aks spot": (
        PROVIDERS["aks"],
        {"kubernetes.azure.com/scalesetpriority": "spot", "kubernetes.azure.com/priority": "spot"},
    ),
    "aks spot before the priority label": (PROVIDERS["aks"], {"kubernetes.azure.com/scalesetpriority": "spot"}),
    "openshift interruptible": (PROVIDERS["openshift"], {"machine.openshift.io/interruptible-instance": ""}),
    "ack with a price limit": (
        PROVIDERS["ack"],
        {"node.alibabacloud.com/spot-strategy": "SpotWithPriceLimit"},
    ),
    "ack as the price goes": (PROVIDERS["ack"], {"node.alibabacloud.com/spot-strategy": "SpotAsPriceGo"}),
    "castai spot": (PROVIDERS["castai"], {"scheduling.cast.ai/spot": "true"}),
}

# Spot nodes that a pod can exclude but not require: the provider supports no such key, or uses another one for it.
SPOT_NODES_THAT_NOTHING_REQUIRES = {
    "ocean spot": (OCEAN, {"spotinst.io/node-lifecycle": "spot"}),
    "gke preemptible": (
        GKE_WITH_PREEMPTIBLE,
        {"cloud.google.com/gke-preemptible": "true", "cloud.google.com/gke-provisioning": "preemptible"},
    ),
    "openshift hosted interruptible": (
        PROVIDERS["openshift"],
        {"hypershift.openshift.io/interruptible-instance": ""},
    ),
    "aks spot without the old label": (PROVIDERS["aks"], {"kubernetes.azure.com/priority": "spot"}),
}

ON_DEMAND_NODES = {
    "gke standard": (GKE, {"cloud.google.com/gke-provisioning": "standard"}),
    "gke standard beside preemptible": (GKE_WITH_PREEMPTIBLE, {"cloud.google.com/gke-provisioning": "standard"}),
    "gke without a capacity label": (GKE, {"cloud.google.com/gke-nodepool": "default-pool"}),
    "eks on demand": (PROVIDERS["eks"], {"eks.amazonaws.com/capacityType": "ON_DEMAND"}),
    "eks capacity block": (PROVIDERS["eks"], {"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}),
    "karpenter on demand": (PROVIDERS["karpenter"], {"karpenter.sh/capacity-type": "on-demand"}),
    "karpenter reserved": (PROVIDERS["karpenter"], {"karpenter.sh/capacity-type": "reserved"}),
    "aks without a capacity label": (PROVIDERS["aks"], {"kubernetes.azure.com/cluster": "MC_a"}),
    "aks node auto-provisioning": (
        PROVIDERS["aks"],
        {"kubernetes.azure.com/scalesetpriority": "regular", "kubernetes.azure.com/priority": "regular"},
    ),
    "ocean on demand": (OCEAN, {"spotinst.io/node-lifecycle": "od"}),
    "not managed by ocean": (OCEAN, {"eks.amazonaws.com/capacityType": "ON_DEMAND"}),
    "openshift": (PROVIDERS["openshift"], {"node.openshift.io/os_id": "rhel"}),
    "ack no spot": (PROVIDERS["ack"], {"node.alibabacloud.com/spot-strategy": "NoSpot"}),
    "ack without a capacity label": (PROVIDERS["ack"], {"ack.aliyun.com": "c1"}),
    "castai on demand": (PROVIDERS["castai"], {"scheduling.cast.ai/on-demand": "true"}),
    "castai fallback for spot": (PROVIDERS["castai"], {"scheduling.cast.ai/spot-fallback": "true"}),
}

ALL_SPOT_NODES = {**SPOT_NODES, **SPOT_NODES_THAT_NOTHING_REQUIRES}
EVERY = [*ROWS, GKE_WITH_PREEMPTIBLE, ANY]


@pytest.mark.parametrize(("provider", "labels"), ALL_SPOT_NODES.values(), ids=ALL_SPOT_NODES)
def test_a_pod_is_kept_off_a_spot_node(provider: Provider, labels: dict[str, str]) -> None:
    assert not meets(labels, off_spot(provider))
    assert not meets(labels, off_spot(ANY))


@pytest.mark.parametrize(("provider", "labels"), ON_DEMAND_NODES.values(), ids=ON_DEMAND_NODES)
def test_a_pod_kept_off_spot_finds_an_on_demand_node(provider: Provider, labels: dict[str, str]) -> None:
    assert meets(labels, off_spot(provider))
    assert meets(labels, off_spot(ANY))


@pytest.mark.parametrize(("provider", "labels"), SPOT_NODES.values(), ids=SPOT_NODES)
def test_a_pod_that_requires_or_prefers_spot_finds_a_spot_node(provider: Provider, labels: dict[str, str]) -> None:
    assert on_spot(provider)
    assert meets(labels, on_spot(provider))
    assert score(labels, spot_preferences(provider)) == 100
    assert score(labels, spot_preferences(ANY)) == 100


@pytest.mark.parametrize(("provider", "labels"), ON_DEMAND_NODES.values(), ids=ON_DEMAND_NODES)
def test_a_pod_that_requires_or_prefers_spot_is_not_sent_to_an_on_demand_node(
    provider: Provider, labels: dict[str, str]
) -> None:
    assert not on_spot(provider) or not meets(labels, on_spot(provider))
    assert score(labels, spot_preferences(provider)) == 0
    assert score(labels, spot_preferences(ANY)) == 0


def test_preemptible_vms_are_preferred_like_spot_vms() -> None:
    assert score({"cloud.google.com/gke-preemptible": "true"}, spot_preferences(GKE_WITH_PREEMPTIBLE)) == 100


def test_gke_uses_only_the_key_that_autopilot_admits() -> None:
    named = [*off_spot(GKE), *on_spot(GKE), *spot_preferences(GKE)[0]["preference"]["matchExpressions"]]
    assert {requirement["key"] for requirement in named} == {"cloud.google.com/gke-spot"}


def test_ocean_gets_no_affinity_to_spot_and_a_preference_for_on_demand() -> None:
    assert on_spot(OCEAN) == []
    assert spot_preferences(OCEAN) == []
    assert score({"spotinst.io/node-lifecycle": "od"}, on_demand_preferences(OCEAN)) == 100
    assert score({"spotinst.io/node-lifecycle": "spot"}, on_demand_preferences(OCEAN)) == 0


def test_a_label_without_a_value_is_matched_by_its_presence() -> None:
    assert off_spot(PROVIDERS["openshift"])[0] == {
        "key": "machine.openshift.io/interruptible-instance",
        "operator": "DoesNotExist",
    }
    assert on_spot(PROVIDERS["openshift"]) == [
        {"key": "machine.openshift.io/interruptible-instance", "operator": "Exists"}
    ]


@pytest.mark.parametrize("provider", EVERY, ids=lambda provider: provider.name)
def test_off_spot_never_requires_an_on_demand_label(provider: Provider) -> None:
    assert off_spot(provider)
    assert {requirement["operator"] for requirement in off_spot(provider)} <= {"NotIn", "DoesNotExist"}


@pytest.mark.parametrize("provider", EVERY, ids=lambda provider: provider.name)
def test_changing_a_returned_requirement_does_not_change_the_provider(provider: Provider) -> None:
    for function in (off_spot, on_spot, spot_preferences, on_demand_preferences):
        before = repr(function(provider))
        for value in function(provider):
            for requirement in value.get("preference", {}).get("matchExpressions", [value]):
                requirement.get("values", []).append("changed")
                requirement["key"] = "changed"
        assert repr(function(provider)) == before


def test_provider_any_never_requires_spot() -> None:
    assert on_spot(ANY) == []


def test_every_provider_has_its_own_name_in_policies() -> None:
    assert set(PROVIDERS) == {"gke", "eks", "karpenter", "aks", "ocean", "openshift", "ack", "castai"}
    assert all(provider.name == name for name, provider in PROVIDERS.items())
