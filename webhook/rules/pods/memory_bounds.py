"""How much memory a container may have beside the others of its pod: by the nodes, a LimitRange or a ResourceQuota.

Reads, of the pod:
    spec.{containers,initContainers}[*].{name,restartPolicy,resources}, spec.overhead
    spec.{nodeSelector,affinity.nodeAffinity,activeDeadlineSeconds,priorityClassName}
and of its namespace the LimitRanges and ResourceQuotas.

The API server refuses a pod that exceeds one of these, again and again; and one that is larger than every node waits
for ever.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final, Literal

import msgspec

from webhook.capacity import Pool
from webhook.capacity.contradictions import terms
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.shape import ANY_KEY, Shape
from webhook.policy import quantities

Field = Literal["limits", "requests"]
FIELDS: Final[tuple[Field, ...]] = ("limits", "requests")

# The fields that are decoded.
LIMIT_RANGE: Final[Shape] = {
    "metadata": {"name": str},
    "spec": {"limits": [{"type": str, "max": {ANY_KEY: str}}]},
}
RESOURCE_QUOTA: Final[Shape] = {
    "metadata": {"name": str},
    "spec": {
        "hard": {ANY_KEY: str},
        "scopes": [str],
        "scopeSelector": {"matchExpressions": [{"scopeName": str, "operator": str, "values": [str]}]},
    },
    "status": {"hard": {ANY_KEY: str}, "used": {ANY_KEY: str}},
}
MOST_WORDS: Final = 300  # expressions and values on nodes of one pod; for a pod with more, all pools count
# Memory of the largest node that is left to the pods of DaemonSets: this share of it, at most these bytes.
DAEMONS_SHARE: Final = Fraction(1, 10)
DAEMONS_MOST: Final = 2 * 1024**3
# What is bounded: the limits or the requests of a whole pod, or each container.
By = Field | Literal["container"]
# The same by the type of a limit in a LimitRange.
BOUND_BY: Final[dict[str, tuple[By, ...]]] = {"Container": ("container",), "Pod": FIELDS}
# The keys of a ResourceQuota that are about memory.
QUOTA_KEYS: Final[tuple[tuple[str, Field], ...]] = (
    ("limits.memory", "limits"),
    ("memory", "requests"),
    ("requests.memory", "requests"),
)


class Restrictions(msgspec.Struct, frozen=True):
    """The LimitRanges and ResourceQuotas of a namespace; `are_known` is False if they could not be read."""

    limit_ranges: tuple[Json, ...] = ()
    quotas: tuple[Json, ...] = ()
    are_known: bool = True


class Bound(msgspec.Struct, frozen=True):
    """By how much a container's memory may grow at most: `ratio` of what it has.

    `kind`: what sets the bound, for metrics. `text`: the same for people, with its name.
    """

    ratio: Fraction
    kind: str
    text: str


class Most(msgspec.Struct, frozen=True):
    """The most memory that a pod may have, in bytes; `kind` and `text` as in Bound."""

    size: int
    kind: str
    text: str


def room_of(pod_spec: Json, nodes: Json, pools: Iterable[Pool], restrictions: Restrictions) -> dict[By, Most]:
    """Return the least bound of each sort on a pod; `nodes`: the spec of the pod with its final nodeAffinity."""
    largest = largest_node(nodes, pools)
    found: dict[By, Most] = {} if largest is None else {"requests": Most(largest, "Node", "the largest node")}
    for by, most in (*limits(restrictions), *left_of_quotas(restrictions, pod_spec)):
        if by not in found or most.size < found[by].size:
            found[by] = most
    return found


def limits(restrictions: Restrictions) -> Iterator[tuple[By, Most]]:
    """Yield the bounds of all LimitRanges."""
    for one in restrictions.limit_ranges:
        name = f"LimitRange {at(one, ('metadata', 'name')) or ''}"
        for limit in at(one, ("spec", "limits")) or ():
            size = amount(at(limit, ("max", "memory")))
            if size is not None:
                yield from ((by, Most(size, "LimitRange", name)) for by in BOUND_BY.get(limit.get("type"), ()))


def left_of_quotas(restrictions: Restrictions, pod_spec: Json) -> Iterator[tuple[By, Most]]:
    """Yield what the ResourceQuotas that count a pod have left."""
    for quota in restrictions.quotas:
        name = f"ResourceQuota {at(quota, ('metadata', 'name')) or ''}"
        for key, field in QUOTA_KEYS if is_about(quota, pod_spec) else ():
            left = left_of(quota, key)
            if left is not None:
                yield field, Most(left, "ResourceQuota", name)


def bounds(pod_spec: Json, container: Json, room: dict[By, Most]) -> Iterator[Bound]:
    """Yield the bounds on the memory of one container of a pod with memory."""
    for by, most in room.items():
        if by == "container":
            yield Bound(Fraction(most.size, largest_amount(container)), most.kind, most.text)
        elif own := amount_of(container, by):
            yield Bound(Fraction(most.size - beside(pod_spec, by, container), own), most.kind, most.text)


def beside(pod_spec: Json, field: Field, container: Json) -> int:
    """Return the most memory that a pod has beside one container while that runs, its overhead included.

    The regular containers run together, an init container with the sidecars before it, and a sidecar from its start on.
    """
    sidecars = most = 0
    runs = False
    for one in pod_spec.get("initContainers") or ():
        runs = runs or one is container
        own = 0 if one is container else amount_of(one, field)
        if one.get("restartPolicy") == "Always":
            sidecars += own
        elif runs:
            most = max(most, sidecars + own)
            runs = one is not container
    regular = pod_spec.get("containers") or ()
    if runs or any(one is container for one in regular):
        most = max(most, sidecars + sum(amount_of(one, field) for one in regular if one is not container))
    return most + (amount(at(pod_spec, ("overhead", "memory"))) or 0)


def largest_amount(container: Json) -> int:
    """Return the larger one of a container's limit and request; 0 if it has neither."""
    return max(amount_of(container, "limits"), amount_of(container, "requests"))


