"""Pods whose own node selector or affinity excludes all spot or all on-demand nodes."""

from typing import Any

import pytest

from webhook.capacity.contradictions import TERMS, refuses_on_demand, refuses_spot
from webhook.capacity.provider import Provider, combine, custom, off_spot, on_spot
from webhook.capacity.table import ANY, GKE, KARPENTER, PROVIDERS, ROWS
from webhook.objects.problem import Json, Path

EKS = PROVIDERS["eks"]
OPENSHIFT = PROVIDERS["openshift"]
CASTAI = PROVIDERS["castai"]
AKS = PROVIDERS["aks"]
OCEAN = PROVIDERS["ocean"]

CAPACITY_TYPE = "karpenter.sh/capacity-type"
INTERRUPTIBLE = "machine.openshift.io/interruptible-instance"
COMPUTE_CLASS = "cloud.google.com/compute-class"


def with_terms(*terms: Any) -> Json:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def term(*expressions: Json) -> Json:
    return {"matchExpressions": list(expressions)}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def at(index: int, position: int) -> Path:
    return (*TERMS, index, "matchExpressions", position)


# Provider, key and value of a node selector.
SELECTORS_OFF_SPOT = [
    (EKS, "eks.amazonaws.com/capacityType", "ON_DEMAND"),
    (EKS, "eks.amazonaws.com/capacityType", "CAPACITY_BLOCK"),
    (GKE, "cloud.google.com/gke-provisioning", "standard"),
    (GKE, "cloud.google.com/gke-spot", "false"),
    (OCEAN, "spotinst.io/node-lifecycle", "od"),
    (KARPENTER, CAPACITY_TYPE, "reserved"),
    (AKS, "kubernetes.azure.com/scalesetpriority", "regular"),
    (CASTAI, "scheduling.cast.ai/on-demand", "true"),
    (PROVIDERS["ack"], "node.alibabacloud.com/spot-strategy", "NoSpot"),
    (combine(KARPENTER, EKS), "eks.amazonaws.com/capacityType", "ON_DEMAND"),
    (ANY, CAPACITY_TYPE, "on-demand"),
    (custom({"pool": ["spot"]}, []), "pool", "stable"),
]

SELECTORS_ON_SPOT = [
    (GKE, "cloud.google.com/gke-spot", "true"),
    (GKE, "cloud.google.com/gke-preemptible", "true"),
    (GKE, "cloud.google.com/gke-provisioning", "preemptible"),
    (EKS, "eks.amazonaws.com/capacityType", "SPOT"),
    (KARPENTER, CAPACITY_TYPE, "spot"),
    (OPENSHIFT, INTERRUPTIBLE, ""),
    (CASTAI, "scheduling.cast.ai/spot", "true"),
    (combine(KARPENTER, EKS), "eks.amazonaws.com/capacityType", "SPOT"),
    (ANY, "kubernetes.azure.com/priority", "spot"),
    (custom({"pool": ["spot"]}, []), "pool", "spot"),
]

# Provider and the expressions of one term.
TERMS_OFF_SPOT = [
    (KARPENTER, [expression(CAPACITY_TYPE, "In", "on-demand")]),
    (KARPENTER, [expression(CAPACITY_TYPE, "In", "some-new-type")]),
    (KARPENTER, [expression(CAPACITY_TYPE, "NotIn", "spot")]),
    (KARPENTER, [expression(CAPACITY_TYPE, "DoesNotExist")]),
    (
        PROVIDERS["ack"],
        [expression("node.alibabacloud.com/spot-strategy", "NotIn", "SpotAsPriceGo", "SpotWithPriceLimit")],
    ),
    (OPENSHIFT, [expression(INTERRUPTIBLE, "DoesNotExist")]),
    (OPENSHIFT, [expression(INTERRUPTIBLE, "NotIn", "")]),
    (CASTAI, [expression("scheduling.cast.ai/on-demand", "Exists")]),
    (EKS, [expression("zone", "In", "a"), expression("eks.amazonaws.com/capacityType", "In", "ON_DEMAND")]),
    (KARPENTER, [expression(CAPACITY_TYPE, "In", "spot", "reserved"), expression(CAPACITY_TYPE, "NotIn", "spot")]),
]

