"""Find whether a pod's own node selector or required node affinity excludes all spot or all on-demand nodes.

Reads spec.nodeSelector and spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution. Preferred terms
exclude nothing. The types of these fields have been checked; any of them may be absent or null.
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

# The values of a label that meet a constraint; None stands for a node without the label.
Values = set[str | None]

# The values, on spot nodes, of a label that only on-demand nodes have.
ABSENT: Final = (None,)


def refuses_spot(pod_spec: Json, provider: Provider) -> Path | None:
    """Return the path of the field that keeps a pod off all spot nodes of the provider; None if there is none.

    It is a constraint on one of the provider's labels that no spot value of the label meets. Or it is a field beside
    which the provider admits no other node selector key, because it chooses the capacity (`Provider.closed_by`).
    """
    return _refusal(pod_spec, provider, lambda key, met: met.isdisjoint(provider.spot_labels.get(key, ABSENT)))


def refuses_on_demand(pod_spec: Json, provider: Provider) -> Path | None:
    """Return the path of the field that restricts a pod to spot nodes of the provider; None if there is none.

    It is a constraint on one of the provider's labels that only spot values of the label meet. Or it is a field beside
    which the provider admits no other node selector key, as in `refuses_spot`.
    """
    return _refusal(pod_spec, provider, lambda key, met: bool(met) and met.issubset(provider.spot_labels.get(key, ())))


def _refusal(pod_spec: Json, provider: Provider, refused: Callable[[str, Values], bool]) -> Path | None:
    """Return the path of the first field that excludes the capacity; None if there is none.

    Most pods have neither node selector nor affinity: for those it returns at once.
    """
    if not (pod_spec.get("nodeSelector") or pod_spec.get("affinity")):
        return None
    return closing_field(pod_spec, provider) or refusing_field(pod_spec, provider, refused)


def refusing_field(pod_spec: Json, provider: Provider, refused: Callable[[str, Values], bool]) -> Path | None:
    """Return the path of the node selector key that excludes the capacity, or of an expression if every term does.

    None if there is no such key, and at least one term does not exclude it.
    """

    def refusing(expressions: list[Json]) -> int | None:
        by_key: dict[str, list[int]] = {}
        for position, expression in enumerate(expressions):
            by_key.setdefault(expression.get("key", ""), []).append(position)
        for key, positions in by_key.items():
            on_key = [expressions[position] for position in positions]
            if knows(provider, key) and refused(key, admitted(key, on_key, provider)):
                return positions[0]
        return None

    for key, value in (pod_spec.get("nodeSelector") or {}).items():
        if knows(provider, key) and refused(key, {value or ""}):
            return ("spec", "nodeSelector", key)
    return in_every_term(pod_spec, refusing)


def in_every_term(pod_spec: Json, position_in: Callable[[list[Json]], int | None]) -> Path | None:
    """Return the path of the first expression whose position in its term is returned, if every term has one; else None.

    Terms are ORed: with one term that has no such expression, the pod can run elsewhere.
    """
    first = None
    for index, expressions in terms(pod_spec):
        position = position_in(expressions)
        if position is None:
            return None
        first = first or (*TERMS, index, "matchExpressions", position)
    return first


def closing_field(pod_spec: Json, provider: Provider) -> Path | None:
    """Return the path of the node selector key or expression beside which the provider admits no other key; or None."""
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

    Empty terms are left out: "A null or empty node selector term matches no objects" (Kubernetes API reference).
    """
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return [
        (index, term.get("matchExpressions") or [])
        for index, term in enumerate(required.get("nodeSelectorTerms") or ())
        if term.get("matchExpressions") or term.get("matchFields")
    ]


def knows(provider: Provider, key: str) -> bool:
    """Return True if a label key distinguishes the provider's spot or on-demand nodes."""
    return key in provider.spot_labels or key in provider.on_demand_labels


def closes(provider: Provider, key: str, value: str | None) -> bool:
    """Return True if the provider admits no other node selector key beside this key with this value."""
    return key in provider.closed_by and value not in provider.closed_by[key]


def admitted(key: str, on_key: list[Json], provider: Provider) -> Values:
    """Return the values of a label that meet all expressions on it in one term: `on_key`.

    Considers the values of the provider and those in the expressions. Each expression reduces one set, so that the time
    grows linearly with the number of values.
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
