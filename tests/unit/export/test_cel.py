"""CEL that finds places; tests on a real API server show what it finds."""

from webhook.export.cel import MESSAGE, POINTER, Variables, field, literal, text, union, value
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
    variables = Variables(MESSAGE, {"spec": {"templates": [{}]}}, ROOTS)
    first = variables.places(("spec", "templates", EVERY))
    assert variables.places(("spec", "templates", EVERY)) == first == "variables.spec_templates"
    assert [one["name"] for one in variables.list] == ["objects", "spec_templates"]


def test_the_paths_of_a_set_are_those_of_messages_or_pointers() -> None:
    pattern = ("metadata", "annotations")
    of_messages = Variables(MESSAGE, {}, ROOTS)
    of_messages.places(pattern)
    assert "{p + 'metadata.annotations': " in of_messages.list[-1]["expression"]
    of_pointers = Variables(POINTER, {}, ROOTS)
    of_pointers.places(pattern)
    assert "{p + '/metadata/annotations': " in of_pointers.list[-1]["expression"]


def test_a_key_with_a_slash_is_written_in_brackets_or_escaped() -> None:
    variables = Variables(MESSAGE, {}, ROOTS)
    assert variables.path(["annotations", "a.b/c"], first=True) == "annotations[a.b/c]"
    assert Variables(POINTER, {}, ROOTS).path(["a/b~c"], first=True) == "/a~1b~0c"


def test_the_entries_of_a_map_are_named_by_their_keys() -> None:
    variables = Variables(MESSAGE, {"nodes": {ANY_KEY: {}}}, ROOTS)
    variables.places(("nodes", EVERY))
    assert "{p + 'nodes' + '.' + i: e}" in variables.list[-1]["expression"]


def test_what_is_nested_too_deeply_is_a_set_of_its_own() -> None:
    inner = Nested((("tasks", EVERY, "inner"),))
    variables = Variables(MESSAGE, {"spec": {"tasks": [{"inner": {}}]}}, ROOTS)
    assert variables.places(("spec", inner)) == "variables.levels"
    assert len(variables.too_deep) == 1
    assert variables.too_deep[0] not in variables.list[-1]["expression"]


def test_the_union_of_one_set_is_the_set() -> None:
    assert union(["variables.a"]) == "variables.a"
    assert union(["variables.a", "variables.b"]).startswith("[variables.a, variables.b].")
