"""Editor: edits a raw object in place and records JSON Patch operations (RFC 6902)."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from webhook.objects import bounds
from webhook.objects.problem import Json, Path, Problem

LONGEST_INDEX: Final = 9  # digits of a list index; no list is longer
EVERY: Final = "*"  # in a pattern: each entry of a list, each value of a map
DEEPEST: Final = 8  # levels of a Nested part that are followed; shapes must refuse objects with more


class Nested(msgspec.Struct, frozen=True):
    """In a pattern: an object, the objects of the same type in it at one of `patterns`, and those in them."""

    patterns: tuple["Pattern", ...]


# A path in which EVERY and Nested may stand.
Pattern = tuple[str | int | Nested, ...]


class Edit(msgspec.Struct, frozen=True):
    """One recorded operation.

    `value` is JSON: it is encoded at once, because a later edit may change the object that contains it. `was` is the
    value that was replaced or removed, None if there was none. `rule` is the editor's `rule` at that moment.
    """

    rule: str
    op: str
    path: Path
    value: bytes | None
    was: Any


class Editor:
    """Edits `root` in place; `patch()` returns the same edits as a JSON Patch.

    Paths are tuples of keys and list indexes. A value that is set becomes part of `root` without a copy: callers pass
    values to which no other reference remains.
    """

    def __init__(self, root: Json) -> None:
        self.root = root
        self.rule = ""  # the name of the rule that makes the next edits
        self.edits: list[Edit] = []
        self.warned: list[tuple[str, Problem]] = []  # each warning of a rule, with the name of the rule

    def set(self, path: Path, value: Any) -> None:
        """Set the value at a path; parents that are absent or null are created in the same operation."""
        parent: Any = self.root
        for depth, part in enumerate(path[:-1]):
            child = parent[part] if isinstance(part, int) else parent.get(part)
            if child is None:
                for key in reversed(path[depth + 1 :]):
                    value = {key: value}
                path = path[: depth + 1]
                break
            parent = child
        self.put(parent, path, value)

    def put(self, parent: Any, path: Path, value: Any) -> None:
        """Set the value at a path of which `parent` is the parent object; no operation if it has this value already."""
        key = path[-1]
        if key in parent:
            if parent[key] == value:
                return
            self.edits.append(Edit(self.rule, "replace", path, encode(value), parent[key]))
        else:
            self.edits.append(Edit(self.rule, "add", path, encode(value), None))
        parent[key] = value

    def update(self, path: Path, entries: Json) -> None:
        """Set several keys of the object at a path: one operation if the object is absent, else one for each key."""
        if not entries:
            return
        parent = at(self.root, path)
        if parent is None:
            self.set(path, entries)
            return
        for key, value in entries.items():
            self.put(parent, (*path, key), value)

    def insert(self, path: Path, index: int, value: Any) -> None:
        """Insert a value into the list at a path, before `index`; create the list if it is absent or null."""
        self.insert_into(at(self.root, path), path, index, value)

    def append(self, path: Path, value: Any) -> None:
        """Append a value to the list at a path; create the list if it is absent or null."""
        items = at(self.root, path)
        self.insert_into(items, path, len(items or ()), value)

    def insert_into(self, items: list[Any] | None, path: Path, index: int, value: Any) -> None:
        """Insert a value into `items`, the list at a path; `items` is None if there is no list yet."""
        if items is None:
            self.set(path, [value])
            return
        self.edits.append(Edit(self.rule, "add", (*path, index), encode(value), None))
        items.insert(index, value)

    def remove(self, path: Path) -> None:
        """Remove the key or list entry at a path; do nothing if it is absent."""
        parent = at(self.root, path[:-1])
        key = path[-1]
        if parent is None or (isinstance(parent, dict) and key not in parent):
            return
        self.edits.append(Edit(self.rule, "remove", path, None, parent[key]))
        del parent[key]

    def patch(self) -> bytes:
        """Encode the recorded operations as a JSON Patch document."""
        return b"[%b]" % b",".join([start_of(edit.op, edit.path) + (edit.value or b"") + b"}" for edit in self.edits])


def at(root: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    value = root
    for part in path:
        if type(value) is dict:
            value = value.get(part)
        elif type(value) is list and type(part) is int and part < len(value):
            value = value[part]
        else:
            return None
    return value


def find(root: Any, pattern: Pattern, path: Path = (), depth: int = 0) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of everything in `root` that a pattern matches, except null.

    `path`: the path of `root`, with which all yielded paths begin. The caller may edit the yielded values while
    iterating, but may not add or remove entries of the lists and maps that EVERY in the pattern iterates over.
    """
    value = root
    for index, part in enumerate(pattern):
        rest = pattern[index + 1 :]
        if isinstance(part, Nested):
            yield from find(value, rest, path)
            for inner in part.patterns if depth < DEEPEST else ():
                for inner_path, inner_value in find(value, inner, path):
                    yield from find(inner_value, pattern[index:], inner_path, depth + 1)
            return
        if part == EVERY:
            keys = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
            for key in keys:
                yield from find(value[key], rest, (*path, key))
            return
        value = at(value, (part,))
        if value is None:
            return
        path = (*path, part)
    if value is not None:
        yield path, value


def fits(path: Path, pattern: Pattern) -> bool:
    """Return True if a pattern matches a path, or a parent of it."""
    for index, part in enumerate(pattern):
        if isinstance(part, Nested):
            rest = pattern[index + 1 :]
            return fits(path[index:], rest) or any(
                fits(path[index:], (*inner, *pattern[index:])) for inner in part.patterns
            )
        if index >= len(path) or part not in (EVERY, path[index]):
            return False
    return True


@lru_cache(maxsize=1000)
def start_of(op: str, path: Path) -> bytes:
    """Return the JSON of an operation up to its value; cached, because requests edit the same few paths."""
    start = encode({"op": op, "path": pointer(path)})[:-1]
    return start if op == "remove" else start + b',"value":'


@lru_cache(maxsize=1000)
def pointer(path: Path) -> str:
    """Return a path as a JSON Pointer (RFC 6901)."""
    text = "/" + "/".join(map(str, path))
    if path and "~" not in text and text.count("/") == len(path):
        return text  # no part needs escaping, as in most paths
    return "".join(
        f"/{part}" if isinstance(part, int) else "/" + part.replace("~", "~0").replace("/", "~1") for part in path
    )


def unless_changed(root: Json) -> Json:
    """Return an operation that makes a JSON Patch fail if the object has changed since it was read."""
    return {"op": "replace", "path": "/metadata/resourceVersion", "value": root["metadata"]["resourceVersion"]}


def path_of(text: str, root: Any) -> Path | None:
    """Return the path that a JSON Pointer means in `root`: a part is a list index where `root` has a list, else a key.

    Return None if a part is not an index where `root` has a list, or if the pointer is longer than bounds.MAX_POINTER.
    """
    if len(text) > bounds.MAX_POINTER:
        return None
    path: list[str | int] = []
    value = root
    for part in text.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            if not key.isdecimal() or len(key) > LONGEST_INDEX:
                return None
            path.append(int(key))
            value = value[int(key)] if int(key) < len(value) else None
        else:
            path.append(key)
            value = value.get(key) if isinstance(value, dict) else None
    return tuple(path)


encode: Final = msgspec.json.Encoder().encode
