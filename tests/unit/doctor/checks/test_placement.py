"""What the doctor finds about the nodes: whether placement can act."""

import pytest

from tests.admission import policy as policy_of
from tests.unit.doctor.healthy import SPOT, healthy, node, told, wrong
from webhook.doctor.checks.placement import check
from webhook.objects.problem import Json
from webhook.policy.model import CustomProvider, Placement, Policy, Profile

PLAIN: Json = {"metadata": {"name": "a", "labels": {"kubernetes.io/os": "linux"}}, "spec": {}}


def using(**providers: Placement) -> Policy:
    return policy_of(**{name: Profile(placement=placement) for name, placement in providers.items()})


def test_the_provider_is_said_with_its_nodes() -> None:
    (found,) = check(healthy())
    assert (found.status, found.what) == (
        "ok",
        "provider gke: 1 spot nodes and 1 others, for profiles confirm, default",
    )


def test_a_cluster_of_which_no_provider_is_recognised_places_nothing() -> None:
    policy = using(default=Placement(), batch=Placement(), gpu=Placement(provider="gke"))
    status, what, fix = told(check, healthy(nodes=[PLAIN], policy=policy))
    assert status == "warning"
    assert what.startswith("Placement: no provider is recognised from 1 nodes, so profiles batch, default place no pod")
    assert "placement.provider" in fix


def test_nodepools_of_karpenter_are_enough_without_a_node() -> None:
    assert wrong(check, healthy(nodes=[], node_pools=[{"metadata": {"name": "spot"}}])) == []


@pytest.mark.parametrize(
    "label", ["eks.amazonaws.com/capacityType=SPOT", "acme.example/lifecycle=spot", "acme.example/preemptible=true"]
)
def test_a_label_of_spot_nodes_that_the_provider_does_not_use_is_named(label: str) -> None:
    policy = using(default=Placement(provider="gke"))
    status, what, _ = told(check, healthy(nodes=[node("a", label), node("b", label), node("c", SPOT)], policy=policy))
    assert status == "warning"
    assert what.startswith(f"Placement: 2 nodes have the label {label}, and are no spot nodes for provider gke")


@pytest.mark.parametrize("label", ["acme.example/spot=false", "acme.example/pool=batch", SPOT])
def test_other_labels_are_not_named(label: str) -> None:
    assert wrong(check, healthy(nodes=[node("a", label)])) == []


def test_a_label_that_the_policy_describes_marks_spot_nodes() -> None:
    acme = CustomProvider(spot_labels={"acme.example/lifecycle": ["spot"]})
    policy = using(default=Placement(provider="custom", custom=acme))
    (found,) = check(healthy(nodes=[node("a", "acme.example/lifecycle=spot")], policy=policy))
    assert found.what == "provider custom: 1 spot nodes and 0 others, for profile default"
