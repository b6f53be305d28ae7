"""The types of the fields that rules read, checked once before any rule runs, so that no rule has to ask again.

A shape is written as the data it describes: `str`, `int` or `bool`; `{"field": shape}` for an object of which only
these fields are looked at; `{ANY_KEY: shape}` for a map; `[shape]` for a list. Null counts as absent, as in the API,
but not inside a list.
"""

from collections.abc import Iterator
from typing import Any, Final

from webhook.problem import Path, Problem, type_name, type_names

ANY_KEY: Final = "*"
Shape = type | dict[str, "Shape"] | list["Shape"]


def wrong_types(value: Any, shape: Shape, path: Path = ()) -> Iterator[Problem]:
    """Yield a problem for every field whose type is not the shape's."""
    expected = shape if isinstance(shape, type) else type(shape)
    actual = type(value)
    if actual is not expected:
        yield Problem(path, f"is {type_name(value)}", f"must be {type_names[expected]}")
        return
    match shape:
        case list():
            for index, entry in enumerate(value):
                yield from wrong_types(entry, shape[0], (*path, index))
        case dict():
            every = shape.get(ANY_KEY)
            for key in value if every is not None else shape:
                entry = value.get(key)
                if entry is not None:
                    yield from wrong_types(entry, shape[key] if every is None else every, (*path, key))
