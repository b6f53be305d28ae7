"""Node selectors and terms that require set-aside capacity, which is neither spot nor on-demand."""

import pytest

from webhook.capacity import set_aside
from webhook.capacity.contradictions import TERMS
from webhook.objects.problem import Json

RESERVED: Json = {"key": "cloud.google.com/reservation-name", "operator": "In", "values": ["tpu-rsv"]}
ZONE: Json = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}


def with_terms(*given: list[Json]) -> Json:
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in given]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def test_the_returned_path_is_that_of_the_field_that_requires_set_aside_capacity() -> None:
    assert set_aside({"nodeSelector": {"cloud.google.com/gke-flex-start": "true"}}, {}) == (
        "spec",
        "nodeSelector",
        "cloud.google.com/gke-flex-start",
    )
    assert set_aside(with_terms([ZONE, RESERVED]), {}) == (*TERMS, 0, "matchExpressions", 1)


@pytest.mark.parametrize(
    "selector",
    [
        None,
        {},
        {"cloud.google.com/gke-flex-start": "false"},
        {"cloud.google.com/reservation-affinity": "none"},
        {"cloud.google.com/gke-spot": "true"},
    ],
)
def test_other_selectors_do_not_require_set_aside_capacity(selector: Json | None) -> None:
    assert set_aside({"nodeSelector": selector}, {}) is None


def test_a_pod_requires_set_aside_capacity_only_if_each_of_its_terms_does() -> None:
    assert set_aside(with_terms([RESERVED], [ZONE]), {}) is None
    assert set_aside(with_terms([RESERVED], [RESERVED, ZONE]), {}) is not None
    assert set_aside(with_terms([RESERVED], []), {}) is not None  # an empty term matches no node


@pytest.mark.parametrize(
    ("operator", "values", "requires"),
    [
        ("Exists", [], True),
        ("In", ["any", "specific"], True),
        ("In", ["specific", "none"], False),
        ("NotIn", ["none"], False),
        ("DoesNotExist", [], False),
    ],
)
def test_an_expression_requires_set_aside_capacity_if_no_other_node_meets_it(
    operator: str, values: list[str], *, requires: bool
) -> None:
    expression = {"key": "cloud.google.com/reservation-affinity", "operator": operator, "values": values}
    assert (set_aside(with_terms([expression]), {}) is not None) is requires
