"""The node name of a Workflow's pod, in which each (N) is the attempt of a retried node, the outer nodes first.

`w(1)[0].s(0)` is the first attempt of a step in the second attempt of its workflow. Items of a loop are written
(N:item), without the parentheses in the item itself (workflow/controller of Argo 3.7). An environment variable of the
init container holds the template with its merged retryStrategy. A template without one has the workflow's.
"""

import re
from itertools import islice
from typing import Any, Final

from webhook.attempts.level import Evidence, Level
from webhook.kinds.batch import decoded
from webhook.kinds.kind_spec import NUMBER
from webhook.objects import bounds
from webhook.objects.patch import EVERY, at, find

NAME: Final = "Argo"
NODE_NAME: Final = "workflows.argoproj.io/node-name"
TEMPLATE: Final = "ARGO_TEMPLATE"
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
    budgets = [budget_of_any(evidence)] * (len(attempts) - 1) + [budget_of_template(evidence)]
    return [Level(NAME, attempt, budget) for attempt, budget in zip(attempts, budgets, strict=True)]


def budget_of_template(evidence: Evidence) -> int:
    """Return the retries of the pod's template."""
    strategy = at(template_of(evidence.whole()), ("retryStrategy",))
    if not isinstance(strategy, dict):
        return budget_of_any(evidence)
    limit = limit_of(strategy.get("limit"))
    return evidence.settings_budget if limit is None else limit


def budget_of_any(evidence: Evidence) -> int:
    """Return the retries of a template that has no limit of its own, or that the pod does not contain."""
    for spec in (("spec",), ("status", "storedWorkflowTemplateSpec")):
        for strategy in (("templateDefaults", "retryStrategy"), ("retryStrategy",)):
            limit = limit_of(at(evidence.owner, (*spec, *strategy, "limit")))
            if limit is not None:
                return limit
    return evidence.settings_budget


def limit_of(value: Any) -> int | None:
    """Return a limit as Argo reads it: a negative number is 0; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | str) or not NUMBER.fullmatch(str(value)):
        return None
    return max(0, int(value))


def template_of(pod: Any) -> Any:
    """Return the pod's template; None if no init container has it, or it is too long or malformed."""
    for _, variable in islice(find(pod, ("spec", "initContainers", EVERY, "env", EVERY)), bounds.MOST_ENTRIES):
        if at(variable, ("name",)) == TEMPLATE:
            value = at(variable, ("value",))
            return decoded(value) if isinstance(value, str) and len(value) <= bounds.MAX_VARIABLE else None
    return None
