"""Decode JSON text as kubectl does, and report what the standard library accepts silently.

A duplicate key is a problem. A number that is too large for a double, and half of a surrogate pair, are errors: JSON
text can contain both, but no program could write the decoded value as JSON again.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from webhook.objects.bounds import MOST_PROBLEMS
from webhook.objects.problem import Json, Path, Problem
from webhook.objects.strict_yaml import DEPTH

# Objects and lists in one text, counted as brackets, those in strings included. Each takes up to 200 bytes of memory,
# more than anything else in the text.
MOST_CONTAINERS: Final = 1_000_000
WHITE_SPACE: Final = re.compile(r"[ \t\n\r]*")
HALF_OF_A_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")  # matches whole surrogate pairs too
LONGEST_INTEGER: Final = 20  # characters of an integer that fits 64 bits
SHOWN: Final = 40  # characters of a number that a message shows


class JsonError(Exception):
    """The text is JSON, but cannot be used; the message says why and what would be right."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


def read(text: str) -> Iterator[tuple[Any, list[Problem]]]:
    """Yield each of the values that follow each other in a text, with a problem for each duplicate key in it.

    Raise ValueError or RecursionError if the text is not JSON or is nested more than DEPTH levels deep. Raise JsonError
    if it has too many objects and lists, a number that is too large, or half of a surrogate pair.
    """
    if text.count("{") + text.count("[") > MOST_CONTAINERS:
        raise JsonError(f"holds more than {MOST_CONTAINERS:,} objects and lists", "split it")
    has_halves = HALF_OF_A_PAIR.search(text) is not None
    reader = JsonReader()
    decoder = json.JSONDecoder(
        object_pairs_hook=reader.object, parse_int=integer, parse_float=number, parse_constant=not_json
    )
    position = past_space(text, 0)
    while position < len(text):
        value, position = decoder.raw_decode(text, position)
        if next(islice(levels(value), DEPTH + 1, None), None) is not None:
            raise ValueError("nested too deep")
        if has_halves:
            refuse_halves(value)
        yield value, reader.take_problems(value)
        position = past_space(text, position)


class JsonReader:
    """Builds the objects of a JSON text, and records their duplicate keys."""

    def __init__(self) -> None:
        # By the id() of an object. The reference to the object ensures that no other object gets the same id.
        self.twice: dict[int, tuple[Json, list[str]]] = {}

    def object(self, pairs: list[tuple[str, Any]]) -> Json:
        """Return an object; of a duplicate key the last value is used, as in kubectl."""
        built = dict(pairs)
        if len(built) < len(pairs) and len(self.twice) < MOST_PROBLEMS:
            times = Counter(key for key, _ in pairs)
            keys = (key for key, number_of_times in times.items() if number_of_times > 1)
            self.twice[id(built)] = (built, list(islice(keys, MOST_PROBLEMS)))
        return built

    def take_problems(self, value: Any) -> list[Problem]:
        """Return a problem for each duplicate key in a value, at most MOST_PROBLEMS, and clear the record."""
        found = list(islice(self.problems(value, ()), MOST_PROBLEMS)) if self.twice else []
        self.twice.clear()
        return found

    def problems(self, value: Any, path: Path) -> Iterator[Problem]:
        """Yield a problem for each duplicate key in the value at `path`."""
        entries: Iterable[tuple[str | int, Any]] = ()
        if isinstance(value, dict):
            _, keys = self.twice.get(id(value), (value, []))
            for key in keys:
                yield Problem((*path, key), "is written twice", "keep one")
            entries = value.items()
        elif isinstance(value, list):
            entries = enumerate(value)
        for key_or_index, entry in entries:
            if isinstance(entry, dict | list):
                yield from self.problems(entry, (*path, key_or_index))


def levels(value: Any) -> Iterator[int]:
    """Yield the number of values at each level: one for the root, then the number of its entries, and so on."""
    yield 1
    level = [value]
    while level := [one for one in level if type(one) is dict or type(one) is list]:
        level = [entry for one in level for entry in (one.values() if type(one) is dict else one)]
        if level:
            yield len(level)


def past_space(text: str, position: int) -> int:
    """Return the first position, from `position` on, that has no white space."""
    found = WHITE_SPACE.match(text, position)
    return position if found is None else found.end()


def integer(text: str) -> int | float:
    """Return an integer, or a float if it does not fit 64 bits, as in kubectl; raise JsonError as `number` does."""
    if len(text) <= LONGEST_INTEGER and -(2**63) <= (value := int(text)) < 2**64:
        return value
    return number(text)


def number(text: str) -> float:
    """Return a number as a float; raise JsonError if it is too large for a double."""
    value = float(text)
    if math.isfinite(value):
        return value
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    raise JsonError(f"the number {shown} is too large", "write one that fits a 64-bit float, or put it in quotes")


def not_json(constant: str) -> None:
    """Raise ValueError for NaN and Infinity, which the standard library would accept."""
    raise ValueError(constant)


def refuse_halves(value: Any) -> None:
    """Raise JsonError if a string contains half of a surrogate pair, which UTF-8 cannot encode."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        what = f"\\u{half:04x} is half of a character"
        raise JsonError(what, "write both halves, or remove it") from None
