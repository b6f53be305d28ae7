"""The pools of a cluster, from the labels of its nodes."""

import pytest

from webhook.capacity import Census, NodeFacts, Pool
from webhook.capacity.pools import MOST_LABELS, MOST_POOLS, MOST_VALUES
from webhook.objects.problem import Json

POOL = "cloud.google.com/gke-nodepool"


def node(pool: str, **labels: str) -> NodeFacts:
    return NodeFacts({POOL: pool, **labels})


def pools_of(*nodes: NodeFacts) -> dict[str, Pool] | None:
    census = Census()
    for one in nodes:
        census.add(one)
    return census.pools()


def pool(*nodes: NodeFacts) -> Pool:
    (found,) = (pools_of(*nodes) or {}).values()
    return found


def test_nodes_are_grouped_by_the_label_with_their_pools_name() -> None:
    assert list(pools_of(node("a"), node("b"), node("a"), NodeFacts({"x": "y"})) or {}) == ["a", "b", ""]


@pytest.mark.parametrize(
    ("operator", "values", "may"),
    [
        ("In", ["1", "2"], True),
        ("In", ["3"], False),
        ("NotIn", ["1"], True),
        ("NotIn", ["1", "2"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["7"], True),
    ],
)
def test_a_pool_meets_a_requirement_if_one_of_its_nodes_does(
    operator: str,
    values: list[str],
    may: bool,  # noqa: FBT001
) -> None:
    assert pool(node("a", zone="1"), node("a", zone="2")).may_have("zone", operator, values) is may


@pytest.mark.parametrize(
    ("operator", "may"), [("In", False), ("NotIn", True), ("Exists", False), ("DoesNotExist", True)]
)
def test_a_label_that_no_node_has_is_absent(operator: str, may: bool) -> None:  # noqa: FBT001
    assert pool(node("a")).may_have("zone", operator, ["1"]) is may


def test_a_label_that_only_some_nodes_have_may_be_present_or_absent() -> None:
    mixed = pool(node("a", zone="1"), node("a"))
    assert all(mixed.may_have("zone", operator, ["1"]) for operator in ("In", "NotIn", "Exists", "DoesNotExist"))


def test_a_label_with_too_many_values_can_have_any_value() -> None:
    many = pool(*(node("a", hostname=str(number)) for number in range(MOST_VALUES + 1)))
    assert many.may_have("hostname", "In", ["another"])


@pytest.mark.parametrize(
    ("selector", "terms", "takes"),
    [
        ({}, [], True),
        ({"zone": "1"}, [], True),
        ({"zone": "2"}, [], False),
        ({}, [[{"key": "zone", "operator": "In", "values": ["2"]}], []], True),
        ({}, [[{"key": "zone", "operator": "In", "values": ["2"]}]], False),
    ],
)
def test_a_pool_can_take_a_pod_if_it_meets_the_whole_selector_and_one_term(
    selector: Json,
    terms: list[list[Json]],
    takes: bool,  # noqa: FBT001
) -> None:
    assert pool(node("a", zone="1")).may_take(selector, terms) is takes


@pytest.mark.parametrize(
    "nodes",
    [
        [NodeFacts({"karpenter.sh/nodepool": "default"})],
        [node("nap-n1-standard-1-x"), node("a")],
        [node(str(number)) for number in range(MOST_POOLS + 1)],
        [node("a", **{f"label-{number}": "" for number in range(MOST_LABELS + 1)})],
    ],
    ids=["Karpenter", "auto-provisioning", "too many pools", "too many labels"],
)
def test_pools_are_unknown_if_nodes_are_created_for_pods_or_are_too_many(nodes: list[NodeFacts]) -> None:
    assert pools_of(*nodes) is None
