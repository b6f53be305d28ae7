"""Whether a workload may run twice: only its author knows.

Reads, from the outside in, the innermost that says something winning:
    metadata.annotations[retry-policy.dev/retryable] of the object, of the templates in it
"""

from collections.abc import Iterable

from webhook.kube import names
from webhook.objects.problem import Json


def may_run_twice(annotations: Iterable[Json | None]) -> bool:
    """Tell whether the last of these maps that says something says so, from the outside in; false where none does.

    Whatever is not "true" says that it may not.
    """
    said = [one[names.RETRYABLE] for one in annotations if one and names.RETRYABLE in one]
    return bool(said) and said[-1] == "true"
