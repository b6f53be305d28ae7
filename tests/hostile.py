"""Hostile objects: in each, one list or map that rules read has far more entries than any author writes.

They are made from the shapes of the KindSpecs, so that a field which a new rule reads is included.
"""

from collections.abc import Iterator
from typing import Any, Final

from webhook.kube import names
from webhook.objects.problem import Json, Path
from webhook.objects.shape import ANY_KEY, Shape
from webhook.systems import core
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS

LARGEST: Final = 3 * 1024 * 1024  # bytes of JSON: the largest object that the API server accepts
NESTING: Final = ("inline", "pipelineSpec")  # fields in which a shape contains itself

# Valid values for fields in which the default "a" is invalid.
WRITTEN: Final[Json] = {
    "action": "FailJob",
    "operator": "NotIn",
    "restartPolicy": "Never",
    "type": "DisruptionTarget",
    "status": "True",
    "key": "cloud.google.com/gke-spot",
    "limit": 3,
}
# Fields that a complete value does not have: restarts of a single container and a second requirement are problems, and
# an object that is being deleted is not examined.
LEFT_OUT: Final = frozenset({"deletionTimestamp", "restartPolicyRules", "onPodConditions", *NESTING})
ROWS: Final = tuple(row for row in KINDS.values() if row.admitted or row is core.POD)


def long_places(shape: Shape, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each list and map in a shape; "*" stands for an entry."""
    if isinstance(shape, list):
        yield path
        yield from long_places(shape[0], (*path, ANY_KEY))
    elif isinstance(shape, dict):
        for key, inner in shape.items():
            if key not in path or key not in NESTING:
                if key == ANY_KEY:
                    yield path
                yield from long_places(inner, (*path, key))


def long_object(kind: KindSpec, place: Path, number: int, *, empty: bool = False) -> Json:
    """Return an object whose list or map at `place` has `number` entries: with all fields that rules read, or empty."""
    group = f"{kind.group}/" if kind.group else ""
    root: Json = {"apiVersion": group + kind.versions[0], "kind": kind.kind}
    root |= filled(kind.shape, place, number, empty=empty)
    metadata = root.setdefault("metadata", {})
    metadata |= {"name": "hostile", "namespace": "ml"}
    metadata.pop("deletionTimestamp", None)
    if place != ("metadata", "ownerReferences"):
        metadata.pop("ownerReferences", None)
    if kind is core.POD:
        metadata.setdefault("annotations", {})[names.ATTEMPT] = "1"
    return root


def filled(shape: Shape, place: Path, number: int, key: str = "", *, empty: bool) -> Any:
    """Return a value of a shape, long at a place in it; fields that are not on the path to that place are left out."""
    if isinstance(shape, list):
        return entries_of(shape[0], place, number, empty=empty)
    if isinstance(shape, dict) and ANY_KEY in shape:
        entries = entries_of(shape[ANY_KEY], place, number, empty=empty)
        return {f"key-{index}": entry for index, entry in enumerate(entries)}
    if isinstance(shape, dict):
        key = str(place[0])
        return {key: filled(shape[key], place[1:], number, key, empty=empty)}
    return scalar(shape, key)


def entries_of(inner: Shape, place: Path, number: int, *, empty: bool) -> list[Any]:
    """Return the entries of a list or map: one on the path to a place, and `number` at the place."""
    if place:
        return [filled(inner, place[1:], number, empty=empty)]
    entries = [{} if empty and isinstance(inner, dict) else complete(inner) for _ in range(number)]
    for index, entry in enumerate(entries):
        if isinstance(entry, dict) and "name" in entry:
            entry["name"] = f"name-{index}"
    return entries


def complete(shape: Shape, key: str = "") -> Any:
    """Return a value of a shape with all fields that rules read, and one entry in each list and map."""
    if isinstance(shape, list):
        return [complete(shape[0])]
    if isinstance(shape, dict):
        fields = {"key" if name == ANY_KEY else name: inner for name, inner in shape.items()}
        return {name: complete(inner, name) for name, inner in fields.items() if name not in LEFT_OUT}
    return scalar(shape, key)


def scalar(shape: Shape, key: str) -> Any:
    """Return a value without parts."""
    if isinstance(shape, tuple):
        return WRITTEN.get(key, 3)
    return WRITTEN.get(key, "a") if shape is str else 3 if shape is int else shape is bool
