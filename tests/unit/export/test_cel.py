"""CEL that finds places; tests on a real API server show what it finds."""

from webhook.export.cel import Variables, field, literal, path_of_keys, text, union, value
from webhook.objects.patch import EVERY, Nested
from webhook.objects.shape import ANY_KEY

ROOTS = "{'': dyn(object)}"


def test_a_text_is_quoted() -> None:
    assert text("it's \\ here") == "'it\\'s \\\\ here'"


def test_a_literal_allows_values_of_different_types() -> None:
    assert literal({"a": [1, "b"], "c": True}) == "{'a': dyn([dyn(1), dyn('b')]), 'c': dyn(true)}"


def test_a_key_that_is_no_identifier_is_an_index() -> None:
    assert field(("spec", "f:x", "in")) == "o.?spec[?'f:x'][?'in']"
    assert value(()) == "o"


def test_a_set_is_computed_once() -> None:
    variables = Variables({"spec": {"templates": [{}]}}, ROOTS)
    first = variables.places(("spec", "templates", EVERY))
    assert variables.places(("spec", "templates", EVERY)) == first == "variables.spec_templates"
    assert [one["name"] for one in variables.list] == ["objects", "spec_templates"]


def test_the_paths_of_a_set_are_those_of_messages() -> None:
    variables = Variables({}, ROOTS)
    variables.places(("metadata", "annotations"))
    assert "{p + 'metadata.annotations': " in variables.list[-1]["expression"]


def test_a_key_with_a_slash_is_written_in_brackets() -> None:
    assert path_of_keys(["annotations", "a.b/c"], first=True) == "annotations[a.b/c]"


def test_the_entries_of_a_map_are_named_by_their_keys() -> None:
    variables = Variables({"nodes": {ANY_KEY: {}}}, ROOTS)
    variables.places(("nodes", EVERY))
    assert "{p + 'nodes' + '.' + i: e}" in variables.list[-1]["expression"]


def test_what_is_nested_too_deeply_is_a_set_of_its_own() -> None:
    inner = Nested((("tasks", EVERY, "inner"),))
    variables = Variables({"spec": {"tasks": [{"inner": {}}]}}, ROOTS)
    assert variables.places(("spec", inner)) == "variables.levels"
    assert len(variables.too_deep) == 1
    assert variables.too_deep[0] not in variables.list[-1]["expression"]


def test_the_union_of_one_set_is_the_set() -> None:
    assert union(["variables.a"]) == "variables.a"
    assert union(["variables.a", "variables.b"]).startswith("[variables.a, variables.b].")
