"""Removes what was injected before, so that an unchanged manifest can be applied, and rules see what the author wrote.

Reads and writes:
    metadata.annotations[retry-policy.dev/policy]: JSON, `{"profile": NAME, "injected": [{op, path, now, was}]}`, the
        operations that admission applied outside the metadata, in order: `now` is the value since, `was` the one
        before; on kinds with an account also the fields of the profile that `explain` reads
    the fields that those paths name, if a rule writes them (webhook/rules/registry.py)
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import Edit, Editor, Pattern, at, fits, path_of, pointer
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.applied import Applied, AppliedRule, applied, applied_rules
from webhook.policy.settings import NamedProfile
from webhook.rules import registry
from webhook.systems.accounts import SYSTEMS
from webhook.systems.kind_spec import KindSpec

ANNOTATION: Final[Path] = ("metadata", "annotations", names.POLICY)


class Injected(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of ours: `path` is a JSON Pointer, `now` the value that it wrote, `was` the value before."""

    op: str
    path: str
    now: Any = None
    was: Any = None


class Record(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The content of the annotation `policy`.

    `applied`, `retriable_exit_codes` and `on_failure`: fields of the profile, for a kind with an account; else empty.
    """

    profile: str
    injected: Annotated[tuple[Injected, ...], msgspec.Meta(max_length=bounds.MOST_INJECTED)] = ()
    applied: Applied | None = None
    retriable_exit_codes: Annotated[tuple[int, ...], msgspec.Meta(max_length=254)] = ()
    on_failure: Annotated[tuple[AppliedRule, ...], msgspec.Meta(max_length=bounds.MOST_FAILURE_RULES)] = ()


# Made once: threads that make the decoder of one type at the same time end the process (msgspec 0.22).
_record_in: Final = msgspec.json.Decoder(Record)
_members_of: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def write(editor: Editor, kind: KindSpec, profile: NamedProfile, edits: list[Edit]) -> list[Problem]:
    """Record on a workload what these edits injected; return a warning if that is too long to record.

    Our own keys in its metadata are not recorded: they are never undone.
    """
    with_metadata = undone_in_metadata(kind)
    injected = tuple(injected_by(edit) for edit in edits if edit.path[0] != "metadata" or with_metadata)
    if kind.labelled or kind in SYSTEMS:
        fields = profile.profile
        codes, rules = fields.failure_policy.retriable_exit_codes, applied_rules(fields)
        record = Record(profile.name, injected, applied(fields), codes, rules)
    else:
        record = Record(profile.name, injected)
    text = msgspec.json.encode(record).decode()
    warnings = []
    if len(text) > bounds.MAX_RECORD:
        warnings = [Problem(ANNOTATION, "too many injected fields to record", "to change it, delete and create it")]
        text = msgspec.json.encode(replace(record, injected=())).decode()
    editor.update(("metadata", "annotations"), {names.POLICY: text})
    return warnings


def injected_by(edit: Edit) -> Injected:
    """Return the entry of the annotation for one edit."""
    op, path, now = edit.op, edit.path, None if edit.value is None else msgspec.Raw(edit.value)  # encoded already
    while now and path[0] == "metadata" and len(path) < len(ANNOTATION):  # it created the map too; record its key alone
        ((key, now),) = _members_of.decode(now).items()
        op, path = "add", (*path, key)
    return Injected(op, pointer(path), now, edit.was)


def read(root: Json) -> Record | None:
    """Return the content of the annotation; None if it is absent, malformed, or larger than we write it."""
    text = at(root, ANNOTATION)
    if text is None or len(text) > bounds.MAX_RECORD:
        return None
    try:
        record = _record_in.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if is_deeper([(one.now, one.was) for one in record.injected], bounds.DEEPEST_INJECTED) else record


def is_deeper(values: Iterable[Any], levels: int) -> bool:
    """Return True if values are nested deeper than `levels`: the functions that read them are recursive."""
    for _ in range(levels + 1):
        values = [
            inner
            for value in values
            if isinstance(value, dict | list | tuple)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    return bool(values)


def put_back(editor: Editor, kind: KindSpec, old: Json, decode_old: Callable[[], Json]) -> None:
    """Put back the injected values of `old` in those fields in which the new object equals `old` without them.

    `decode_old` returns a copy of `old`, from which this function removes them. Values that the author really changed
    stay changed, and the API server judges them.
    """
    record = read(old)
    if record is None:
        return
    stripped = Editor(decode_old())
    fields = take_out(stripped, kind, record)
    for path in dict.fromkeys(reversed(fields)):
        value = at(old, path)
        if at(editor.root, path) == at(stripped.root, path) != value:
            if value is None:
                editor.remove(path)
            else:
                editor.set(path, value)


def take_out(editor: Editor, kind: KindSpec, record: Record) -> list[Path]:
    """Undo the operations whose values are unchanged; return the paths of the changed fields, for an entry its list."""
    touched = []
    for injected in reversed(record.injected):
        path = path_of(injected.path, editor.root)
        if path is not None and is_ours(path, kind, injected.now):
            field = undo(editor, path, injected)
            if field is not None:
                touched.append(field)
    return touched


def is_ours(path: Path, kind: KindSpec, now: Any = None) -> bool:
    """Return True if a rule writes at a path, or each entry of a map there; a user may have recorded any path.

    `now`: the value that was written. For a key in a map that was absent, the whole map was.
    """
    if any(fits(path, pattern) for pattern in undone(kind)):
        return True
    if not isinstance(now, dict) or not now:
        return False
    return all(is_ours((*path, key), kind, inner) for key, inner in now.items())


@cache
def undone(kind: KindSpec) -> tuple[Pattern, ...]:
    """Return the patterns of the fields that are undone: all that rules write in a kind, except our keys."""
    return tuple(pattern for pattern in registry.written_by_rules(kind) if not is_own_key(pattern))


@cache
def undone_in_metadata(kind: KindSpec) -> bool:
    """Return True if a kind has a retry field in its own annotations, as an AppWrapper has."""
    return any(pattern[0] == "metadata" for pattern in undone(kind))


def is_own_key(pattern: Pattern) -> bool:
    """Return True if a pattern is a label or annotation of ours in the object's own metadata."""
    key = pattern[-1]
    return pattern[0] == "metadata" and isinstance(key, str) and key.startswith(names.PREFIX)


def undo(editor: Editor, path: Path, injected: Injected) -> Path | None:
    """Undo one operation, and return the path of its field; None, and no change, if the value has changed since."""
    stands = at(editor.root, path)
    if injected.op == "remove":
        if stands is None and isinstance(at(editor.root, path[:-1]), dict):
            editor.set(path, injected.was)
            return path
        return None
    in_list = isinstance(path[-1], int)
    if injected.op == "add" and not in_list and isinstance(stands, dict) and contains(stands, injected.now):
        take_entries(editor, path, injected.now, stands)
    elif stands != injected.now:
        return None
    elif injected.op == "replace":
        editor.set(path, injected.was)
    else:
        editor.remove(path)
    return path[:-1] if in_list else path


def contains(stands: Any, now: Any) -> bool:
    """Return True if `stands` equals `now`, or has all of its keys and values and others too."""
    if isinstance(stands, dict) and isinstance(now, dict):
        return all(key in stands and contains(stands[key], value) for key, value in now.items())
    return bool(stands == now)


def take_entries(editor: Editor, path: Path, now: Any, stands: Any) -> None:
    """Remove a value of ours, but leave the keys that others have added to it since."""
    if stands == now:
        editor.remove(path)
        return
    for key, value in now.items():
        take_entries(editor, (*path, key), value, stands[key])