def amount_of(container: Json, field: Field) -> int:
    """Return the memory limit or request of a container; 0 if it has none. A limit alone is the request too."""
    found = amount(at(container, ("resources", field, "memory")))
    if found is None and field == "requests":
        found = amount(at(container, ("resources", "limits", "memory")))
    return found or 0


def amount(value: Any) -> int | None:
    """Return the bytes of an amount of memory in a manifest; None if it is none, or 0."""
    return quantities.memory(str(value)) if type(value) in {str, int} else None


def largest_node(pod_spec: Json, pools: Iterable[Pool]) -> int | None:
    """Return the memory for one pod on the largest node that it may run on; None if that is not known.

    If no pool fits, the nodes that fit are not there yet, and the largest of all nodes counts.
    """
    pools = [pool for pool in pools if pool.memory]
    selector, alternatives = pod_spec.get("nodeSelector") or {}, [found for _, found in terms(pod_spec)]
    words = len(selector) + sum(1 + len(one.get("values") or ()) for term in alternatives for one in term)
    fitting = pools if words > MOST_WORDS else [pool for pool in pools if pool.may_take(selector, alternatives)]
    memory = max((pool.memory for pool in fitting or pools), default=None)
    return None if memory is None else memory - min(int(memory * DAEMONS_SHARE), DAEMONS_MOST)


def left_of(quota: Json, key: str) -> int | None:
    """Return what a ResourceQuota has left of a resource; None if it does not limit it."""
    hard = at(quota, ("status", "hard", key)) or at(quota, ("spec", "hard", key))
    if hard is None:
        return None
    return (amount(hard) or 0) - (amount(at(quota, ("status", "used", key))) or 0)


def is_about(quota: Json, pod_spec: Json) -> bool:
    """Return False if a ResourceQuota does not count a pod; a scope that is unknown here counts all pods."""
    expressions = at(quota, ("spec", "scopeSelector", "matchExpressions")) or ()
    return all(is_in(pod_spec, scope, "Exists", ()) for scope in at(quota, ("spec", "scopes")) or ()) and all(
        is_in(pod_spec, one.get("scopeName"), one.get("operator"), one.get("values") or ()) for one in expressions
    )


def is_in(pod_spec: Json, scope: str | None, operator: str | None, values: Sequence[str]) -> bool:
    """Return True if a pod with memory is in a scope of a ResourceQuota."""
    priority: str = pod_spec.get("priorityClassName") or ""
    match scope, operator:
        case "Terminating", _:
            return pod_spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating", _:
            return pod_spec.get("activeDeadlineSeconds") is None
        case "BestEffort", _:
            return False
        case "PriorityClass", "In":
            return priority in values
        case "PriorityClass", "NotIn":
            return priority not in values
        case "PriorityClass", "DoesNotExist":
            return not priority
        case "PriorityClass", _:
            return bool(priority)
    return True
