"""Makes applying an unchanged manifest again work: puts back, on UPDATE, what was injected on CREATE.

Reads and writes:
    metadata.annotations[retry-policy.dev/policy]: JSON, `{"profile": NAME, "injected": [{"op", "path", "was"}, …]}`,
        the operations that admission applied to the spec, in order, each with the value that it replaced
    metadata.labels[retry-policy.dev/profile]
    whatever those paths name
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from webhook import names
from webhook.patch import Edit, Editor, at, path_of, pointer
from webhook.problem import Json, Path

ANNOTATION: Final[Path] = ("metadata", "annotations", names.POLICY)
LABEL: Final[Path] = ("metadata", "labels", names.PROFILE)


class Injected(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of ours: `path` a JSON Pointer, `was` the value that it replaced."""

    op: str
    path: str
    was: Any = None


class Record(msgspec.Struct, frozen=True):
    """What the policy annotation says."""

    profile: str
    injected: tuple[Injected, ...] = ()


def write(root: Json, profile_name: str, editor: Editor) -> None:
    """Note on a workload what has been injected so far, earlier rounds of admission included."""
    edits = [edit for edit in editor.edits if edit.path[0] == "spec"]
    earlier = read(root)
    injected = (*(earlier.injected if earlier else ()), *(injected_by(edit) for edit in edits))
    record = Record(profile_name, injected)
    if record != earlier:
        editor.update(("metadata", "annotations"), {names.POLICY: msgspec.json.encode(record).decode()})


def injected_by(edit: Edit) -> Injected:
    """Say one recorded edit as the annotation does."""
    return Injected(edit.op, pointer(edit.path), edit.was)


def read(root: Json) -> Record | None:
    """Read the annotation; None where there is none, or somebody has made it unreadable."""
    text = at(root, ANNOTATION)
    try:
        return None if text is None else msgspec.json.decode(text, type=Record)
    except (msgspec.DecodeError, RecursionError):
        return None


def has_set(root: Json, path: Path) -> bool:
    """Tell whether an earlier round of admission has set a field: what stands there then is no default of the API."""
    record = read(root)
    return record is not None and any(injected.path == pointer(path) for injected in record.injected)


def put_back(editor: Editor, old: Json, decode_old: Callable[[], Json]) -> None:
    """Put our injections of `old` back where the new object equals `old` without them.

    `decode_old` makes a second copy of `old`, out of which our injections are taken here. Values that their author
    really changed stay changed, and the API server judges them.
    """
    record = read(old)
    if record is None:
        return
    stripped = decode_old()
    fields = [take_out(stripped, injected) for injected in reversed(record.injected)]
    for path in dict.fromkeys(field for field in reversed(fields) if field is not None):
        value = at(old, path)
        if at(editor.root, path) == at(stripped, path) != value:
            if value is None:
                editor.remove(path)
            else:
                editor.set(path, value)
    for path in (ANNOTATION, LABEL):
        value = at(old, path)
        if value is not None and at(editor.root, path) is None:
            editor.set(path, value)


def take_out(root: Json, injected: Injected) -> Path | None:
    """Undo one operation; return the field it belongs to, for a list entry the list, or None if it does not fit."""
    path = path_of(injected.path, root)
    if path is None or path[:1] != ("spec",):
        return None
    parent = at(root, path[:-1])
    key = path[-1]
    if isinstance(parent, list) and isinstance(key, int):
        if injected.op == "add" and key < len(parent):
            del parent[key]
            return path[:-1]
        return None
    if not isinstance(parent, dict):
        return None
    if injected.op == "add":
        parent.pop(key, None)
    else:
        parent[key] = injected.was
    return path
