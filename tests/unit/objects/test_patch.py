"""The Editor, whose JSON Patch must contain its edits (RFC 6902), and paths as JSON Pointers (RFC 6901)."""

from copy import deepcopy
from typing import Any

import jsonpatch
import jsonpointer
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.patch import Editor, at, path_of, pointer
from webhook.objects.problem import Json, Path

ANNOTATION: Path = ("metadata", "annotations", "retry-policy.dev/skip")


def operations(editor: Editor) -> list[Json]:
    patch: list[Json] = msgspec.json.decode(editor.patch())
    return patch


# By what they show: an object, edits, and their operations. That these lead to the edited object is shown below.
EDITS: dict[str, tuple[Json, list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    "a new key": ({"a": {}}, [("set", ("a", "b"), 1)], [("add", "/a/b", 1)]),
    "an existing key": ({"a": 1}, [("set", ("a",), 2)], [("replace", "/a", 2)]),
    "null before": ({"a": None}, [("set", ("a",), 1)], [("replace", "/a", 1)]),
    "null after": ({}, [("set", ("b",), None)], [("add", "/b", None)]),
    "the present value": ({"a": {"b": [1, {"c": None}]}}, [("set", ("a", "b"), [1, {"c": None}])], []),
    "no edit": ({}, [], []),
    "a key in a list entry": (
        {"items": [{}, {"a": 1}]},
        [("set", ("items", 1, "a"), 2), ("set", ("items", 0, "b", "c"), 3)],
        [("replace", "/items/1/a", 2), ("add", "/items/0/b", {"c": 3})],
    ),
    "keys with a tilde or slash": (
        {"a~b": {}, "m~n/o": 1},
        [("set", ("a~b", "c/d"), 1), ("set", ("a~b", "~1"), 2), ("set", ("",), 3), ("remove", ("m~n/o",))],
        [("add", "/a~0b/c~1d", 1), ("add", "/a~0b/~01", 2), ("add", "/", 3), ("remove", "/m~0n~1o")],
    ),
    "a value that is edited later": (
        {},
        [
            ("set", ("rules",), [{"action": "Ignore"}]),
            ("set", ("rules", 0, "action"), "Count"),
            ("append", ("rules",), {"action": "FailJob"}),
        ],
        [
            ("add", "/rules", [{"action": "Ignore"}]),
            ("replace", "/rules/0/action", "Count"),
            ("add", "/rules/1", {"action": "FailJob"}),
        ],
    ),
    "an update of nothing": (
        {"a": {}},
        [("update", ("a", "b"), {"c": 1, "d": 2})],
        [("add", "/a/b", {"c": 1, "d": 2})],
    ),
    "an update of null": ({"a": None}, [("update", ("a",), {"c": 1, "d": 2})], [("replace", "/a", {"c": 1, "d": 2})]),
    "an update of an object": (
        {"a": {"b": 1, "z": 9, "same": 0}},
        [("update", ("a",), {"b": 2, "c": 3, "same": 0})],
        [("replace", "/a/b", 2), ("add", "/a/c", 3)],
    ),
    "an update without entries": ({}, [("update", ("a", "b"), {})], []),
    "an insertion before an index": (
        {"a": [1, 2]},
        [("insert", ("a",), 0, 0), ("insert", ("a",), 2, 1.5)],
        [("add", "/a/0", 0), ("add", "/a/2", 1.5)],
    ),
    "an addition to a list": (
        {"a": [1]},
        [("append", ("a",), 2), ("append", ("a",), 3)],
        [("add", "/a/1", 2), ("add", "/a/2", 3)],
    ),
    "an addition to an empty list": ({"a": []}, [("append", ("a",), 1)], [("add", "/a/0", 1)]),
    "a removed key": ({"a": {"b": 1, "c": 2}}, [("remove", ("a", "b"))], [("remove", "/a/b")]),
    "a removed list entry": ({"a": [1, 2, 3]}, [("remove", ("a", 1))], [("remove", "/a/1")]),
    "a removed null": ({"a": None}, [("remove", ("a",))], [("remove", "/a")]),
    "no parent of what is removed": ({}, [("remove", ("a", "b"))], []),
    "a null parent of what is removed": ({"a": None}, [("remove", ("a", "b"))], []),
    "nothing that is removed": ({"a": {}}, [("remove", ("a", "b"))], []),
}


@pytest.mark.parametrize(("root", "edits", "expected"), EDITS.values(), ids=EDITS)
def test_edits_become_operations(root: Json, edits: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    before = deepcopy(root)
    editor = Editor(deepcopy(root))
    for name, *arguments in edits:
        getattr(editor, name)(*arguments)
    assert [tuple(operation.values()) for operation in operations(editor)] == expected
    assert jsonpatch.apply_patch(before, operations(editor)) == editor.root


def test_the_value_before_an_edit_is_recorded() -> None:
    editor = Editor({"a": 1, "b": 2})
    editor.set(("a",), 3)
    editor.remove(("b",))
    assert [edit.was for edit in editor.edits] == [1, 2]


@pytest.mark.parametrize(
    ("root", "operation"),
    [
        ({}, {"op": "add", "path": "/metadata", "value": {"annotations": {"retry-policy.dev/skip": "true"}}}),
        (
            {"metadata": None},
            {"op": "replace", "path": "/metadata", "value": {"annotations": {"retry-policy.dev/skip": "true"}}},
        ),
        (
            {"metadata": {"name": "a"}},
            {"op": "add", "path": "/metadata/annotations", "value": {"retry-policy.dev/skip": "true"}},
        ),
        (
            {"metadata": {"annotations": None}},
            {"op": "replace", "path": "/metadata/annotations", "value": {"retry-policy.dev/skip": "true"}},
        ),
        (
            {"metadata": {"annotations": {}}},
            {"op": "add", "path": "/metadata/annotations/retry-policy.dev~1skip", "value": "true"},
        ),
    ],
    ids=["no parents", "null parent of parents", "no parent", "null parent", "all parents"],
)
def test_parents_that_are_absent_or_null_are_created_in_the_same_operation(root: Json, operation: Json) -> None:
    before = deepcopy(root)
    editor = Editor(root)
    editor.set(ANNOTATION, "true")
    assert at(root, ANNOTATION) == "true"
    assert operations(editor) == [operation]
    assert jsonpatch.apply_patch(before, operations(editor)) == root


@pytest.mark.parametrize("root", [{}, {"spec": None}, {"spec": {}}, {"spec": {"rules": None}}])
def test_insert_and_append_create_an_absent_list_with_the_value(root: Json) -> None:
    appended, inserted = Editor(deepcopy(root)), Editor(deepcopy(root))
    appended.append(("spec", "rules"), 1)
    inserted.insert(("spec", "rules"), 0, 1)
    for editor in (appended, inserted):
        assert editor.root == {"spec": {"rules": [1]}}
        assert len(editor.edits) == 1
        assert jsonpatch.apply_patch(deepcopy(root), operations(editor)) == editor.root


ROOT: Json = {"a": {"b/c": [1, {"~": None}]}, "": 5}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), ROOT),
        (("a", "b/c", 0), 1),
        (("a", "b/c", 1), {"~": None}),
        (("",), 5),
        (("a", "b/c", 1, "~"), None),
        (("a", "b/c", 2), None),
        (("a", "x", "y"), None),
        (("a", 0), None),
        (("a", "b/c", "0"), None),
        (("", "x"), None),
        (("a", "b/c", 0, 0), None),
    ],
)
def test_at_returns_the_value_or_none(path: Path, value: Any) -> None:
    assert at(ROOT, path) == value


