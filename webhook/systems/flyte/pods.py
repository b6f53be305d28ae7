"""The pods of a FlyteWorkflow: the scope is a node; a variable of the task's container has the 0-based attempt.

Flyte 2 also writes a label with the 1-based attempt, since 2.0.43. If a container has several variables of that name,
the first is Flyte's (flyteplugins/go/tasks/pluginmachinery/flytek8s).
"""

from itertools import islice
from typing import Final

from webhook.objects import bounds
from webhook.objects.patch import EVERY, at, find
from webhook.objects.problem import Json
from webhook.policy.settings import count
from webhook.systems.flyte import spec as flyte
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pod_source import Evidence, Level, Place, PodSource, number_at

NAME: Final = "Flyte"
VARIABLE: Final = "FLYTE_ATTEMPT_NUMBER"
PRIMARY: Final = "primary_container_name"
NODE: Final = "node-id"
LABELS: Final = (NODE,)
LABEL: Final = "attempt"
CONTAINER: Final = 3  # parts of the path of a container


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the variable, or else of the label."""
    attempt = _attempt_of(evidence)
    if attempt is None:
        numbered = evidence.count_in_labels(LABEL)
        if numbered == 0:
            evidence.warn(("metadata", "labels", LABEL), numbered)
        attempt = numbered - 1 if numbered else None
    return [] if attempt is None else [Level(NAME, attempt, _budget_of(evidence))]


def _attempt_of(evidence: Evidence) -> int | None:
    """Return the attempt in the first such variable, of the primary container if it has one; None if malformed."""
    pod, primary = evidence.whole(), evidence.annotations.get(PRIMARY)
    variables = [
        (path, variable)
        for path, variable in islice(find(pod, ("spec", "containers", EVERY, "env", EVERY)), bounds.MOST_ENTRIES)
        if at(variable, ("name",)) == VARIABLE
    ]
    variables.sort(key=lambda one: at(pod, (*one[0][:CONTAINER], "name")) != primary)
    if not variables:
        return None
    path, variable = variables[0]
    text = at(variable, ("value",))
    number = count(text) if isinstance(text, str) else None
    if number is None:
        evidence.warn((*path[:-1], VARIABLE), text)
    return number


def _budget_of(evidence: Evidence) -> int:
    """Return the retries of the pod's node; with 1 attempt, the settings' budget.

    1 attempt means the default of the Flyte platform, which neither pod nor workflow contains. Nodes of sub-workflows
    and elements of map tasks may have the same label as another node: only the pod's name distinguishes them.
    """
    node = evidence.labels.get(NODE)
    name, execution = at(evidence.pod, ("metadata", "name")), evidence.controller
    if execution is None or str(name).rpartition("-")[0] != f"{execution.name}-{node}":
        return evidence.settings_budget
    attempts = number_at(evidence.owner, ("spec", "nodes", node or "", "retry", "minAttempts"))
    return evidence.settings_budget if attempts in {None, 1} else max(0, (attempts or 0) - 1)


def _place_of(metadata: Json, controller: OwnerReference) -> Place:
    """Return the place of a pod of a FlyteWorkflow: the scope is what Flyte calls the pod, without the attempt.

    The label of the node alone does not tell apart the nodes of sub-workflows and the elements of map tasks. A name
    that would be too long is a digest: then the scope is the label, with `/*`.
    """
    name = metadata.get("name") or ""
    prefix = f"{controller.name}-"
    node, _, attempt = name.removeprefix(prefix).rpartition("-")
    if not (name.startswith(prefix) and node and attempt.isdecimal()):
        node = f"{(metadata.get('labels') or {}).get(NODE) or ''}/*"
    return Place(flyte.FLYTE_WORKFLOW, controller.name, controller.uid, node)


# Flyte has retries of its own for disruptions: max-node-retries-system-failures of its propeller, by default 3.
PODS: Final = (
    PodSource(flyte.FLYTE_WORKFLOW, NAME, levels, _place_of, replaces=lambda _: True),
    PodSource(flyte.TASK_ACTION, NAME, levels, is_counted=False, replaces=lambda _: True),
)
