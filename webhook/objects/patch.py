"""Editor: edits a raw object in place and records JSON Patch operations (RFC 6902)."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from webhook.objects import bounds
from webhook.objects.problem import Json, Path

LONGEST_INDEX: Final = 9  # digits: no list is longer
EVERY: Final = "*"  # in a pattern: each entry of a list, each value of a map
DEEPEST: Final = 8  # how often a Nested part is followed; nobody nests more, and a shape must refuse who does


class Nested(msgspec.Struct, frozen=True):
    """In a pattern: the object itself, and the like that it holds at one of these patterns, and those in them."""

    patterns: tuple["Pattern", ...]


# A path in which EVERY and Nested may stand.
Pattern = tuple[str | int | Nested, ...]


class Edit(msgspec.Struct, frozen=True):
    """One recorded operation.

    `value` is encoded at once, because the live object it went into may be edited again. `was` is the replaced or
    removed value, None where there was none. `rule` is the editor's rule at that moment.
    """

    rule: str
    op: str
    path: Path
    value: bytes | None
    was: Any


class Editor:
    """Edits `root` in place; `patch()` says the same as a JSON Patch.

    Paths are tuples of keys and list indexes. What is set becomes part of the object and belongs to it from then on: a
    caller hands in values that nobody else holds.
    """

    def __init__(self, root: Json) -> None:
        self.root = root
        self.rule = ""  # whose edits the next ones are
        self.edits: list[Edit] = []

    def set(self, path: Path, value: Any) -> None:
        """Put a value under a key, whatever stood there; absent or null parents are made in the same operation."""
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
        """Put a value under the path's last key, which is one of `parent`."""
        key = path[-1]
        if key in parent:
            if parent[key] == value:
                return
            self.edits.append(Edit(self.rule, "replace", path, encode(value), parent[key]))
        else:
            self.edits.append(Edit(self.rule, "add", path, encode(value), None))
        parent[key] = value

    def update(self, path: Path, entries: Json) -> None:
        """Set several keys of one object: one operation if the object is absent, else one per key."""
        if not entries:
            return
        parent = at(self.root, path)
        if parent is None:
            self.set(path, entries)
            return
        for key, value in entries.items():
            self.put(parent, (*path, key), value)

    def insert(self, path: Path, index: int, value: Any) -> None:
        """Insert into a list before `index`; an absent or null list is made with the value in it."""
        self.insert_into(at(self.root, path), path, index, value)

    def append(self, path: Path, value: Any) -> None:
        """Append to a list; an absent or null list is made with the value in it."""
        items = at(self.root, path)
        self.insert_into(items, path, len(items or ()), value)

    def insert_into(self, items: list[Any] | None, path: Path, index: int, value: Any) -> None:
        """Insert into the list at a path, None where there is none."""
        if items is None:
            self.set(path, [value])
            return
        self.edits.append(Edit(self.rule, "add", (*path, index), encode(value), None))
        items.insert(index, value)

    def remove(self, path: Path) -> None:
        """Take a key or list entry out; nothing happens where it is absent."""
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
    """Return what stands at a path, None where nothing does."""
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
    """Yield everything but null that stands where a pattern says, each with its path, which begins with `path`.

    What is found may be edited between two of them, but not the lists and maps whose entries are walked through.
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
            return  # nothing stands below
        path = (*path, part)
    if value is not None:
        yield path, value


def fits(path: Path, pattern: Pattern) -> bool:
    """Tell whether a path leads where a pattern says, or below."""
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
    """Encode an operation up to its value: few paths are edited, and those again and again."""
    start = encode({"op": op, "path": pointer(path)})[:-1]
    return start if op == "remove" else start + b',"value":'


@lru_cache(maxsize=1000)
def pointer(path: Path) -> str:
    """Spell a path as a JSON Pointer (RFC 6901)."""
    text = "/" + "/".join(map(str, path))
    if path and "~" not in text and text.count("/") == len(path):
        return text  # as of most: no part has to be escaped
    return "".join(
        f"/{part}" if isinstance(part, int) else "/" + part.replace("~", "~0").replace("/", "~1") for part in path
    )


def path_of(text: str, root: Any) -> Path | None:
    """Read a JSON Pointer against the object it points into, whose lists tell the indexes; None if it does not fit.

    So it is with one that is longer than any of ours.
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
