"""YAML, decoded as by Kubernetes. The expected values were produced by go-yaml v2 and sigs.k8s.io/yaml."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.costs import assert_grows_with_its_input
from webhook.objects import strict_yaml
from webhook.objects.bounds import MAX_KEY
from webhook.objects.problem import Problem
from webhook.objects.strict_yaml import YamlError


def only(text: str, *, strict: bool = False) -> tuple[Any, list[Problem]]:
    """Decode a text with one document."""
    (document,) = strict_yaml.read(text, strict=strict)
    return document


def value(text: str) -> Any:
    return only(text)[0]


def problems(text: str) -> list[str]:
    return [str(problem) for problem in only(text, strict=True)[1]]


def failure(text: str) -> YamlError:
    with pytest.raises(YamlError) as raised:
        list(strict_yaml.read(text))
    return raised.value


def same(left: Any, right: Any) -> bool:
    """Return True if two values are equal in JSON, where true is not 1."""
    return json.dumps(left) == json.dumps(right)


SCALARS: dict[str, Any] = {
    # no timestamps, and no numbers to base 60
    "2001-01-01": "2001-01-01",
    "2001-12-14T21:59:43Z": "2001-12-14T21:59:43Z",
    "12:30:45": "12:30:45",
    "1:30": "1:30",
    # integers
    "0": 0,
    "-0": 0,
    "+5": 5,
    "1_000": 1000,
    "0x1F": 31,
    "0x_f": 15,
    "-0b11": -3,
    "0o17": 15,
    "017": 15,
    "9223372036854775807": 9223372036854775807,
    "18446744073709551615": 18446744073709551615,
    "18446744073709551616": 18446744073709551616.0,
    "0777777777777777777777777": 7.777777777777778e23,
    "0xfffffffffffffffff": "0xfffffffffffffffff",
    "0x": "0x",
    "_1": "_1",
    # numbers; those without a fraction are integers in kubectl's JSON
    "08": 8,
    "1e3": 1000,
    "1E-2": 0.01,
    "6.0": 6,
    "-0.0": 0,
    "1.": 1,
    "1.10": 1.1,
    ".5": 0.5,
    "+.5": 0.5,
    "1e400": "1e400",
    "._5": "._5",
    ".e5": ".e5",
    "1.2.3": "1.2.3",
    ".": ".",
    # words
    "": None,
    "~": None,
    "Null": None,
    "nULL": "nULL",
    "y": True,
    "N": False,
    "yes": True,
    "Off": False,
    "True": True,
    "tRue": "tRue",
    "=": "=",
    # quotes and tags
    '"5"': "5",
    "'yes'": "yes",
    '""': "",
    "! 5": "5",
    "!!str 5": "5",
    '!!int "5"': 5,
    "!!float 5": 5,
    "!!bool yes": True,
    "!!null ~": None,
    "!Ref x": "x",
    "!!timestamp 2001-01-01": "2001-01-01",
}


@pytest.mark.parametrize(("text", "expected"), SCALARS.items())
@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
def test_a_scalar_is_decoded_as_by_kubernetes(
    text: str, expected: object, loader: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_yaml, "Loader", loader)
    assert same(value(f"a: {text}"), {"a": expected})


@pytest.mark.parametrize("text", [".inf", "-.INF", "+.Inf", ".nan", "!!float .nan", "[.NaN]", "{.inf: 1}"])
def test_a_value_that_json_does_not_have_is_refused(text: str) -> None:
    assert "not allowed in JSON" in failure(f"a: {text}").what


@pytest.mark.parametrize("text", ["!!int x", "!!int 5.5", "!!int true", "!!bool 1", "!!null 0", "!!binary aGk="])
def test_a_value_that_does_not_fit_its_tag_is_refused(text: str) -> None:
    assert failure(f"a: {text}").line == 1


def test_keys_become_strings_as_in_kubernetes() -> None:
    keys = value('{1: a, on: a, n: a, 0x10: a, 1.10: a, 3.0: a, "<<": a, 2001-01-01: a}')
    assert list(keys) == ["1", "true", "false", "16", "1.1", "3", "<<", "2001-01-01"]


@pytest.mark.parametrize("text", ["~: a", ": a", "[a]: b", "? {a: b}\n: c", "a: &x [1]\n*x : b", "? " * 20_000])
def test_a_key_that_cannot_become_a_string_is_refused(text: str) -> None:
    assert "key" in failure(text).what


def test_the_last_of_several_equal_keys_is_used_and_each_repetition_is_a_problem() -> None:
    read, found = only("a: 1\nb:\n- {c: 1, c: 2}\na: 3\na: 4\n")
    assert read == {"a": 4, "b": [{"c": 2}]}
    assert [str(problem) for problem in found] == [
        "b[0].c: is written twice, again in line 3; keep one",
        "a: is written twice, again in line 4; keep one",
        "a: is written twice, again in line 5; keep one",
    ]


def test_keys_that_become_equal_strings_are_duplicates() -> None:
    assert len(only('yes: 1\n"true": 2')[1]) == 1


def test_an_alias_is_a_copy() -> None:
    read = value("a: &x {b: [1]}\nc: *x\nd: [*x, *x]\n")
    assert read == {"a": {"b": [1]}, "c": {"b": [1]}, "d": [{"b": [1]}, {"b": [1]}]}
    read["a"]["b"].append(2)
    read["d"][0]["b"].append(3)
    assert read == {"a": {"b": [1, 2]}, "c": {"b": [1]}, "d": [{"b": [1, 3]}, {"b": [1]}]}


def test_an_alias_refers_to_the_nearest_anchor_before_it() -> None:
    assert value("a: &x 1\nb: &x 2\nc: *x\nd: &x {e: &x 3}\nf: *x\n")["f"] == 3


@pytest.mark.parametrize(
    "text", ["*x", "&x [*x]", "&x {a: *x}", "a: 1\n--- \n*a", "&x 1\n---\n*x", "&x 1\n---\n[&x [*x]]"]
)
def test_an_alias_without_a_complete_anchor_is_refused(text: str) -> None:
    assert failure(text).remedy == "write the value out"


def test_objects_are_merged_as_in_kubernetes() -> None:
    assert value("a: &a {c: 1, d: 1}\nb: {<<: *a, c: 2}")["b"] == {"c": 2, "d": 1}
    assert value("a: &a {c: 1, d: 1}\nb: {c: 2, <<: *a}")["b"] == {"c": 1, "d": 1}
    assert value("b: {<<: [{c: 1}, {c: 2, d: 2}]}")["b"] == {"c": 1, "d": 2}
    assert value("b: {<<: {<<: {c: 1}, d: 2}}")["b"] == {"c": 1, "d": 2}


def test_a_key_of_a_merge_and_of_the_object_is_not_a_duplicate() -> None:
    assert only("a: &a {x: 1}\nb: {<<: *a, x: 2}")[1] == []


def test_a_merged_object_is_a_copy() -> None:
    read = value("a: &a {x: [1]}\nb: {<<: *a}\nc: {<<: *a}")
    read["b"]["x"].append(2)
    assert (read["a"], read["c"]) == ({"x": [1]}, {"x": [1]})


@pytest.mark.parametrize("text", ["{<<: 1}", "{<<: [1]}", "{<<: [[{a: 1}]]}", "{a: &a 1, <<: *a}"])
def test_only_objects_can_be_merged(text: str) -> None:
    assert failure(text).remedy == "merge an object or a list of objects"


def test_a_strict_reader_reports_aliases_merges_tags_and_keys_that_are_not_strings() -> None:
    assert problems("a: &x {b: !!str 1}\nc: *x\nd:\n  <<: {e: 1}\n  on: 1\n  1: 1\nf: !x [1]\n") == [
        "a.b: has a tag (line 1); leave it out",
        "c: is an alias (line 2); write the value out",
        "d.<<: merges another object (line 4); write its fields out",
        "d.true: is a key that is not a string (line 5); put it in quotes",
        "d.1: is a key that is not a string (line 6); put it in quotes",
        "f: has a tag (line 7); leave it out",
    ]


def test_a_strict_reader_accepts_an_anchor_without_an_alias() -> None:
    assert problems("a: &x 1") == []


def test_each_document_is_decoded_separately() -> None:
    read = list(strict_yaml.read("# first\n---\na: 1\na: 2\n---\n# nothing\n---\nb: 1\n...\n%YAML 1.1\n---\n- 1\n"))
    assert [one for one, _ in read] == [{"a": 2}, None, {"b": 1}, [1]]
    assert [len(found) for _, found in read] == [1, 0, 0, 0]


def test_documents_before_an_error_are_decoded() -> None:
    documents = strict_yaml.read("a: 1\n---\nb: [\n")
    assert next(documents) == ({"a": 1}, [])
    with pytest.raises(YamlError):
        next(documents)


def test_a_byte_order_mark_and_windows_line_ends_are_accepted() -> None:
    assert value("\ufeffa: 1\r\nb: |\r\n  x\r\n  y\r\n") == {"a": 1, "b": "x\ny\n"}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a: |\n  x", "x\n"),
        ("a: |\r\n  x", "x\n"),
        ("a: |+\n  x", "x\n"),
        ("a: >\n  x\n  y", "x y\n"),
        ("a: |-\n  x", "x"),
        ("a: |\n  x\n   ", "x\n \n"),
        ("a: |\n  x\n", "x\n"),
        ("a: |\n  x\n\n", "x\n"),
        ("a: |+\n  x\n\n", "x\n\n"),
        ("a: x", "x"),
    ],
)
def test_a_block_at_the_end_of_a_text_without_a_newline_gets_one(text: str, read: str) -> None:
    """kubectl's reader ends every line with a newline (k8s.io/apimachinery, pkg/util/yaml)."""
    assert value(text) == {"a": read}


