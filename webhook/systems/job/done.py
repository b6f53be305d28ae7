"""The part of a Job that has succeeded, as a retry stores it in an annotation.

The API allows 256 KiB of annotations on an object. Every second one of 100,000 completion indexes takes more as the API
writes them, `0,2,4`, and a tenth of that as compressed distances.
"""

from base64 import b64decode, b64encode
from itertools import accumulate, chain, pairwise
from typing import Final
from zlib import compress, decompressobj, error

import msgspec

LONGEST_PLAIN: Final = 16 * 1024  # characters of indexes that are stored as the API writes them
LARGEST: Final = 2 * 1024 * 1024  # bytes of the distances: an object of the API is smaller


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a Job that has succeeded, as in its status: the number of pods, and the indexes of an Indexed Job."""

    succeeded: int = 0
    completed_indexes: str = ""


def packed(done: Done) -> Done | str:
    """Return what is stored: a text if the indexes are long, which an older version refuses to read."""
    if len(done.completed_indexes) <= LONGEST_PLAIN:
        return done
    parts = (part.partition("-")[::2] for part in done.completed_indexes.split(","))
    numbers = [done.succeeded, *chain.from_iterable((int(first), int(last or first)) for first, last in parts)]
    distances = [*numbers[:2], *(two - one for one, two in pairwise(numbers[1:]))]
    return b64encode(compress(",".join(map(str, distances)).encode(), 9)).decode()


def unpacked(stored: Done | str) -> Done:
    """Return what `packed` was given; raise ValueError if it is malformed or too long."""
    if isinstance(stored, Done):
        return stored
    reader = decompressobj()
    try:
        text = reader.decompress(b64decode(stored, validate=True), LARGEST)
    except error as malformed:
        raise ValueError(f"the indexes that have succeeded: {malformed}") from None
    if reader.unconsumed_tail:
        raise ValueError(f"the indexes that have succeeded have more than {LARGEST} bytes")
    succeeded, *distances = map(int, text.split(b","))
    ends = accumulate(distances)
    runs = (str(first) if first == last else f"{first}-{last}" for first, last in zip(ends, ends, strict=True))
    return Done(succeeded, ",".join(runs))
