"""Tells the program which attempt it is: variables in each container, so that it can resume from its checkpoint.

Reads: spec.{containers,initContainers}[*].env[*].name
Writes: spec.{containers,initContainers}[*].env: RETRY_ATTEMPT, RETRY_MAX, RETRY_PLACEMENT, RETRY_LAST_CAUSE

A variable that the author sets is left as it is. Ours come first, so that the author's own values may contain
$(RETRY_ATTEMPT): Kubernetes replaces only variables that were set before.
"""

from typing import TYPE_CHECKING, Any, Final

from webhook.objects.patch import EVERY, Editor, Pattern
from webhook.objects.problem import Problem
from webhook.rules.pods import containers
from webhook.rules.pods.placement import Decision
from webhook.rules.rule import Rule, in_pods

if TYPE_CHECKING:
    from webhook.rules.contexts import PodContext

ATTEMPT: Final = "RETRY_ATTEMPT"
MAX: Final = "RETRY_MAX"
PLACEMENT: Final = "RETRY_PLACEMENT"
LAST_CAUSE: Final = "RETRY_LAST_CAUSE"
WRITES: Final[tuple[Pattern, ...]] = tuple(("spec", field, EVERY, "env") for field in containers.FIELDS)


def variables(decision: Decision, placed: str, last_cause: str) -> dict[str, str]:
    """Return the variables of a pod; `last_cause`: why the last attempt ended, empty if there was none."""
    return {
        ATTEMPT: str(decision.retries.attempt),
        MAX: str(decision.retries.budget),
        PLACEMENT: placed,
        LAST_CAUSE: last_cause,
    }


def edit(values: dict[str, str], editor: Editor) -> None:
    """Set variables in each container that does not set them; `editor`: that of a pod with all its fields."""
    for path, container in containers.of(editor.root):
        present = container.get("env")
        if not isinstance(present, list | None):
            continue  # of a file: the API server refuses it
        missing = [{"name": name, "value": value} for name, value in values.items() if not has(present, name)]
        if not present and missing:
            editor.set((*path, "env"), missing)
            continue
        for index, variable in enumerate(missing):
            editor.insert((*path, "env"), index, variable)


def has(variables: list[Any] | None, name: str) -> bool:
    """Return True if a variable is in the list of a container."""
    return any(isinstance(one, dict) and one.get("name") == name for one in variables or ())


def _edit(context: "PodContext") -> list[Problem]:
    edit(variables(context.decision, context.plan.placement, context.after.cause), context.editor_of_whole())
    return []


# After the placement, which it tells the program.
RULE: Final[Rule["PodContext"]] = Rule(
    name="environment",
    applies_to="each pod, where the profile says so",
    applies=lambda context: context.profile.profile.environment,
    edit=_edit,
    writes=in_pods(*WRITES),
)