TERMS_ON_SPOT = [
    (KARPENTER, [expression(CAPACITY_TYPE, "In", "spot")]),
    (PROVIDERS["ack"], [expression("node.alibabacloud.com/spot-strategy", "In", "SpotAsPriceGo")]),
    (GKE, [expression("cloud.google.com/gke-spot", "Exists")]),
    (OPENSHIFT, [expression(INTERRUPTIBLE, "Exists")]),
    (KARPENTER, [expression(CAPACITY_TYPE, "Exists"), expression(CAPACITY_TYPE, "NotIn", "on-demand", "reserved")]),
]

TERMS_OF_EITHER_KIND = [
    (KARPENTER, [expression(CAPACITY_TYPE, "In", "spot", "on-demand")]),
    (KARPENTER, [expression(CAPACITY_TYPE, "In", "spot", "some-new-type")]),
    (KARPENTER, [expression(CAPACITY_TYPE, "Exists")]),
    (KARPENTER, [expression(CAPACITY_TYPE, "NotIn", "reserved")]),
    (KARPENTER, [expression(CAPACITY_TYPE, "NotIn", "on-demand", "reserved")]),
    (AKS, [expression("kubernetes.azure.com/scalesetpriority", "Exists")]),
    (CASTAI, [expression("scheduling.cast.ai/on-demand", "DoesNotExist")]),
    (KARPENTER, [expression("topology.kubernetes.io/zone", "In", "a")]),
    (KARPENTER, [expression("eks.amazonaws.com/capacityType", "In", "ON_DEMAND")]),
]


@pytest.mark.parametrize(("provider", "key", "value"), SELECTORS_OFF_SPOT)
def test_a_node_selector_for_on_demand_refuses_spot(provider: Provider, key: str, value: str) -> None:
    pod_spec = {"nodeSelector": {"disk": "ssd", key: value}}
    assert refuses_spot(pod_spec, provider) == ("spec", "nodeSelector", key)
    assert refuses_on_demand(pod_spec, provider) is None


@pytest.mark.parametrize(("provider", "key", "value"), SELECTORS_ON_SPOT)
def test_a_node_selector_for_spot_refuses_on_demand(provider: Provider, key: str, value: str) -> None:
    pod_spec = {"nodeSelector": {"disk": "ssd", key: value}}
    assert refuses_on_demand(pod_spec, provider) == ("spec", "nodeSelector", key)
    assert refuses_spot(pod_spec, provider) is None


@pytest.mark.parametrize(("provider", "expressions"), TERMS_OFF_SPOT)
def test_a_term_that_no_spot_node_meets_refuses_spot(provider: Provider, expressions: list[Json]) -> None:
    pod_spec = with_terms(term(*expressions))
    refusing = refuses_spot(pod_spec, provider)
    assert refusing is not None
    assert refusing[:-1] == (*TERMS, 0, "matchExpressions")
    assert refuses_on_demand(pod_spec, provider) is None


@pytest.mark.parametrize(("provider", "expressions"), TERMS_ON_SPOT)
def test_a_term_that_only_spot_nodes_meet_refuses_on_demand(provider: Provider, expressions: list[Json]) -> None:
    pod_spec = with_terms(term(*expressions))
    assert refuses_on_demand(pod_spec, provider) == at(0, 0)
    assert refuses_spot(pod_spec, provider) is None


@pytest.mark.parametrize(("provider", "expressions"), TERMS_OF_EITHER_KIND)
def test_a_term_that_both_kinds_of_node_meet_refuses_neither(provider: Provider, expressions: list[Json]) -> None:
    pod_spec = with_terms(term(*expressions))
    assert refuses_spot(pod_spec, provider) is None
    assert refuses_on_demand(pod_spec, provider) is None


def test_the_returned_path_is_that_of_the_refusing_expression() -> None:
    pod_spec = with_terms(term(expression("zone", "In", "a"), expression(CAPACITY_TYPE, "In", "on-demand")))
    assert refuses_spot(pod_spec, KARPENTER) == at(0, 1)


def test_a_pod_does_not_refuse_spot_if_one_of_its_terms_does_not() -> None:
    pod_spec = with_terms(term(expression(CAPACITY_TYPE, "In", "on-demand")), term(expression("zone", "In", "a")))
    assert refuses_spot(pod_spec, KARPENTER) is None


def test_a_term_with_match_fields_does_not_refuse_spot() -> None:
    on_node = {"matchFields": [expression("metadata.name", "In", "node-1")]}
    assert refuses_spot(with_terms(on_node), KARPENTER) is None
    assert refuses_spot(with_terms(term(expression(CAPACITY_TYPE, "In", "on-demand")), on_node), KARPENTER) is None