BILLION_LAUGHS = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)
BIG_STRING = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 100)}]\n"


@pytest.mark.parametrize("text", [BILLION_LAUGHS, BIG_STRING])
def test_aliases_that_expand_too_much_are_refused(text: str) -> None:
    assert failure(text).what == "the aliases expand to too much data"


def test_what_is_no_alias_does_not_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_yaml, "ALIASES_ADD", 1000)
    assert len(value("- a\n" * 2000)) == 2000


def test_the_limit_for_aliases_applies_to_all_documents_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_yaml, "ALIASES_ADD", 1000)
    text = f"a: &a {'x' * 600}\nb: *a\n"
    assert value(text)["b"] == "x" * 600
    assert failure(f"{text}---\n{text}").what == "the aliases expand to too much data"


MANY = {
    "scalars": "- a\n",
    "keys": "- a: 1\n",
    "lists in brackets": "- [[], []]\n",
    "documents": "a\n---\n",
    "null documents": "---\n",
    "aliases": "- &a a\n- *a\n",
}


@pytest.mark.parametrize("unit", MANY.values(), ids=MANY)
def test_too_many_values_are_refused(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_yaml, "MOST_VALUES", 1000)
    assert list(strict_yaml.read(unit * 100))
    assert failure(unit * 1100).remedy == "split the file"