POINTERS: dict[str, Path] = {
    "": (),
    "/a": ("a",),
    "/": ("",),
    "/a/b~1c/0": ("a", "b/c", 0),
    "/a/b~1c/1/~0": ("a", "b/c", 1, "~"),
    "/a/b~1c/7/x": ("a", "b/c", 7, "x"),
    "/~01": ("~1",),
    "/x/0": ("x", "0"),
}


@pytest.mark.parametrize(("text", "path"), POINTERS.items())
def test_a_number_in_a_pointer_is_an_index_if_the_object_has_a_list_there(text: str, path: Path) -> None:
    assert path_of(text, ROOT) == path
    assert pointer(path) == text


@pytest.mark.parametrize("text", ["/a/b~1c/-", "/a/b~1c/x", "/a/b~1c/-1", "/a/b~1c/", "/a/b~1c/0.5"])
def test_a_pointer_without_an_index_for_a_list_has_no_path(text: str) -> None:
    assert path_of(text, ROOT) is None


KEYS = st.text(st.sampled_from("a~/01é"), max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(KEYS))
def test_a_pointer_equals_that_of_a_library(keys: list[str]) -> None:
    assert pointer(tuple(keys)) == jsonpointer.JsonPointer.from_parts(keys).path
    assert path_of(pointer(tuple(keys)), {}) == tuple(keys)


def objects_in(value: Any, path: Path = ()) -> list[Path]:
    """Yield every path at which a key may be set."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    own: list[Path] = [path] if isinstance(value, dict) else []
    return own + [place for key, entry in inner for place in objects_in(entry, (*path, key))]


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.data())
def test_the_patch_applied_to_the_original_gives_the_edited_object(root: Json, data: st.DataObject) -> None:
    before = deepcopy(root)
    editor = Editor(root)
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.sampled_from(objects_in(root)))
        path = (*place, data.draw(KEYS))
        old, value = at(root, path), data.draw(VALUES)
        step = data.draw(st.sampled_from(["set", "set below", "update", "append", "insert", "remove"]))
        if step == "set":
            editor.set(path, value)
        elif step == "set below" and old is None:
            editor.set((*path, *data.draw(st.lists(KEYS, min_size=1, max_size=3))), value)
        elif step == "update" and isinstance(old, dict | None):
            editor.update(path, data.draw(st.dictionaries(KEYS, VALUES, max_size=3)))
        elif step == "append" and isinstance(old, list | None):
            editor.append(path, value)
        elif step == "insert" and isinstance(old, list | None):
            editor.insert(path, data.draw(st.integers(0, len(old or ()))), value)
        elif step == "remove":
            editor.remove(path)
    assert jsonpatch.apply_patch(before, operations(editor)) == root
