"""Objects that are kept as JSON in pieces: thousands of objects share the pieces that are equal in them."""

from collections.abc import Callable, Iterator, MutableMapping
from functools import lru_cache
from sys import intern
from typing import Final, TypeVar

import msgspec

from webhook.objects.problem import Json

MOST_SHARED: Final = 4096  # bytes of a piece that is kept once for many objects
SHARED: Final = 2000  # pieces that later objects may share: those that were used last

Item = TypeVar("Item", bound=Json)

decode = msgspec.json.Decoder().decode


class Packed(MutableMapping[tuple[str, str], Item]):
    """Objects by namespace and name. To read one decodes it, so that every reader has an object of its own.

    `split` returns the JSON of an object in pieces, and `join` that JSON from them. A namespace has a dict of its
    own: a key is then a name alone.
    """

    def __init__(
        self,
        split: Callable[[Item], tuple[bytes, ...]],
        join: Callable[[tuple[bytes, ...]], bytes] = b"".join,
    ) -> None:
        self.split = split
        self.join = join
        self.namespaces: dict[str, dict[str, tuple[bytes, ...]]] = {}

    def __getitem__(self, key: tuple[str, str]) -> Item:
        namespace, name = key
        return decode(self.join(self.namespaces[namespace][name]))  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, tuple):
            return False
        namespace, name = key
        return name in self.namespaces.get(namespace, ())

    def __setitem__(self, key: tuple[str, str], item: Item) -> None:
        namespace, name = key
        self.namespaces.setdefault(intern(namespace), {})[name] = self.split(item)

    def __delitem__(self, key: tuple[str, str]) -> None:
        namespace, name = key
        del self.namespaces[namespace][name]
        if not self.namespaces[namespace]:
            del self.namespaces[namespace]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((namespace, name) for namespace, objects in self.namespaces.items() for name in objects)

    def __len__(self) -> int:
        return sum(map(len, self.namespaces.values()))


def shared(piece: bytes) -> bytes:
    """Return an equal piece that other objects have too, if there is one; not if it is large."""
    return same(piece) if len(piece) <= MOST_SHARED else piece


@lru_cache(maxsize=SHARED)
def same(piece: bytes) -> bytes:
    """Return the first of equal pieces."""
    return piece