def test_an_object_counts_as_three_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_yaml, "MOST_VALUES", 3 + 5 * (3 + 2))
    assert len(value("- a: 1\n" * 5)) == 5
    assert failure("- a: 1\n" * 6).line == 6


def test_too_many_directives_are_refused() -> None:
    text = "".join(f"%TAG !a{number}! b\n" for number in range(200_000))
    error = failure(f"{text}---\na: 1\n")
    assert (error.line, error.remedy) == (101, "remove the %YAML line")
    assert value("a: |\n" + "  %\n" * 200)
    assert list(strict_yaml.read("%YAML 1.1\n---\na: 1\n...\n" * 100))


def test_the_number_of_problems_of_a_document_is_limited() -> None:
    assert len(only("- {a: 1, a: 2}\n" * 2000)[1]) == 1000
    assert len(only("- !t a\n" * 2000, strict=True)[1]) == 1000


def test_a_long_duplicate_key_is_cut_in_its_problem() -> None:
    key = "x" * 900
    (problem,) = only(f"{key}:\n  a: 1\n  a: 2\n")[1]
    assert str(problem) == f"[{'x' * MAX_KEY}…].a: is written twice, again in line 3; keep one"


GROWING = {
    **MANY,
    "keys written twice": "- {a: 1, a: 2}\n",
    "merges": "- &a {b: 1}\n- {<<: *a}\n- <<: [*a, *a]\n",
    "objects deep down": "- {a: {a: {a: {a: {a: {a: 1}}}}}}\n",
    "strings": "- 'it''s a string of some length, as messages are'\n",
    "numbers": "- 1_000.5e3\n",
    "lines of one string": "  a\n",
    "blank lines": "\n",
    "comments": "# a\n",
}


