"""Check the types of all fields that rules read, once, before any rule runs: rules need not check them again.

A shape describes types in the form of the data: `str`, `int` or `bool`; a tuple of them if several are allowed;
`{"field": shape}` for an object, of which only these fields are checked; `{ANY_KEY: shape}` for a map; `[shape]` for a
list. Null counts as absent, as in the API, but not as an entry of a list. An integer has at most 64 bits, as in the
API. TOO_DEEP fits no value: it ends a shape that contains itself.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Annotated, Any, Final, TypedDict

from msgspec import Meta, Raw

from webhook.objects import bounds
from webhook.objects.problem import Path, Problem, type_name, type_names

ANY_KEY: Final = "*"
TOO_DEEP: Final = ()
Shape = type | tuple[type, ...] | dict[str, "Shape"] | list["Shape"]


def wrong_types(value: Any, shape: Shape) -> list[Problem]:
    """Return a problem for each field that does not have the type in the shape, at most MOST_PROBLEMS."""
    if fits(value, shape):  # which is fast, and most values do; only `misfits` knows the paths
        return []
    return list(islice(misfits(value, shape, ()), bounds.MOST_PROBLEMS))


def fits(value: Any, shape: Shape) -> bool:
    """Return True if a value and all its parts have the types in the shape."""
    if type(shape) is dict:
        if type(value) is not dict:
            return False
        if ANY_KEY in shape:
            return map_fits(value, shape[ANY_KEY])
        for key in shape.keys() & value.keys():
            entry, inner = value[key], shape[key]
            if entry is not None and (type(entry) is not inner or inner is int) and not fits(entry, inner):
                return False
        return True
    if type(shape) is list:
        return type(value) is list and all_fit(value, shape[0])
    if type(value) is int and not bounds.LOWEST <= value <= bounds.HIGHEST:
        return False
    return type(value) in shape if type(shape) is tuple else type(value) is shape


def map_fits(value: Any, every: Shape) -> bool:
    """Return True if all values of a map fit a shape.

    False also if a key is too long, unless the values are of a plain type: paths in messages contain the keys.
    """
    if type(every) is not type and any(len(key) > bounds.MAX_KEY for key in value):
        return False
    return all_fit([entry for entry in value.values() if entry is not None], every)


def all_fit(entries: Collection[Any], shape: Shape) -> bool:
    """Return True if all entries fit a shape; entries of a plain type are checked all at once, which is faster."""
    if type(shape) is not type:
        return all(fits(entry, shape) for entry in entries)
    if not set(map(type, entries)) <= {shape}:
        return False
    return shape is not int or not entries or bounds.LOWEST <= min(entries) <= max(entries) <= bounds.HIGHEST


def crowded(*unread_first: tuple[Path, Any, Shape]) -> Problem | None:
    """Return a problem if the lists and maps in the shapes have too many entries together; else None.

    Each argument is a path, the value there and its shape. The types of the values may be wrong.
    """
    left = bounds.MOST_ENTRIES
    unread = list(unread_first)
    while unread:
        path, value, shape = unread.pop()
        if not isinstance(shape, list | dict) or type(value) is not type(shape):
            continue
        if isinstance(shape, list) or ANY_KEY in shape:
            has_parts = isinstance(shape[0] if isinstance(shape, list) else shape[ANY_KEY], list | dict)
            left -= len(value) if has_parts else len(value) // bounds.PLAIN_ENTRIES
            if left < 0:
                what = f"has {len(value)} entries, too many with those of other lists and maps"
                return Problem(path, what, f"all lists and maps together may have {bounds.MOST_ENTRIES}")
            if not has_parts:
                continue
        unread += [((*path, key), entry, inner) for key, entry, inner in parts_of(value, shape)]
    return None


_types: Final[dict[str, Any]] = {}


def type_of(shape: Shape) -> Any:
    """Return a shape as a type for msgspec, which then decodes only the fields that the shape names, Raw ones later.

    Equal shapes have the same type: msgspec examines each one when it decodes it for the first time.
    """
    key = repr(shape)
    if key not in _types:
        _types[key] = _made_of(shape)
    return _types[key]


def _made_of(shape: Shape) -> Any:
    if isinstance(shape, dict):
        if ANY_KEY in shape:
            return dict[str, type_of(shape[ANY_KEY]) | None]  # type: ignore[misc]
        fields = {key: inner if inner is Raw else type_of(inner) | None for key, inner in shape.items()}
        return TypedDict("Shaped", fields, total=False) if fields else dict  # type: ignore[operator]
    if isinstance(shape, list):
        return list[type_of(shape[0])]  # type: ignore[misc]
    return Annotated[int, Meta(ge=bounds.LOWEST, le=bounds.HIGHEST)] if shape is int else shape


def misfits(value: Any, shape: Shape, path: Path) -> Iterator[Problem]:
    """Yield a problem for every field of a value at `path` that does not have the type in the shape."""
    allowed = shape if isinstance(shape, tuple) else (shape if isinstance(shape, type) else type(shape),)
    if not allowed:
        yield Problem(path, "is nested too deeply", "move it up")
        return
    if type(value) not in allowed:
        yield Problem(path, f"is {type_name(value)}", f"must be {' or '.join(type_names[one] for one in allowed)}")
        return
    if isinstance(shape, list | dict):
        for key, entry, inner in parts_of(value, shape):
            if isinstance(key, str) and len(key) > bounds.MAX_KEY:
                yield Problem((*path, key), f"has {len(key)} characters", f"must have at most {bounds.MAX_KEY}")
            if not fits(entry, inner):
                yield from misfits(entry, inner, (*path, key))
    elif type(value) is int and not bounds.LOWEST <= value <= bounds.HIGHEST:
        yield Problem(path, "does not fit into 64 bits", f"must be between {bounds.LOWEST} and {bounds.HIGHEST}")


def miscased(value: Any, shape: Shape, path: Path = ()) -> Iterator[Problem]:
    """Yield a problem for every key that differs only in its case from one in the shape; the types must be right.

    Go's encoding/json takes such a key for the other one.
    """
    if not isinstance(shape, list | dict):
        return
    if isinstance(shape, dict) and ANY_KEY not in shape:
        known = {key.casefold(): key for key in shape}
        for key in value.keys() - shape.keys():
            meant = known.get(key[: bounds.MAX_KEY].casefold())
            if meant is not None:
                yield Problem((*path, key), f"may be read as {meant}", f"write {meant}")
    for part, entry, inner in parts_of(value, shape):
        yield from miscased(entry, inner, (*path, part))


def parts_of(value: Any, shape: list[Shape] | dict[str, Shape]) -> Iterator[tuple[str | int, Any, Shape]]:
    """Yield the key or index, the value and the shape of each part that a shape describes; skip fields with null."""
    if isinstance(shape, list):
        for index, entry in enumerate(value):
            yield index, entry, shape[0]
    else:
        every = shape.get(ANY_KEY)
        for key in value if every is not None else shape:
            if value.get(key) is not None:
                yield key, value[key], shape[key] if every is None else every
