"""Whether a pod's own node selector or required node affinity stands against spot or against on-demand.

Reads spec.nodeSelector and spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution. Preferred terms
stand against nothing. Types have been checked before; anything may be absent or null.
"""

from collections.abc import Callable
from typing import Final

from webhook.capacity.provider import Provider
from webhook.objects.problem import Json, Path

TERMS: Final[Path] = (
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)

# The values of a label with which a node meets a constraint; None: without the label.
Values = set[str | None]

# What a spot node has of a label that marks on-demand nodes alone.
ABSENT: Final = (None,)


def refuses_spot(pod_spec: Json, provider: Provider) -> Path | None:
    """Return the field for which a pod can't be sent to the provider's spot nodes; None if it can.

    The pod refuses with a constraint, on any of the provider's labels, that no spot value of that label meets; or by
    leaving the choice of capacity to something beside which the provider admits no other key.
    """

    def refused(key: str, admitted: Values) -> bool:
        return admitted.isdisjoint(provider.spot_labels.get(key, ABSENT))

    return refusal(pod_spec, provider, refused)


def refuses_on_demand(pod_spec: Json, provider: Provider) -> Path | None:
    """Return the field for which a pod can't be kept off the provider's spot nodes; None if it can.

    The pod refuses with a constraint, on any of the provider's labels, that only spot values of that label meet; or as
    in `refuses_spot`.
    """

    def refused(key: str, admitted: Values) -> bool:
        return bool(admitted) and admitted.issubset(provider.spot_labels.get(key, ()))

    return refusal(pod_spec, provider, refused)


def refusal(pod_spec: Json, provider: Provider, refused: Callable[[str, Values], bool]) -> Path | None:
    """Return the first field that closes or refuses; None at once for a pod that chooses no node, as most do not."""
    if not (pod_spec.get("nodeSelector") or pod_spec.get("affinity")):
        return None
    return closing_field(pod_spec, provider) or refusing_field(pod_spec, provider, refused)


def refusing_field(pod_spec: Json, provider: Provider, refused: Callable[[str, Values], bool]) -> Path | None:
    """Return the node selector key, or the first of the expressions in every term, that says no; else None."""
    for key, value in (pod_spec.get("nodeSelector") or {}).items():
        if knows(provider, key) and refused(key, {value or ""}):
            return ("spec", "nodeSelector", key)
    first = None
    for index, expressions in terms(pod_spec):
        by_key: dict[str, list[int]] = {}
        for position, expression in enumerate(expressions):
            by_key.setdefault(expression.get("key", ""), []).append(position)
        for key, positions in by_key.items():
            on_key = [expressions[position] for position in positions]
            if knows(provider, key) and refused(key, admitted(key, on_key, provider)):
                first = first or (*TERMS, index, "matchExpressions", positions[0])
                break
        else:
            # Terms are ORed: one that does not refuse is enough.
            return None
    return first


def closing_field(pod_spec: Json, provider: Provider) -> Path | None:
    """Return the node selector key or expression beside which the provider admits no other key; else None."""
    if not provider.closed_by:
        return None
    for key, value in (pod_spec.get("nodeSelector") or {}).items():
        if closes(provider, key, value):
            return ("spec", "nodeSelector", key)
    for index, expressions in terms(pod_spec):
        for position, expression in enumerate(expressions):
            values = expression.get("values") or () if expression.get("operator") == "In" else ()
            if any(closes(provider, expression.get("key", ""), value) for value in values):
                return (*TERMS, index, "matchExpressions", position)
    return None


def terms(pod_spec: Json) -> list[tuple[int, list[Json]]]:
    """Return index and matchExpressions of each required nodeSelectorTerm that is not empty.

    "A null or empty node selector term matches no objects": it is no way out, and does not count.
    """
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return [
        (index, term.get("matchExpressions") or [])
        for index, term in enumerate(required.get("nodeSelectorTerms") or ())
        if term.get("matchExpressions") or term.get("matchFields")
    ]


def knows(provider: Provider, key: str) -> bool:
    """Say whether a label tells the provider's capacity."""
    return key in provider.spot_labels or key in provider.on_demand_labels


def closes(provider: Provider, key: str, value: str | None) -> bool:
    """Say whether the provider admits no other key beside this one."""
    return key in provider.closed_by and value not in provider.closed_by[key]


def admitted(key: str, on_key: list[Json], provider: Provider) -> Values:
    """Return which values of a label, of those known or named here, meet all of a term's expressions on it.

    Each expression takes from what is left, so that the cost grows with what is written and no faster.
    """
    left: Values = {None, *provider.spot_labels.get(key, ()), *provider.on_demand_labels.get(key, ())}
    left.update(value for expression in on_key for value in expression.get("values") or ())
    for expression in on_key:
        values = expression.get("values") or ()
        match expression.get("operator"):
            case "In":
                left.intersection_update(values)
            case "NotIn":
                left.difference_update(values)
            case "Exists":
                left.discard(None)
            case "DoesNotExist":
                left.intersection_update({None})
            case _:
                left.clear()  # Gt and Lt hold for integers only, and no capacity label has one
    return left