@pytest.mark.parametrize("unit", GROWING.values(), ids=GROWING)
def test_the_cost_of_decoding_grows_in_proportion_to_the_text(unit: str) -> None:
    assert_grows_with_its_input(lambda text: list(strict_yaml.read(text)), lambda n: unit * n, 60)


@pytest.mark.parametrize("unit", ["a: 1\n", "\n", "- a\n"])
def test_the_cost_of_an_error_grows_in_proportion_to_the_text(unit: str) -> None:
    assert_grows_with_its_input(lambda text: failure(f"{text}a: b: c\n{text}"), lambda n: unit * n, 60)


def test_the_cost_of_equal_or_different_keys_grows_in_proportion_to_the_text() -> None:
    assert_grows_with_its_input(only, lambda n: "a: 1\n" * n, 100)
    assert_grows_with_its_input(only, lambda n: "".join(f"{number}: 1\n" for number in range(n)), 100)


def nested(depth: int) -> dict[str, str]:
    return {
        "lists in brackets": "[" * depth + "]" * depth,
        "objects in braces": "{a: " * depth + "}" * depth,
        "lists": "- " * depth + "a",
        "objects": "".join(f"{' ' * level}a:\n" for level in range(depth)) + " " * depth + "b",
    }


@pytest.mark.parametrize("text", nested(100).values(), ids=nested(100))
def test_a_document_with_the_maximum_number_of_levels_is_decoded(text: str) -> None:
    assert value(text)


ALIASES = (
    "a: &a " + "[" * 60 + "]" * 60 + "\nb: &b " + "[" * 30 + "*a" + "]" * 30 + "\nc: " + "[" * 30 + "*b" + "]" * 30
)
TOO_DEEP = {f"{name}, {depth}": text for depth in (102, 5000) for name, text in nested(depth).items()}


@pytest.mark.parametrize("text", [*TOO_DEEP.values(), ALIASES], ids=[*TOO_DEEP, "aliases"])
def test_a_document_with_too_many_levels_is_refused(text: str) -> None:
    assert failure(text).what == "the document is nested more than 100 levels deep"


@pytest.mark.parametrize(
    ("text", "line", "column", "remedy"),
    [
        ("a:\n\tb: c\n", 2, 1, "indent with spaces, not with tabs"),
        ("a: b\n\tc: d\n", 2, 1, "indent with spaces, not with tabs"),
        ("a: 1\nb: c: d\n", 2, 5, 'put a value that contains ": " in quotes, or correct the indentation'),
        ("a: 1\n b: 2\n", 2, 3, 'put a value that contains ": " in quotes, or correct the indentation'),
        ("a: @b\n", 1, 4, "put a value that begins with a special character in quotes"),
        ('a: "b\nc: 1\n', 3, 1, "close the quote"),
        ("a: [1,\nb: 2\n", 3, 1, "correct the indentation, or close what is still open"),
        ("- a\nb: 1\n", 2, 1, "correct the indentation, or close what is still open"),
        ('{"a": 1}\n{"b": 2}\n', 2, 1, "put a line with --- between two documents, or correct the indentation"),
        ('a: "\\q"\n', 1, 5, "write what JSON allows after a backslash, or use single quotes"),
        ("a: [b:, c]\n", 1, 6, "put a value that ends with a colon in quotes"),
        ("%YAML 2.0\n---\na: 1\n", 1, 1, "remove the %YAML line"),
        ("a: \x07b\n", 1, 4, "remove it"),
        ("a: 1\nb: \ud800\n", 2, 4, "remove it"),
        ("a: 1\nb: {~: 1}\n", 2, 5, "write a name there"),
    ],
)
def test_an_error_has_line_column_and_remedy(text: str, line: int, column: int, remedy: str) -> None:
    error = failure(text)
    assert (error.line, error.column, error.remedy) == (line, column, remedy)
    assert str(error) == f"line {line}, column {column}: {error.what}; {remedy}"


