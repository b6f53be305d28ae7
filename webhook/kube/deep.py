"""Decode what the API server sends, although parts that are only skipped are nested deeper than Python recurses.

msgspec counts levels against the recursion limit also where it skips a field. A user may store an object of a custom
kind that is nested 10,000 deep, and its managedFields with it: one such object must not hide the page that it is in.
"""

import sys
from collections.abc import Callable
from typing import Final, TypeVar

DEEPEST: Final = 50_000  # levels; the API server accepts 10,000. Tested with four times as many on a stack of 8 MiB

Data = TypeVar("Data")
Value = TypeVar("Value")


def decoded(decode: Callable[[Data], Value], data: Data) -> Value:
    """Return what `decode` returns; raise what it raises, but RecursionError only beyond DEEPEST levels.

    `decode` must build no nested value: what it returns would be too deep for its readers.
    """
    try:
        return decode(data)
    except RecursionError:
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(DEEPEST)
        try:
            return decode(data)
        finally:
            sys.setrecursionlimit(usual)
