"""Whether a workload may run twice: only its author knows.

Reads, from the outside in, the innermost that says something winning:
    metadata.annotations[retry-policy.dev/retryable] of the object, of the templates in it
"""

from collections.abc import Iterable
from typing import Final

from webhook import names
from webhook.problem import Json

SAYS: Final = {"true": True, "false": False}


def may_run_twice(annotations: Iterable[Json | None]) -> bool:
    """Tell whether the last of these maps that says something says so, from the outside in; false where none does."""
    said = False
    for one in annotations:
        said = SAYS.get((one or {}).get(names.RETRYABLE) or "", said)
    return said
