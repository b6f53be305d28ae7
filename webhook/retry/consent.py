"""Whether a workload may run twice: only its author knows.

Reads; the innermost annotation wins:
    metadata.annotations[retry-policy.dev/retryable] of the object and of the templates in it
"""

from collections.abc import Iterable

from webhook.kube import names
from webhook.objects.problem import Json


def may_run_twice(annotations: Iterable[Json | None]) -> bool:
    """Return True if the last of these annotation maps with the key `retryable` has the value "true"; else False.

    The maps are in order from the object to its innermost template.
    """
    values = [one[names.RETRYABLE] for one in annotations if one and names.RETRYABLE in one]
    return bool(values) and values[-1] == "true"
