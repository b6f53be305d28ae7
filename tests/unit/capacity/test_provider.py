"""Providers that are combined from others, or described in a policy."""

from tests.unit.capacity.matcher import meets, score
from webhook.capacity.provider import combine, custom, off_spot, on_demand_preferences, on_spot, spot_preferences
from webhook.capacity.table import AKS, EKS, GKE, KARPENTER, OCEAN, OPENSHIFT

EKS_SPOT = {"eks.amazonaws.com/capacityType": "SPOT"}
EKS_ON_DEMAND = {"eks.amazonaws.com/capacityType": "ON_DEMAND"}
KARPENTER_SPOT = {"karpenter.sh/capacity-type": "spot"}
KARPENTER_ON_DEMAND = {"karpenter.sh/capacity-type": "on-demand"}

MIXED = combine(KARPENTER, EKS)


def test_combining_one_provider_returns_that_provider() -> None:
    assert combine(EKS) is EKS


def test_a_combined_provider_is_named_after_all_of_them() -> None:
    assert MIXED.name == "eks+karpenter"


def test_off_spot_in_a_mixed_cluster_excludes_the_spot_nodes_of_all_providers() -> None:
    assert not meets(EKS_SPOT, off_spot(MIXED))
    assert not meets(KARPENTER_SPOT, off_spot(MIXED))
    assert meets(EKS_ON_DEMAND, off_spot(MIXED))
    assert meets(KARPENTER_ON_DEMAND, off_spot(MIXED))


def test_the_spot_requirement_in_a_mixed_cluster_is_that_of_the_most_specific_provider() -> None:
    assert on_spot(MIXED) == on_spot(KARPENTER)


def test_any_spot_node_of_a_mixed_cluster_is_preferred() -> None:
    assert score(KARPENTER_SPOT, spot_preferences(MIXED)) == score(EKS_SPOT, spot_preferences(MIXED)) == 100
    assert score(EKS_ON_DEMAND, spot_preferences(MIXED)) == 0


def test_no_spot_requirement_is_made_if_the_most_specific_provider_supports_none() -> None:
    mixed = combine(OCEAN, EKS)
    assert on_spot(mixed) == []
    assert spot_preferences(mixed) == spot_preferences(EKS)
    assert on_demand_preferences(mixed) == on_demand_preferences(OCEAN)


def test_a_combined_provider_has_each_toleration_once() -> None:
    mixed = combine(KARPENTER, AKS, GKE)
    assert mixed.tolerations == (*AKS.tolerations, *GKE.tolerations)
    assert combine(AKS, custom({"pool": ["spot"]}, AKS.tolerations)).tolerations == AKS.tolerations


def test_a_combined_provider_can_be_combined_again() -> None:
    again = combine(MIXED, OPENSHIFT)
    assert again.name == "eks+karpenter+openshift"
    assert on_spot(again) == on_spot(KARPENTER)
    assert off_spot(again) == off_spot(KARPENTER) + off_spot(EKS) + off_spot(OPENSHIFT)


def test_off_spot_excludes_all_custom_labels_and_on_spot_requires_the_first() -> None:
    toleration = {"key": "pool", "operator": "Exists"}
    provider = custom({"pool": ["spot", "preemptible"], "lifecycle": ["spot"]}, [toleration])
    assert provider.name == "custom"
    assert off_spot(provider) == [
        {"key": "pool", "operator": "NotIn", "values": ["spot", "preemptible"]},
        {"key": "lifecycle", "operator": "NotIn", "values": ["spot"]},
    ]
    assert on_spot(provider) == [{"key": "pool", "operator": "In", "values": ["spot", "preemptible"]}]
    assert provider.tolerations == (toleration,)


def test_a_custom_label_with_the_empty_value_is_matched_by_its_presence() -> None:
    provider = custom({"node-role.example.com/spot": [""]}, [])
    assert off_spot(provider) == [{"key": "node-role.example.com/spot", "operator": "DoesNotExist"}]
    assert on_spot(provider) == [{"key": "node-role.example.com/spot", "operator": "Exists"}]
