"""JSON, decoded as by kubectl, and the cost of decoding."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_grows_with_its_input
from webhook.objects import strict_json, strict_yaml
from webhook.objects.bounds import MAX_KEY
from webhook.objects.strict_json import JsonError

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # half of a surrogate pair is refused, see below
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=20,
)


def only(text: str) -> tuple[Any, list[str]]:
    ((value, problems),) = strict_json.read(text)
    return value, [str(problem) for problem in problems]


def failure(text: str) -> JsonError:
    with pytest.raises(JsonError) as raised:
        list(strict_json.read(text))
    return raised.value


@given(JSON_VALUES, st.booleans())
def test_text_that_python_encodes_is_decoded_to_the_same_value(value: Any, ascii_alone: bool) -> None:  # noqa: FBT001 - drawn
    read, problems = only(json.dumps(value, ensure_ascii=ascii_alone))
    assert json.dumps(read) == json.dumps(value)
    assert problems == []


def test_the_last_of_several_equal_keys_is_used_and_each_repetition_is_a_problem() -> None:
    assert only('{"a": 1, "b": [0, {"c": 1, "c": 2, "c": 3}], "a": {"d": 1, "d": 2}}') == (
        {"a": {"d": 2}, "b": [0, {"c": 3}]},
        [
            "a: is written twice; keep one",
            "a.d: is written twice; keep one",
            "b[1].c: is written twice; keep one",
        ],
    )


TEXTS_WITH_EQUAL_KEYS = st.recursive(
    st.just("0"),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")
        | st.lists(st.tuples(st.sampled_from("ab"), inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f'"{key}": {value}' for key, value in pairs) + "}"
        )
    ),
    max_leaves=15,
)


@given(TEXTS_WITH_EQUAL_KEYS)
def test_every_duplicate_key_in_the_decoded_value_is_reported_as_by_the_yaml_reader(text: str) -> None:
    (read,) = strict_yaml.read(text)
    ((value, problems),) = strict_json.read(text)
    assert value == read[0]
    by_yaml = {problem.path for problem in read[1]}  # including keys of a value that a later one replaces
    assert {problem.path for problem in problems} <= by_yaml
    assert bool(problems) == bool(by_yaml)


def test_each_of_several_values_in_a_text_has_its_own_problems() -> None:
    read = list(strict_json.read(' {"a": 1, "a": 2}\n{"b": 1}[3]4 '))
    assert [value for value, _ in read] == [{"a": 2}, {"b": 1}, [3], 4]
    assert [len(problems) for _, problems in read] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": 1}]', '{"a": NaN}', '{"a": Infinity}', "{'a': 1}", '{"a": 1,}', "{}\f"]
)
def test_text_that_is_not_json_is_an_error(text: str) -> None:
    if text:
        with pytest.raises(ValueError, match=r".*"):
            list(strict_json.read(text))
    else:
        assert list(strict_json.read(text)) == []


@pytest.mark.parametrize("depth", [101, 500, 5000])
@pytest.mark.parametrize(("opening", "closing"), [('{"a": ', "}"), ("[", "]")])
def test_json_with_too_many_levels_is_an_error(depth: int, opening: str, closing: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        list(strict_json.read(opening * depth + "1" + closing * depth))


def test_values_may_be_nested_as_deep_as_in_yaml() -> None:
    assert only("[" * 100 + "1" + "]" * 100)


def test_an_integer_beyond_64_bits_becomes_a_double_as_in_kubectl() -> None:
    assert only("[18446744073709551615, 18446744073709551616, -9223372036854775809, -5]")[0] == [
        18446744073709551615,
        18446744073709551616.0,
        -9223372036854775809.0,
        -5,
    ]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, "9" * 5000, "1" + "0" * 400 + ".5"])
def test_a_number_too_large_for_a_double_is_refused_with_its_first_digits(number: str) -> None:
    error = failure('{"a": [' + number + "]}")
    assert error.what.startswith(f"the number {number[:40]}")
    assert error.what.endswith(" is too large")
    assert len(str(error)) < 150


def test_whole_surrogate_pairs_are_characters() -> None:
    assert only(r'{"\ud83d\ude00": "\uD83D\uDE00 \\ud83d"}')[0] == {"😀": r"😀 \ud83d"}


@pytest.mark.parametrize("text", [r'{"a": "\ud83d"}', r'{"\ude00": 1}', r'["\ude00\ud83d"]', r'["x\uDFFF"]'])
def test_half_of_a_surrogate_pair_is_refused(text: str) -> None:
    assert "is half of a character" in failure(text).what


def test_too_many_objects_and_lists_are_refused_before_they_are_built() -> None:
    assert failure("[" + "[]," * 1_000_000 + "0]").what == "holds more than 1,000,000 objects and lists"


def test_the_number_of_reported_duplicate_keys_is_limited() -> None:
    assert len(only("[" + '{"a": 1, "a": 2},' * 2000 + "0]")[1]) == 1000
    keys = ", ".join(f'"{number}": 1, "{number}": 2' for number in range(2000))
    assert len(only(f"{{{keys}}}")[1]) == 1000


def test_a_long_duplicate_key_is_cut_in_its_problem() -> None:
    key = "x" * 100_000
    _, (problem,) = only(f'{{"{key}": {{"a": 1, "a": 2}}}}')
    assert problem == f"[{'x' * MAX_KEY}…].a: is written twice; keep one"


@pytest.mark.parametrize(
    "unit", ['{"a": 1, "a": {}},', '{"a": [1.5, "\\ud83d\\ude00"]},', '["Ā"],', '"\\\\ud83d",', "[[[[[[]]]]]],"]
)
def test_the_cost_of_decoding_grows_in_proportion_to_the_text(unit: str) -> None:
    assert_grows_with_its_input(lambda text: list(strict_json.read(text)), lambda n: f"[{unit * n} 0]", 300)


def test_the_cost_of_many_values_grows_in_proportion_to_the_text() -> None:
    assert_grows_with_its_input(lambda text: list(strict_json.read(text)), lambda n: "{}\n" * n, 200)


def test_the_cost_of_one_large_object_grows_in_proportion_to_the_text() -> None:
    def made(size: int) -> str:
        return "{" + ", ".join(f'"{number}": 1, "{number}": 2' for number in range(size)) + "}"

    assert_grows_with_its_input(lambda text: list(strict_json.read(text)), made, 1000)
