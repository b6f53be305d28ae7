"""The text of a problem: path, what is wrong, remedy."""

import pytest

from webhook.objects.bounds import MAX_PROBLEM
from webhook.objects.problem import Path, Problem, field, one_of, type_name

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
def test_a_path_is_written_as_by_the_api_server(text: str, path: Path) -> None:
    assert field(path) == text


def test_a_problem_is_written_as_path_and_what_is_wrong_and_remedy() -> None:
    problem = Problem(("spec", "backoffLimit"), "25 is too much", "set 10 or less")
    assert str(problem) == "spec.backoffLimit: 25 is too much; set 10 or less"


def test_a_problem_of_the_whole_object_has_no_path() -> None:
    assert str(Problem((), "is a list", "must be an object")) == "is a list; must be an object"


def test_a_long_problem_is_cut_in_its_middle_so_that_path_and_remedy_stay() -> None:
    text = str(Problem(("spec", "backoffLimit"), "is " + "x" * 5000, "set 10 or less"))
    assert len(text) == MAX_PROBLEM
    assert text.startswith("spec.backoffLimit: is xxx")
    assert text.endswith("xxx…; set 10 or less")


def test_a_problem_of_the_longest_length_is_not_cut() -> None:
    rest = len("spec: ; set 10 or less")
    for length, is_cut in ((MAX_PROBLEM - rest, False), (MAX_PROBLEM - rest + 1, True)):
        text = str(Problem(("spec",), "x" * length, "set 10 or less"))
        assert (len(text), "…" in text) == (MAX_PROBLEM, is_cut)


def test_a_long_remedy_is_cut_to_half_of_the_longest_problem() -> None:
    text = str(Problem(("spec",), "is wrong", "set " + "y" * 5000))
    assert text.startswith("spec: is wrong; set yyy")
    assert text.endswith("y…")
    assert len(text) == len("spec: is wrong") + MAX_PROBLEM // 2
    assert len(str(Problem(("spec",), "x" * 5000, "y" * 5000))) == MAX_PROBLEM


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
def test_each_json_type_has_a_readable_name(value: object, name: str) -> None:
    assert type_name(value) == name


def test_one_allowed_name_is_not_suggested() -> None:
    assert one_of(["main"], "Main") == "main"
