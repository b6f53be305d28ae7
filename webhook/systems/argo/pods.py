"""The pods of a Workflow: the scope is the node, and each (N) in its name is the attempt of a retried node.

The outer nodes are first: `w(1)[0].s(0)` is the first attempt of a step in the second attempt of its workflow. Items of
a loop are written (N:item), without the parentheses in the item itself (workflow/controller of Argo 3.7). An
environment variable of the init container holds the template with its merged retryStrategy. A template without one has
the workflow's.

A limit that admission has raised for disruptions is a sum (webhook/systems/argo/rules.py): only the retries in it are
this level then, without the attempts that the ledger has counted as disruptions.
"""

import re
from itertools import islice
from typing import Any, Final

from webhook.objects import bounds
from webhook.objects.patch import EVERY, at, find
from webhook.objects.problem import Json
from webhook.systems.argo import spec as argo
from webhook.systems.argo.spec import NODE_NAME, retries_in_sum
from webhook.systems.kind_spec import NUMBER, OwnerReference, decoded
from webhook.systems.pod_source import Evidence, Level, Place, PodSource

NAME: Final = "Argo"
TEMPLATE: Final = "ARGO_TEMPLATE"
ANNOTATIONS: Final = (NODE_NAME,)
ATTEMPT: Final = re.compile(r"\([0-9]{1,9}\)\Z")
RETRY: Final = re.compile(r"\(([0-9]{1,9})\)")


def levels(evidence: Evidence) -> list[Level]:
    """Return a level for each (N) in the node name; if it has none, a level without retries."""
    name = evidence.annotations.get(NODE_NAME)
    if name is None:
        return []
    if len(name) > bounds.MAX_SIGNAL:
        evidence.warn(("metadata", "annotations", NODE_NAME), name)
        return []
    attempts = [int(number) for number in RETRY.findall(name)]
    if not attempts:
        return [Level(NAME, 0, 0)]  # no node above the pod has a retryStrategy
    outer = _budget_of_any(evidence)[0]
    own, free = _budget_of_template(evidence)
    found = [Level(NAME, attempt, outer) for attempt in attempts[:-1]]
    disruptions = (evidence.disruptions or 0) if free else 0
    return [*found, Level(NAME, max(0, attempts[-1] - disruptions), own)]


def _budget_of_template(evidence: Evidence) -> tuple[int, int]:
    """Return the retries of the pod's template, and the disruptions that it allows in addition."""
    strategy = at(_template_of(evidence.whole()), ("retryStrategy",))
    if not isinstance(strategy, dict):
        return _budget_of_any(evidence)
    return _budget_in(strategy) or (evidence.settings_budget, 0)


def _budget_of_any(evidence: Evidence) -> tuple[int, int]:
    """Return the same for a template that has no limit of its own, or that the pod does not contain."""
    for spec in (("spec",), ("status", "storedWorkflowTemplateSpec")):
        for name in (("templateDefaults", "retryStrategy"), ("retryStrategy",)):
            strategy = at(evidence.owner, (*spec, *name))
            found = _budget_in(strategy) if isinstance(strategy, dict) else None
            if found is not None:
                return found
    return evidence.settings_budget, 0


def _budget_in(strategy: Json) -> tuple[int, int] | None:
    """Return the retries and the disruptions of a retryStrategy; None if its limit is not a number."""
    limit = _limit_of(strategy.get("limit"))
    if limit is None:
        return None
    retries = retries_in_sum(strategy) if isinstance(strategy.get("expression"), str) else None
    return (limit, 0) if retries is None or retries > limit else (retries, limit - retries)


def _limit_of(value: Any) -> int | None:
    """Return a limit as Argo reads it: a negative number is 0; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | str) or not NUMBER.fullmatch(str(value)):
        return None
    return max(0, int(value))


def _template_of(pod: Any) -> Any:
    """Return the pod's template; None if no init container has it, or it is too long or malformed."""
    for _, variable in islice(find(pod, ("spec", "initContainers", EVERY, "env", EVERY)), bounds.MOST_ENTRIES):
        if at(variable, ("name",)) == TEMPLATE:
            value = at(variable, ("value",))
            return decoded(value) if isinstance(value, str) and len(value) <= bounds.MAX_VARIABLE else None
    return None


def _place_of(metadata: Json, controller: OwnerReference) -> Place:
    node = (metadata.get("annotations") or {}).get(NODE_NAME) or ""
    scope = ATTEMPT.sub("", node).removeprefix(controller.name).removeprefix(".")
    return Place(argo.WORKFLOW, controller.name, controller.uid, scope)


PODS: Final = (PodSource(argo.WORKFLOW, NAME, levels, _place_of),)
