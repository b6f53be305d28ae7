"""The lines of fields in YAML and JSON texts."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from webhook.cli import line_numbers
from webhook.objects.problem import Path

TEXT = """\
# A comment.
apiVersion: v1
kind: List
items:
  - kind: Job
    spec:
      backoffLimit: 3
      "odd key": 4
  - {kind: Job,
     spec: {backoffLimit: 5}}
---
---
kind: Job
spec: &anchored
  template: {}
other: *anchored
"""


@pytest.mark.parametrize(
    ("number", "path", "line"),
    [
        (1, (), 2),
        (1, ("items",), 4),
        (1, ("items", 0), 5),
        (1, ("items", 0, "spec", "backoffLimit"), 7),
        (1, ("items", 0, "spec", "odd key"), 8),
        (1, ("items", 1), 9),
        (1, ("items", 1, "spec", "backoffLimit"), 10),
        (3, ("spec", "template"), 15),
        (3, ("other", "template"), 16),
    ],
)
def test_a_field_has_the_line_of_its_key(number: int, path: Path, line: int) -> None:
    assert line_numbers.find(TEXT, [(number, path)]) == {(number, path): line}


def test_an_absent_field_has_the_line_of_the_nearest_object_around_it() -> None:
    absent = (1, ("items", 0, "spec", "template", "spec"))
    assert line_numbers.find(TEXT, [absent]) == {absent: 6}


def test_several_fields_are_found_at_once() -> None:
    wanted = [(3, ("kind",)), (1, ("kind",)), (3, ())]
    assert line_numbers.find(TEXT, wanted) == {wanted[0]: 13, wanted[1]: 3, wanted[2]: 13}


def test_json_has_lines_too() -> None:
    text = json.dumps({"kind": "Job", "spec": {"backoffLimit": 25}}, indent=2)
    assert line_numbers.find(text, [(1, ("spec", "backoffLimit"))]) == {(1, ("spec", "backoffLimit")): 4}


@pytest.mark.parametrize("text", ["", "a: [", "\t{"])
def test_what_cannot_be_read_has_no_line_and_raises_nothing(text: str) -> None:
    assert line_numbers.find(text, [(2, ("b",))]) == {}


def test_of_a_key_that_is_written_twice_the_last_line_counts() -> None:
    assert line_numbers.find("a: 1\na: 2\n", [(1, ("a",))]) == {(1, ("a",)): 2}


VALUES = st.recursive(
    st.integers() | st.sampled_from(["x", "two words"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def leaves(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(path, value), *(leaf for key, part in parts for leaf in leaves(part, (*path, key)))]


@examples(200)
@given(VALUES)
def test_in_a_text_with_one_value_a_line_each_field_is_found_at_its_line(value: Any) -> None:
    text = yaml.safe_dump(value, default_flow_style=False)
    for path, part in leaves(value):
        line = line_numbers.find(text, [(1, path)])[1, path]
        assert line <= len(text.splitlines())
        if path and isinstance(path[-1], str):
            assert text.splitlines()[line - 1].lstrip("- ").startswith(f"{path[-1]}:")
        if path and isinstance(part, int):
            assert text.splitlines()[line - 1].endswith(str(part))


POLICY = """\
apiVersion: v1
kind: ConfigMap
data:
  other: x
  policy.yaml: |
    kind: RetryPolicy
    profiles:
      default: {}
"""


def test_a_field_of_a_policy_in_a_config_map_has_its_line_in_the_file() -> None:
    path = ("profiles", "default")
    assert line_numbers.find_in_policy(POLICY, [path]) == {path: 8}
    assert line_numbers.find_in_policy("kind: RetryPolicy\nprofiles:\n  default: {}\n", [path]) == {path: 3}


def test_a_policy_in_quotes_has_the_line_of_its_key() -> None:
    text = 'kind: ConfigMap\ndata:\n  policy.yaml: "kind: RetryPolicy\\nprofiles: {}\\n"\n'
    assert line_numbers.find_in_policy(text, [("profiles",)]) == {("profiles",): 3}


def test_a_config_map_without_a_policy_has_its_own_lines() -> None:
    path = ("data", "policy.yaml")
    assert line_numbers.find_in_policy("kind: ConfigMap\ndata: {}\n", [path]) == {path: 2}
    assert line_numbers.find_in_policy("a: [", [path]) == {path: 1}
