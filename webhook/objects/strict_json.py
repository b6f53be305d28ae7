"""JSON text to plain values, as kubectl reads it, with what the standard library passes over in silence.

A key written twice is a problem. A number beyond a double and half of a surrogate pair are errors: JSON can spell both,
but nothing could write them out again.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from webhook.objects.problem import Json, Path, Problem
from webhook.objects.strict_yaml import DEPTH, MOST_PROBLEMS

# Objects and lists in one text, braces in strings included: they cost most of the memory, up to 200 bytes each.
MOST_CONTAINERS: Final = 1_000_000
WHITE_SPACE: Final = re.compile(r"[ \t\n\r]*")
HALF_OF_A_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")  # or a whole pair
LONGEST_INTEGER: Final = 20  # characters of one that fits 64 bits
SHOWN: Final = 40  # characters of a number in a message


class JsonError(Exception):
    """The text is JSON that cannot be used."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


def read(text: str) -> Iterator[tuple[Any, list[Problem]]]:
    """Yield the values that stand one after the other, with the keys that are written twice in each.

    Raise ValueError or RecursionError at text that is no JSON or nested more than DEPTH levels deep, and JsonError.
    """
    if text.count("{") + text.count("[") > MOST_CONTAINERS:
        raise JsonError(f"holds more than {MOST_CONTAINERS:,} objects and lists", "split it")
    has_halves = HALF_OF_A_PAIR.search(text) is not None
    reader = Reader()
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


class Reader:
    """Builds objects and notes which keys of them are written twice."""

    def __init__(self) -> None:
        self.twice: dict[int, tuple[Json, list[str]]] = {}  # by the id of the object, which is kept so that it stays

    def object(self, pairs: list[tuple[str, Any]]) -> Json:
        """Build an object; the last value of a key counts, as in kubectl."""
        built = dict(pairs)
        if len(built) < len(pairs) and len(self.twice) < MOST_PROBLEMS:
            times = Counter(key for key, _ in pairs)
            keys = (key for key, number_of_times in times.items() if number_of_times > 1)
            self.twice[id(built)] = (built, list(islice(keys, MOST_PROBLEMS)))
        return built

    def take_problems(self, value: Any) -> list[Problem]:
        """Return the keys that are written twice in a whole value, at most MOST_PROBLEMS, and forget them."""
        found = list(islice(self.problems(value, ()), MOST_PROBLEMS)) if self.twice else []
        self.twice.clear()
        return found

    def problems(self, value: Any, path: Path) -> Iterator[Problem]:
        """Yield the keys that are written twice in a value at `path`."""
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
    """Yield how many values stand at each level: one at the root, then its entries, then the entries of those."""
    yield 1
    level = [value]
    while level := [one for one in level if type(one) is dict or type(one) is list]:
        level = [entry for one in level for entry in (one.values() if type(one) is dict else one)]
        if level:
            yield len(level)


def past_space(text: str, position: int) -> int:
    """Return where the white space from a position on ends."""
    found = WHITE_SPACE.match(text, position)
    return position if found is None else found.end()


def integer(text: str) -> int | float:
    """Read an integer; one that does not fit 64 bits becomes a double, as in kubectl."""
    if len(text) <= LONGEST_INTEGER and -(2**63) <= (value := int(text)) < 2**64:
        return value
    return number(text)


def number(text: str) -> float:
    """Read a number; raise JsonError where it is too large for a double."""
    value = float(text)
    if math.isfinite(value):
        return value
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    raise JsonError(f"the number {shown} is too large", "write one that a double can hold, or put it in quotes")


def not_json(constant: str) -> None:
    """Refuse NaN and Infinity, which the standard library would read."""
    raise ValueError(constant)


def refuse_halves(value: Any) -> None:
    """Raise JsonError where a string holds half of a surrogate pair, which no UTF-8 can say."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        what = f"\\u{half:04x} is half of a character"
        raise JsonError(what, "write both halves, or take it out") from None
