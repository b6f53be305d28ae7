"""The node name of a Workflow's pod, in which each (N) is a retry, the outer ones first.

A step that is retried as a whole numbers what is in it: `w(1)[0].s(0)` is the first attempt of a step in the second one
of its workflow. Items are written (N:item), and lose parentheses of their own (workflow/controller of Argo 3.7). The
template itself, its retryStrategy merged, is told to the init container; without one the workflow's own holds.
"""

import re
from typing import Any, Final

import msgspec

from webhook.attempts.level import Evidence, Level, number_at
from webhook.patch import EVERY, at, find

NAME: Final = "Argo"
NODE_NAME: Final = "workflows.argoproj.io/node-name"
TEMPLATE: Final = "ARGO_TEMPLATE"
RETRY: Final = re.compile(r"\(([0-9]{1,9})\)")
LIMIT: Final = ("retryStrategy", "limit")


def levels(evidence: Evidence) -> list[Level]:
    """Read every retry that the pod is in."""
    name = evidence.annotations.get(NODE_NAME)
    if name is None:
        return []
    attempts = [int(number) for number in RETRY.findall(name)]
    outer = number_at(evidence.owner, ("spec", *LIMIT))
    outer = evidence.said_budget if outer is None else outer
    inner = number_at(template_of(evidence.pod), LIMIT)
    budgets = [*[outer] * (len(attempts) - 1), outer if inner is None else inner]
    return [Level(NAME, attempt, budget) for attempt, budget in zip(attempts, budgets, strict=False)] or [
        Level(NAME, 0, 0)  # nothing of it is retried
    ]


def template_of(pod: Any) -> Any:
    """Return the template that the pod runs; None where it is not told, or too long to be."""
    for _, variable in find(pod, ("spec", "initContainers", EVERY, "env", EVERY)):
        if at(variable, ("name",)) == TEMPLATE:
            try:
                return msgspec.json.decode(at(variable, ("value",)) or "null")
            except (msgspec.DecodeError, RecursionError, TypeError):
                return None
    return None
