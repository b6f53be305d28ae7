"""The types of the fields that rules read, checked once before any rule runs, so that no rule has to ask again.

A shape is written as the data it describes: `str`, `int` or `bool`, or a tuple of them where either will do;
`{"field": shape}` for an object of which only these fields are looked at; `{ANY_KEY: shape}` for a map; `[shape]` for a
list. Null counts as absent, as in the API, but not inside a list. TOO_DEEP is what ends a shape that repeats in itself.
An integer has at most 64 bits, as in the API.
"""

from collections.abc import Collection, Iterator
from typing import Annotated, Any, Final, TypedDict

from msgspec import Meta

from webhook.objects import bounds
from webhook.objects.problem import Path, Problem, type_name, type_names

ANY_KEY: Final = "*"
TOO_DEEP: Final = ()
Shape = type | tuple[type, ...] | dict[str, "Shape"] | list["Shape"]


def wrong_types(value: Any, shape: Shape, path: Path = ()) -> Iterator[Problem]:
    """Yield a problem for every field whose type is not the shape's."""
    if not fits(value, shape):  # few do not, and only for them it matters where
        yield from misfits(value, shape, path)


def fits(value: Any, shape: Shape) -> bool:
    """Tell whether all types are the shape's."""
    if type(shape) is dict:
        if type(value) is not dict:
            return False
        if ANY_KEY in shape:
            return map_fits(value, shape[ANY_KEY])
        for key, inner in shape.items():
            entry = value.get(key)
            if entry is not None and (type(entry) is not inner or inner is int) and not fits(entry, inner):
                return False
        return True
    if type(shape) is list:
        return type(value) is list and all_fit(value, shape[0])
    if type(value) is int and not bounds.LOWEST <= value <= bounds.HIGHEST:
        return False
    return type(value) in shape if type(shape) is tuple else type(value) is shape


def map_fits(value: Any, every: Shape) -> bool:
    """Tell whether all values of a map have a shape; the keys of those that have parts are part of longer paths."""
    if type(every) is not type and any(len(key) > bounds.MAX_KEY for key in value):
        return False
    return all_fit([entry for entry in value.values() if entry is not None], every)


def all_fit(entries: Collection[Any], shape: Shape) -> bool:
    """Tell whether the types of many values are all the shape's; strings and the like are looked at together."""
    if type(shape) is not type:
        return all(fits(entry, shape) for entry in entries)
    if not set(map(type, entries)) <= {shape}:
        return False
    return shape is not int or not entries or bounds.LOWEST <= min(entries) <= max(entries) <= bounds.HIGHEST


def crowded(*unread_first: tuple[Path, Any, Shape]) -> Problem | None:
    """Return a problem where lists and maps that rules walk through hold too much together, whatever their types."""
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
                return Problem(path, what, f"must be at most {bounds.MOST_ENTRIES} together")
            if not has_parts:
                continue
        unread += [((*path, key), entry, inner) for key, entry, inner in parts_of(value, shape)]
    return None


def type_of(shape: Shape) -> Any:
    """Return a shape as a type, by which msgspec decodes only what it names."""
    if isinstance(shape, dict):
        if ANY_KEY in shape:
            return dict[str, type_of(shape[ANY_KEY]) | None]  # type: ignore[misc]
        fields = {key: type_of(inner) | None for key, inner in shape.items()}
        return TypedDict("Shaped", fields, total=False) if fields else dict  # type: ignore[operator]
    if isinstance(shape, list):
        return list[type_of(shape[0])]  # type: ignore[misc]
    return Annotated[int, Meta(ge=bounds.LOWEST, le=bounds.HIGHEST)] if shape is int else shape


def misfits(value: Any, shape: Shape, path: Path) -> Iterator[Problem]:
    """Yield a problem for every field whose type is not the shape's."""
    allowed = shape if isinstance(shape, tuple) else (shape if isinstance(shape, type) else type(shape),)
    if not allowed:
        yield Problem(path, "is nested too deep to be read", "must stand further up")
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


def parts_of(value: Any, shape: list[Shape] | dict[str, Shape]) -> Iterator[tuple[str | int, Any, Shape]]:
    """Yield each part of a value that a shape looks at, with its key or index and its shape."""
    if isinstance(shape, list):
        for index, entry in enumerate(value):
            yield index, entry, shape[0]
    else:
        every = shape.get(ANY_KEY)
        for key in value if every is not None else shape:
            if value.get(key) is not None:
                yield key, value[key], shape[key] if every is None else every