def test_an_error_has_the_line_where_the_unclosed_part_begins() -> None:
    assert failure('a: 1\nb: "c\nd: 1\n').what.endswith("that begins in line 2")


TEMPLATES = [
    "name: {{ .Release.Name }}\n",
    "name: {{ .Values.name | quote }}\n",
    "- {{ . }}\n",
    "host: @{{ .Values.host }}\n",
    "{{/* a comment */}}\na: 1\n",
    "a: 1\n{{- if .Values.b }}\nb: 2\n{{- end }}\n",
    'labels:\n  {{- include "labels" . | nindent 2 }}\na: 1\n',
]


@pytest.mark.parametrize("text", TEMPLATES)
def test_the_remedy_for_a_template_is_to_render_it(text: str) -> None:
    assert failure(text).remedy == "render the template first (helm template), or put {{ }} in quotes"


def test_an_expression_in_quotes_or_in_a_text_is_not_a_template() -> None:
    assert value("a: '{{inputs.b}}'\nc: |\n  {{ d }}\ne: f-{{g}}\n") == {
        "a": "{{inputs.b}}",
        "c": "{{ d }}\n",
        "e": "f-{{g}}",
    }
    assert "helm" not in failure("a: '{{b}}'\nc: d: e\n").remedy


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def plain(read: Any) -> Any:
    """Write a number without a fraction as an integer, as kubectl does."""
    if isinstance(read, dict):
        return {key: plain(entry) for key, entry in read.items()}
    if isinstance(read, list):
        return [plain(entry) for entry in read]
    return int(read) if isinstance(read, float) and read.is_integer() and abs(read) < 2**63 else read


@given(JSON_VALUES)
def test_text_that_pyyaml_writes_is_decoded_to_the_same_value(written: Any) -> None:
    text = yaml.safe_dump(written, default_style='"', sort_keys=False)
    assert same(value(text), plain(written))


# The characters of YAML's grammar: texts of random letters would rarely be valid YAML.
CHARACTERS = "a1 \n[]{}|>'\"#%\t~\\=@\r\ufeff\x85\u2028"
WORDS = [": ", "- ", "? ", ", ", "&x ", "*x", "<<: ", "!!int ", "!t ", "---\n", "...\n", ".inf", "{{", "}}", "  "]
FRAGMENTS = st.sampled_from([*CHARACTERS, *WORDS])
TEXTS = st.text(st.characters(), max_size=50) | st.lists(FRAGMENTS, max_size=40).map("".join)


def read_or_fail(text: str, *, strict: bool) -> list[Any] | YamlError:
    try:
        return [one for one, _ in strict_yaml.read(text, strict=strict)]
    except YamlError as error:
        return error


@given(TEXTS, st.booleans())
@example("\ud800", False)  # noqa: FBT003 - an example is written as the test's arguments stand
def test_any_text_is_decoded_to_plain_json_or_is_an_error_with_a_position(text: str, strict: bool) -> None:  # noqa: FBT001 - drawn
    found = read_or_fail(text, strict=strict)
    if isinstance(found, YamlError):
        assert 1 <= found.line <= len(text.splitlines()) + 1
        assert found.column >= 1
        assert found.what
        assert found.remedy
    else:
        assert json.dumps(found, allow_nan=False)
