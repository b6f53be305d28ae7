"""The attempt that Flyte tells a task's container, 0-based, and Flyte 2 also in a label, 1-based (since 2.0.43).

Of several variables of that name the first is Flyte's own (flyteplugins/go/tasks/pluginmachinery/flytek8s).
"""

from typing import Any, Final

from webhook.attempts.level import Evidence, Level, number_at
from webhook.patch import at
from webhook.policy.settings import count

NAME: Final = "Flyte"
VARIABLE: Final = "FLYTE_ATTEMPT_NUMBER"
PRIMARY: Final = "primary_container_name"
NODE: Final = "node-id"
LABEL: Final = "attempt"


def levels(evidence: Evidence) -> list[Level]:
    """Read the variable, else the label."""
    attempt = attempt_of(evidence)
    if attempt is None:
        numbered = evidence.count("labels", LABEL)
        attempt = None if numbered is None or numbered == 0 else numbered - 1
    return [] if attempt is None else [Level(NAME, attempt, budget_of(evidence))]


def attempt_of(evidence: Evidence) -> int | None:
    """Read the first such variable, of the primary container before the others."""
    containers: list[Any] = at(evidence.pod, ("spec", "containers")) or []
    primary = evidence.annotations.get(PRIMARY)
    for container in sorted(containers, key=lambda one: at(one, ("name",)) != primary):
        for variable in at(container, ("env",)) or ():
            if at(variable, ("name",)) == VARIABLE:
                text = at(variable, ("value",))
                number = count(text) if isinstance(text, str) else None
                if number is None:
                    evidence.warn(("spec", "containers", containers.index(container), "env", VARIABLE), text)
                return number
    return None


def budget_of(evidence: Evidence) -> int:
    """Return the retries of the pod's node; 1 attempt stands for the platform's default, which nobody tells."""
    node = evidence.labels.get(NODE)
    attempts = number_at(evidence.owner, ("spec", "nodes", node or "", "retry", "minAttempts"))
    return evidence.said_budget if attempts in {None, 1} else max(0, (attempts or 0) - 1)
