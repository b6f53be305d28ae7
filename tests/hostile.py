"""Objects made as large as nobody honest makes them: each list and map of each kind that rules read, made long.

Made from the shapes of the kinds' rows, so that a field which a rule begins to read is made long, too.
"""

from collections.abc import Iterator
from typing import Any, Final

from webhook.kinds import KINDS, KindSpec, core
from webhook.kube import names
from webhook.objects.problem import Json, Path
from webhook.objects.shape import ANY_KEY, Shape

LARGEST: Final = 3 * 1024 * 1024  # bytes of JSON: what the API server takes of one object
NESTING: Final = ("inline", "pipelineSpec")  # fields in which a shape repeats itself

# What an author writes where the shape alone would say "a".
WRITTEN: Final[Json] = {
    "action": "FailJob",
    "operator": "NotIn",
    "restartPolicy": "Never",
    "type": "DisruptionTarget",
    "status": "True",
    "key": "cloud.google.com/gke-spot",
    "limit": 3,
}
# A whole value has not got these: a container's own restarts and a second requirement are problems, and so is an object
# that is being deleted.
LEFT_OUT: Final = frozenset({"deletionTimestamp", "restartPolicyRules", "onPodConditions", *NESTING})
ROWS: Final = tuple(row for row in KINDS.values() if row.admitted or row is core.POD)


def long_places(shape: Shape, path: Path = ()) -> Iterator[Path]:
    """Yield where a shape has a list or a map; an entry of either is named "*"."""
    if isinstance(shape, list):
        yield path
        yield from long_places(shape[0], (*path, ANY_KEY))
    elif isinstance(shape, dict):
        for key, inner in shape.items():
            if key not in path or key not in NESTING:
                if key == ANY_KEY:
                    yield path
                yield from long_places(inner, (*path, key))


def long_object(row: KindSpec, place: Path, number: int, *, empty: bool = False) -> Json:
    """Make an object in which one list or map has that many entries, which hold all that rules read, or nothing."""
    group = f"{row.group}/" if row.group else ""
    root: Json = {"apiVersion": group + row.versions[0], "kind": row.kind}
    root |= filled(row.shape, place, number, empty=empty)
    metadata = root.setdefault("metadata", {})
    metadata |= {"name": "hostile", "namespace": "ml"}
    metadata.pop("deletionTimestamp", None)
    if place != ("metadata", "ownerReferences"):
        metadata.pop("ownerReferences", None)
    if row is core.POD:
        metadata.setdefault("annotations", {})[names.ATTEMPT] = "1"
    return root


def filled(shape: Shape, place: Path, number: int, key: str = "", *, empty: bool) -> Any:
    """Make a value of a shape, long at a place in it; what stands beside the way there is left out."""
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
    """Make the entries of a list or map: one on the way to a place, many there."""
    if place:
        return [filled(inner, place[1:], number, empty=empty)]
    entries = [{} if empty and isinstance(inner, dict) else whole(inner) for _ in range(number)]
    for index, entry in enumerate(entries):
        if isinstance(entry, dict) and "name" in entry:
            entry["name"] = f"name-{index}"
    return entries


def whole(shape: Shape, key: str = "") -> Any:
    """Make a value of a shape with all that rules read of it, one entry in each list and map."""
    if isinstance(shape, list):
        return [whole(shape[0])]
    if isinstance(shape, dict):
        fields = {"key" if name == ANY_KEY else name: inner for name, inner in shape.items()}
        return {name: whole(inner, name) for name, inner in fields.items() if name not in LEFT_OUT}
    return scalar(shape, key)


def scalar(shape: Shape, key: str) -> Any:
    """Make a value without parts."""
    if isinstance(shape, tuple):
        return WRITTEN.get(key, 3)
    return WRITTEN.get(key, "a") if shape is str else 3 if shape is int else shape is bool