def test_a_pod_refuses_spot_if_all_its_terms_do() -> None:
    pod_spec = with_terms(
        term(expression(CAPACITY_TYPE, "In", "on-demand")), term(expression(CAPACITY_TYPE, "NotIn", "spot"))
    )
    assert refuses_spot(pod_spec, KARPENTER) == at(0, 0)


@pytest.mark.parametrize("empty", [{}, {"matchExpressions": None}, {"matchExpressions": [], "matchFields": []}])
def test_an_empty_term_is_ignored(empty: Json) -> None:
    refusing = term(expression(CAPACITY_TYPE, "In", "on-demand"))
    assert refuses_spot(with_terms(empty, refusing), KARPENTER) == at(1, 0)
    assert refuses_spot(with_terms(empty), KARPENTER) is None


def test_a_node_selector_refuses_spot_whatever_the_terms() -> None:
    pod_spec = {**with_terms(term(expression("zone", "In", "a"))), "nodeSelector": {CAPACITY_TYPE: "on-demand"}}
    assert refuses_spot(pod_spec, KARPENTER) == ("spec", "nodeSelector", CAPACITY_TYPE)


@pytest.mark.parametrize("provider", [*ROWS, ANY, combine(KARPENTER, EKS)], ids=lambda provider: provider.name)
def test_the_webhooks_own_requirement_is_no_contradiction(provider: Provider) -> None:
    assert refuses_on_demand(with_terms(term(*off_spot(provider))), provider) is None
    assert refuses_spot(with_terms(term(*on_spot(provider))), provider) is None


def test_preferred_terms_never_refuse_spot() -> None:
    preferred = {"weight": 1, "preference": term(expression(CAPACITY_TYPE, "In", "on-demand"))}
    pod_spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}}
    assert refuses_spot(pod_spec, KARPENTER) is None


@pytest.mark.parametrize(
    "pod_spec",
    [
        {},
        {"nodeSelector": None, "affinity": None},
        {"nodeSelector": {}, "affinity": {"nodeAffinity": None}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": None}}}},
        with_terms({"matchExpressions": [{"key": "zone", "operator": "Exists", "values": None}], "matchFields": None}),
        with_terms({"matchExpressions": [{"operator": "In", "values": None}, {"key": None}]}),
    ],
)
def test_absent_and_null_fields_refuse_nothing(pod_spec: Json) -> None:
    for provider in (KARPENTER, GKE):
        assert refuses_spot(pod_spec, provider) is None
        assert refuses_on_demand(pod_spec, provider) is None


def test_null_in_a_node_selector_counts_as_the_empty_value() -> None:
    assert refuses_on_demand({"nodeSelector": {INTERRUPTIBLE: None}}, OPENSHIFT) is not None


def test_gt_on_a_capacity_label_is_never_met() -> None:
    assert refuses_spot(with_terms(term(expression(CAPACITY_TYPE, "Gt", "1"))), KARPENTER) == at(0, 0)
    assert refuses_on_demand(with_terms(term(expression(CAPACITY_TYPE, "Gt", "1"))), KARPENTER) is None


def test_a_custom_compute_class_in_the_node_selector_refuses_spot_and_on_demand() -> None:
    pod_spec: Json = {"nodeSelector": {COMPUTE_CLASS: "spot-then-on-demand"}}
    path = ("spec", "nodeSelector", COMPUTE_CLASS)
    assert refuses_spot(pod_spec, GKE) == refuses_on_demand(pod_spec, GKE) == path
    assert refuses_spot(pod_spec, ANY) == path
    assert refuses_spot(pod_spec, EKS) is None


def test_a_custom_compute_class_in_any_term_refuses_spot_and_on_demand() -> None:
    pod_spec = with_terms(term(expression("zone", "In", "a")), term(expression(COMPUTE_CLASS, "In", "mine")))
    assert refuses_spot(pod_spec, GKE) == refuses_on_demand(pod_spec, GKE) == at(1, 0)


def test_the_compute_classes_of_autopilot_do_not_refuse_spot() -> None:
    assert refuses_spot({"nodeSelector": {COMPUTE_CLASS: "Scale-Out"}}, GKE) is None
    assert refuses_spot(with_terms(term(expression(COMPUTE_CLASS, "In", "Balanced"))), GKE) is None
    assert refuses_spot(with_terms(term(expression(COMPUTE_CLASS, "NotIn", "mine"))), GKE) is None
