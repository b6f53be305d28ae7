"""The types of the fields that rules read, checked once before any rule runs, so that no rule has to ask again.

A shape is written as the data it describes: `str`, `int` or `bool`, or a tuple of them where either will do;
`{"field": shape}` for an object of which only these fields are looked at; `{ANY_KEY: shape}` for a map; `[shape]` for a
list. Null counts as absent, as in the API, but not inside a list. TOO_DEEP is what ends a shape that repeats in itself.
"""

from collections.abc import Iterator
from typing import Any, Final, TypedDict

from webhook.problem import Path, Problem, type_name, type_names

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
        every = shape.get(ANY_KEY)
        if every is not None:
            return all(entry is None or fits(entry, every) for entry in value.values())
        for key, inner in shape.items():
            entry = value.get(key)
            if entry is not None and type(entry) is not inner and not fits(entry, inner):
                return False
        return True
    if type(shape) is list:
        return type(value) is list and all(fits(entry, shape[0]) for entry in value)
    return type(value) in shape if type(shape) is tuple else type(value) is shape


def type_of(shape: Shape) -> Any:
    """Return a shape as a type, by which msgspec decodes only what it names."""
    if isinstance(shape, dict):
        if ANY_KEY in shape:
            return dict[str, type_of(shape[ANY_KEY]) | None]  # type: ignore[misc]
        fields = {key: type_of(inner) | None for key, inner in shape.items()}
        return TypedDict("Shaped", fields, total=False) if fields else dict  # type: ignore[operator]
    if isinstance(shape, list):
        return list[type_of(shape[0])]  # type: ignore[misc]
    return shape


def misfits(value: Any, shape: Shape, path: Path) -> Iterator[Problem]:
    """Yield a problem for every field whose type is not the shape's."""
    allowed = shape if isinstance(shape, tuple) else (shape if isinstance(shape, type) else type(shape),)
    if not allowed:
        yield Problem(path, "is nested too deep to be read", "must stand further up")
        return
    if type(value) not in allowed:
        yield Problem(path, f"is {type_name(value)}", f"must be {' or '.join(type_names[one] for one in allowed)}")
        return
    match shape:
        case list():
            for index, entry in enumerate(value):
                yield from misfits(entry, shape[0], (*path, index))
        case dict():
            every = shape.get(ANY_KEY)
            for key in value if every is not None else shape:
                entry = value.get(key)
                if entry is not None:
                    yield from misfits(entry, shape[key] if every is None else every, (*path, key))
