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


def test_a_new_key_is_added() -> None:
    editor = Editor({"a": {}})
    editor.set(("a", "b"), 1)
    assert editor.root == {"a": {"b": 1}}
    assert operations(editor) == [{"op": "add", "path": "/a/b", "value": 1}]


def test_an_existing_key_is_replaced_and_its_former_value_recorded() -> None:
    editor = Editor({"a": 1})
    editor.set(("a",), 2)
    assert editor.root == {"a": 2}
    assert operations(editor) == [{"op": "replace", "path": "/a", "value": 2}]
    assert editor.edits[0].was == 1


def test_null_is_replaced_and_null_can_be_set() -> None:
    editor = Editor({"a": None})
    editor.set(("a",), 1)
    editor.set(("b",), None)
    assert editor.root == {"a": 1, "b": None}
    assert operations(editor) == [
        {"op": "replace", "path": "/a", "value": 1},
        {"op": "add", "path": "/b", "value": None},
    ]


def test_setting_the_present_value_is_no_operation() -> None:
    editor = Editor({"a": {"b": [1, {"c": None}]}})
    editor.set(("a", "b"), [1, {"c": None}])
    assert editor.edits == []


def test_without_edits_the_patch_is_empty() -> None:
    assert Editor({}).patch() == b"[]"


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


def test_a_key_is_set_inside_a_list_entry() -> None:
    editor = Editor({"items": [{}, {"a": 1}]})
    editor.set(("items", 1, "a"), 2)
    editor.set(("items", 0, "b", "c"), 3)
    assert editor.root == {"items": [{"b": {"c": 3}}, {"a": 2}]}
    assert [(operation["op"], operation["path"]) for operation in operations(editor)] == [
        ("replace", "/items/1/a"),
        ("add", "/items/0/b"),
    ]


def test_keys_with_a_tilde_or_slash_are_escaped() -> None:
    editor = Editor({"a~b": {}, "m~n/o": 1})
    editor.set(("a~b", "c/d"), 1)
    editor.set(("a~b", "~1"), 2)
    editor.set(("",), 3)
    editor.remove(("m~n/o",))
    assert [operation["path"] for operation in operations(editor)] == ["/a~0b/c~1d", "/a~0b/~01", "/", "/m~0n~1o"]


def test_a_value_is_encoded_at_once_and_later_edits_are_separate_operations() -> None:
    editor = Editor({})
    editor.set(("rules",), [{"action": "Ignore"}])
    editor.set(("rules", 0, "action"), "Count")
    editor.append(("rules",), {"action": "FailJob"})
    assert operations(editor) == [
        {"op": "add", "path": "/rules", "value": [{"action": "Ignore"}]},
        {"op": "replace", "path": "/rules/0/action", "value": "Count"},
        {"op": "add", "path": "/rules/1", "value": {"action": "FailJob"}},
    ]
    assert editor.root == {"rules": [{"action": "Count"}, {"action": "FailJob"}]}


def test_update_creates_an_absent_object_in_one_operation() -> None:
    editor = Editor({"metadata": {}})
    editor.update(("metadata", "labels"), {"a": "1", "b": "2"})
    assert operations(editor) == [{"op": "add", "path": "/metadata/labels", "value": {"a": "1", "b": "2"}}]


def test_update_replaces_a_null_object_in_one_operation() -> None:
    editor = Editor({"labels": None})
    editor.update(("labels",), {"a": "1", "b": "2"})
    assert operations(editor) == [{"op": "replace", "path": "/labels", "value": {"a": "1", "b": "2"}}]


def test_update_sets_each_key_of_an_object_and_leaves_the_others() -> None:
    editor = Editor({"labels": {"a": "1", "z": "9", "same": "s"}})
    editor.update(("labels",), {"a": "2", "b": "3", "same": "s"})
    assert editor.root == {"labels": {"a": "2", "z": "9", "same": "s", "b": "3"}}
    assert operations(editor) == [
        {"op": "replace", "path": "/labels/a", "value": "2"},
        {"op": "add", "path": "/labels/b", "value": "3"},
    ]


def test_update_without_entries_is_no_operation() -> None:
    editor = Editor({})
    editor.update(("metadata", "labels"), {})
    assert (editor.root, editor.edits) == ({}, [])


def test_insert_puts_a_value_before_an_index() -> None:
    editor = Editor({"rules": [1, 2]})
    editor.insert(("rules",), 0, 0)
    editor.insert(("rules",), 2, 1.5)
    assert editor.root == {"rules": [0, 1, 1.5, 2]}
    assert operations(editor) == [
        {"op": "add", "path": "/rules/0", "value": 0},
        {"op": "add", "path": "/rules/2", "value": 1.5},
    ]


def test_append_puts_a_value_last() -> None:
    editor = Editor({"rules": [1]})
    editor.append(("rules",), 2)
    editor.append(("rules",), 3)
    assert editor.root == {"rules": [1, 2, 3]}
    assert [operation["path"] for operation in operations(editor)] == ["/rules/1", "/rules/2"]


def test_append_to_an_empty_list_goes_to_index_0() -> None:
    editor = Editor({"rules": []})
    editor.append(("rules",), 1)
    assert operations(editor) == [{"op": "add", "path": "/rules/0", "value": 1}]


@pytest.mark.parametrize("root", [{}, {"spec": None}, {"spec": {}}, {"spec": {"rules": None}}])
def test_insert_and_append_create_an_absent_list_with_the_value(root: Json) -> None:
    appended, inserted = Editor(deepcopy(root)), Editor(deepcopy(root))
    appended.append(("spec", "rules"), 1)
    inserted.insert(("spec", "rules"), 0, 1)
    for editor in (appended, inserted):
        assert editor.root == {"spec": {"rules": [1]}}
        assert len(editor.edits) == 1
        assert jsonpatch.apply_patch(deepcopy(root), operations(editor)) == editor.root


def test_remove_removes_a_key_and_records_its_value() -> None:
    editor = Editor({"a": {"b": 1, "c": 2}})
    editor.remove(("a", "b"))
    assert editor.root == {"a": {"c": 2}}
    assert operations(editor) == [{"op": "remove", "path": "/a/b"}]
    assert editor.edits[0].was == 1


def test_remove_removes_a_list_entry() -> None:
    editor = Editor({"a": [1, 2, 3]})
    editor.remove(("a", 1))
    assert editor.root == {"a": [1, 3]}
    assert operations(editor) == [{"op": "remove", "path": "/a/1"}]


def test_remove_removes_null() -> None:
    editor = Editor({"a": None})
    editor.remove(("a",))
    assert (editor.root, operations(editor)) == ({}, [{"op": "remove", "path": "/a"}])


@pytest.mark.parametrize("root", [{}, {"a": None}, {"a": {}}])
def test_remove_of_an_absent_key_does_nothing(root: Json) -> None:
    editor = Editor(deepcopy(root))
    editor.remove(("a", "b"))
    assert (editor.root, editor.edits) == (root, [])


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
