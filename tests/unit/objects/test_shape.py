"""The check of the types that rules read."""

from typing import Any, Final

import pytest

from webhook.objects.shape import ANY_KEY, Shape, wrong_types

SHAPE: Final[Shape] = {
    "name": str,
    "replicas": int,
    "paused": bool,
    "labels": {ANY_KEY: str},
    "containers": [{"name": str, "ports": [int]}],
    "selector": {},
}


def wrong(value: Any, shape: Shape = SHAPE) -> list[str]:
    return [str(problem) for problem in wrong_types(value, shape)]


def test_a_value_of_the_shape_has_no_problem() -> None:
    containers = [{"name": "main", "ports": [80]}, {}]
    assert wrong({"name": "a", "replicas": 3, "paused": True, "labels": {"a": "b"}, "containers": containers}) == []


def test_fields_that_the_shape_does_not_name_may_be_anything() -> None:
    assert wrong({"status": 5, "containers": [{"image": []}], "selector": {"matchLabels": 5}}) == []


@pytest.mark.parametrize("shape", [str, int, bool, {}, [str]])
def test_only_values_of_its_type_fit_a_shape(shape: Shape) -> None:
    values: list[Any] = ["a", 1, 1.0, True, {}, [], None]
    expected = shape if isinstance(shape, type) else type(shape)
    assert [value for value in values if not wrong(value, shape)] == [
        value for value in values if type(value) is expected
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"name": 1}, "name: is an integer; must be a string"),
        ({"replicas": "3"}, "replicas: is a string; must be an integer"),
        ({"replicas": 3.5}, "replicas: is a number; must be an integer"),
        ({"replicas": True}, "replicas: is true or false; must be an integer"),
        ({"paused": "true"}, "paused: is a string; must be true or false"),
        ({"paused": 1}, "paused: is an integer; must be true or false"),
        ({"labels": []}, "labels: is a list; must be an object"),
        ({"labels": {"example.test/a": 1}}, "labels[example.test/a]: is an integer; must be a string"),
        ({"containers": {}}, "containers: is an object; must be a list"),
        ({"containers": [{}, []]}, "containers[1]: is a list; must be an object"),
        ({"containers": [{"ports": [80, "81"]}]}, "containers[0].ports[1]: is a string; must be an integer"),
        ({"selector": "a"}, "selector: is a string; must be an object"),
        ([], "is a list; must be an object"),
        (None, "is null; must be an object"),
    ],
)
def test_a_wrong_type_is_reported_with_its_path_and_the_right_type(value: Any, problem: str) -> None:
    assert wrong(value) == [problem]


def test_all_wrong_types_are_reported_at_once() -> None:
    assert len(wrong({"name": 1, "replicas": "x", "labels": {"a": 1, "b": 2, "c": "d"}, "containers": [[], 5]})) == 6


def test_null_counts_as_absent_in_an_object_but_not_in_a_list() -> None:
    assert wrong({"name": None, "labels": {"a": None}, "containers": None, "selector": None}) == []
    assert wrong({"containers": [None]}) == ["containers[0]: is null; must be an object"]
    assert wrong({"containers": [{"ports": [None]}]}) == ["containers[0].ports[0]: is null; must be an integer"]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64])
def test_an_integer_of_more_than_64_bits_is_reported_with_its_path(number: int) -> None:
    limits = f"must be between {-(2**63)} and {2**63 - 1}"
    assert wrong({"replicas": number}) == [f"replicas: does not fit into 64 bits; {limits}"]
    assert wrong({"containers": [{"ports": [80, number]}]}) == [
        f"containers[0].ports[1]: does not fit into 64 bits; {limits}"
    ]
    assert wrong({"replicas": 2**63 - 1, "containers": [{"ports": [-(2**63)]}]}) == []


def test_the_content_of_a_wrong_type_is_not_checked() -> None:
    assert wrong({"containers": {"name": 5}}) == ["containers: is an object; must be a list"]
