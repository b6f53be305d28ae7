"""How a place and what is wrong there are said."""

import pytest

from webhook.objects.problem import Path, Problem, field, type_name

PATHS: dict[str, Path] = {
    "spec.containers[0].name": ("spec", "containers", 0, "name"),
    "items[12].spec": ("items", 12, "spec"),
    "metadata.annotations[retry-policy.dev/attempt]": ("metadata", "annotations", "retry-policy.dev/attempt"),
    "spec.nodeSelector[kubernetes.io/os]": ("spec", "nodeSelector", "kubernetes.io/os"),
    "data[policy.yaml]": ("data", "policy.yaml"),
    "spec.template.spec.containers[0].env[1].value": ("spec", "template", "spec", "containers", 0, "env", 1, "value"),
    "[0]": (0,),
    "[a.b].c": ("a.b", "c"),
    "": (),
}


@pytest.mark.parametrize(("text", "path"), PATHS.items())
def test_a_path_is_spelled_as_the_api_server_does(text: str, path: Path) -> None:
    assert field(path) == text


def test_a_problem_says_where_what_and_what_would_be_right() -> None:
    problem = Problem(("spec", "backoffLimit"), "25 is too much", "set 10 or less")
    assert str(problem) == "spec.backoffLimit: 25 is too much; set 10 or less"


def test_a_problem_of_the_whole_object_names_no_place() -> None:
    assert str(Problem((), "is a list", "must be an object")) == "is a list; must be an object"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        ({}, "an object"),
        ([], "a list"),
        ("", "a string"),
        (0, "an integer"),
        (0.0, "a number"),
        (False, "true or false"),
    ],
)
def test_each_json_type_has_a_name_that_a_person_uses(value: object, name: str) -> None:
    assert type_name(value) == name
