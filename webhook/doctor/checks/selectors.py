"""Whether a label selector of a webhook matches, and whether a rule of it names a resource. Pure."""

from collections.abc import Iterable
from typing import Final

from webhook.objects.problem import Json
from webhook.rules.opt_in import labels_of

ANY: Final = "*"


def matches(selector: Json | None, labels: Json) -> bool:
    """Return True if a label selector matches labels; an empty one matches all."""
    selector = selector or {}
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(expression: Json, labels: Json) -> bool:
    key, values = str(expression.get("key")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def matches_namespace(hook: Json, namespace: Json) -> bool:
    """Return True if the API server calls a webhook for objects in a namespace."""
    name = namespace["metadata"]["name"]
    return matches(hook.get("namespaceSelector"), {"kubernetes.io/metadata.name": name, **labels_of(namespace)})


def sees(rules: Iterable[Json], group: str, resource: str, operation: str) -> bool:
    """Return True if one of the rules of a webhook matches an operation on a resource."""
    return any(
        {group, ANY} & {*(rule.get("apiGroups") or ())}
        and {resource, ANY, f"{ANY}/{ANY}"} & {*(rule.get("resources") or ())}
        and {operation, ANY} & {*(rule.get("operations") or ())}
        for rule in rules
    )
