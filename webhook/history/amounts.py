"""What a pod requests, from its spec: as the scheduler adds up its containers (k8s.io/component-helpers/resource)."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import Any, Final

import msgspec

from webhook.history.record import MOST_RESOURCES
from webhook.objects.problem import Json
from webhook.objects.shape import ANY_KEY, Shape
from webhook.policy import quantities

# Pairs of a resource's name and its amount: `cpu` in cores, `memory` in bytes, others in their own unit.
Amounts = tuple[tuple[str, float], ...]
Requests = dict[str, str | None]

# The fields of a pod's spec that are decoded.
REQUESTS_READ: Final[Shape] = {"requests": {ANY_KEY: str}}
SPEC_READ: Final[dict[str, Shape]] = {
    "containers": [{"resources": REQUESTS_READ}],
    "initContainers": [{"restartPolicy": str, "resources": REQUESTS_READ}],
    "resources": REQUESTS_READ,
    "overhead": {ANY_KEY: str},
}
# Bounds on what is read, because the API has none on the number of containers, nor on that of their resources.
MOST_CONTAINERS: Final = 200  # regular ones, and as many init containers
MOST_NAMES: Final = 50  # of the resources of one container
LONGEST_NAME: Final = 317  # characters: a domain, a slash and 63 more
LARGEST: Final = 10**18  # of an amount; a record has no larger one
PLAIN: Final = ("cpu", "memory")
HUGE_PAGES: Final = "hugepages-"
# Bounds on requests whose sum is kept.
MOST_KEPT: Final = 50  # names of resources in all containers
LONGEST_KEPT: Final = 1024  # bytes, packed


def requested(spec: Json) -> Amounts:
    """Return what a pod requests, by its spec, decoded as SPEC_READ: cpu, memory, and the first extended resources.

    Equal amounts are the same object, because tens of thousands of pods have few different ones; for the same reason
    the requests of the last pods are not added up again.
    """
    regular = [_requests_of(one) for one in islice(spec.get("containers") or (), MOST_CONTAINERS)]
    init = [
        (_requests_of(one), one.get("restartPolicy") == "Always")
        for one in islice(spec.get("initContainers") or (), MOST_CONTAINERS)
    ]
    of_pod, overhead = _requests_of(spec), spec.get("overhead") or {}
    parts = (regular, init, of_pod, overhead)
    if len(of_pod) + len(overhead) + sum(map(len, regular)) + sum(len(one) for one, _ in init) > MOST_KEPT:
        return _added_up(*parts)
    packed = packer.encode(parts)
    return known_sum(packed) if len(packed) <= LONGEST_KEPT else _added_up(*parts)


@lru_cache(maxsize=4096)
def known_sum(packed: bytes) -> Amounts:
    """Return what `_added_up` does, by its packed arguments."""
    return _added_up(*unpacker.decode(packed))


def _added_up(
    regular: Sequence[Requests], init: Sequence[tuple[Requests, bool]], of_pod: Requests, overhead: Requests
) -> Amounts:
    """Return what a pod requests: by its regular containers, its init containers, as a whole, and for its overhead."""
    found = []
    for name in _names_in((*regular, *(requests for requests, _ in init), of_pod, overhead)):
        total = _total_of(name, regular, init)
        if name in of_pod and (name in PLAIN or name.startswith(HUGE_PAGES)):
            total = _number(of_pod[name])
        total = min(total + _number(overhead.get(name)), Fraction(LARGEST))
        if total:
            found.append((name, float(total)))
    result: Amounts = shared(tuple(found))
    return result


def _total_of(name: str, regular: Sequence[Json], init: Sequence[tuple[Json, bool]]) -> Fraction:
    """Return how much of a resource the containers need at once; `init`: requests, and whether it is a sidecar.

    A sidecar runs beside the init containers after it, and beside the regular containers.
    """
    sidecars = highest = Fraction(0)
    for requests, is_sidecar in init:
        own = _number(requests.get(name))
        highest = max(highest, sidecars + own)
        if is_sidecar:
            sidecars += own
    return max(sum((_number(requests.get(name)) for requests in regular), sidecars), highest)


def _names_in(requests: Iterable[Json]) -> list[str]:
    """Return cpu, memory, and the first extended resources by name."""
    extended = {
        name for one in requests for name in islice(one, MOST_NAMES) if "/" in name and len(name) <= LONGEST_NAME
    }
    return [*PLAIN, *map(intern, sorted(extended)[: MOST_RESOURCES - len(PLAIN)])]


def _requests_of(container: Json) -> Json:
    found: Json = (container.get("resources") or {}).get("requests") or {}
    return found


def _number(text: str | None) -> Fraction:
    """Return an amount; 0 for None, and for a text that is no amount."""
    return Fraction(0) if text is None or len(text) > quantities.LONGEST else parsed(text)


@lru_cache(maxsize=4096)
def parsed(text: str) -> Fraction:
    """Return an amount; 0 for a text that is none."""
    found = quantities.amount(text)
    return Fraction(0) if found is None else found


@lru_cache(maxsize=4096)
def shared(amounts: Any) -> Any:
    """Return the same object for equal amounts."""
    return amounts


packer: Final = msgspec.msgpack.Encoder()
unpacker: Final = msgspec.msgpack.Decoder(tuple[list[Requests], list[tuple[Requests, bool]], Requests, Requests])
