"""Writes CEL for the limits of Argo's retryStrategies, which may be sums of retries and disruptions.

The expressions mirror `retries_in_sum` of webhook/systems/argo/spec.py. Brackets are followed DEEPEST levels deep: a
condition that is nested deeper is taken for an author's, so that its limit counts retries alone.
"""

from typing import Final

from webhook.export.cel import text, value
from webhook.objects.problem import Path
from webhook.systems.argo import spec as argo
from webhook.systems.kind_spec import RetryField

DEEPEST: Final = 8
# A character of code outside brackets, or a string; `/` opens no comment.
CODE: Final = r"""[^]\[(){}'"`;/*]|'([^'\\]|\\(.|\n))*'|"([^"\\]|\\(.|\n))*"|`[^`]*`"""
END: Final = "[)] && asInt[(]retries[)] < [0-9]{1,9}"
LONGEST: Final = len(argo.BEFORE) + argo.LONGEST_EXPRESSION + len(END)


def closed(depth: int) -> str:
    """Return a regular expression for code that closes what it opens, up to this depth."""
    inner = rf"|[(\[{{]{closed(depth - 1)}[)\]}}]" if depth else ""
    return f"([*]|/?({CODE}{inner}))*"


def counted(number: str, expression: str) -> str:
    """Return the retries that a limit allows, with the value of the field `expression` beside it.

    A sum that allows more disruptions than the profile counts as a number of retries.
    """
    ours = (
        f"type(e) == string && string(e).size() <= {LONGEST} && string(e).startsWith({text(argo.BEFORE)}) &&\n"
        f"    !string(e).contains('{{{{') &&\n"
        f"    string(e).substring({len(argo.BEFORE)}).matches({text(f'^{closed(DEEPEST)}{END}$')})"
    )
    tail = "string(e).split(' < ')"
    return (
        f"[{number}].map(n, n <= variables.limit ? n : [{expression}].map(e,\n    {ours} ?\n"
        f"    int({tail}[{tail}.size() - 1]) : n).map(r, r < n && n - r <= variables.mostDisruptions ? r : n)[0])[0]"
    )


def expression_beside(limit: Path, of: str = "o") -> str:
    """Return the value of the field `expression` beside a limit."""
    return value((*limit[:-1], "expression"), of)


def inherited_entry(field: RetryField, path: str, number: str) -> str:
    """Return the entry of a field that inherits a sum which an expression of its own makes one of retries; else {}.

    `number`: a regular expression for numbers.
    """
    above, own = value(field.inherits, "object"), expression_beside(field.name)
    is_number = f"{above} != null && string({above}).matches({number})"
    is_sum = f"{counted(f'int({above})', expression_beside(field.inherits, 'object'))} < int({above})"
    return f"({own} != null && {is_number} && {is_sum} ?\n  {{{path}: {counted(f'int({above})', own)}}} : {{}})"
