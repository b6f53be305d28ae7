"""Values of a model that other parsers than that of the policy read too."""

from typing import Any

import pytest
from msgspec import Struct, inspect

from webhook.policy.reader import Reader, duration, shown


class Meal(Struct, frozen=True):
    """A model of a parser that has no relations."""

    name: str
    courses: tuple[int, ...] = ()


def read(raw: Any) -> tuple[Any, list[str]]:
    reader = Reader([], relations={})
    return reader.value(raw, inspect.type_info(Meal), ()), [str(problem) for problem in reader.problems]


def test_any_model_can_be_read() -> None:
    assert read({"name": "lunch", "courses": [1, 2]}) == (Meal("lunch", (1, 2)), [])


def test_all_problems_are_found_with_their_paths() -> None:
    _, problems = read({"courses": [1, "two"], "nam": "lunch"})
    assert problems == [
        'courses[1]: is "two"; must be an integer',
        "nam: is not a field; must be name or courses (did you mean name?)",
        "name: is missing; must be a string",
    ]


@pytest.mark.parametrize("raw", [0, True, "", "1m1h", "90", 1.5, None, "99999999999h"])
def test_what_is_no_duration_is_none(raw: object) -> None:
    assert duration(raw) is None


def test_a_long_value_is_cut() -> None:
    assert shown("x" * 100) == f'"{"x" * 59}…'
