"""flyte.lyft.com/v1alpha1: FlyteWorkflows, and Flyte 2's TaskActions, which are the controllers of its pods.

Source: flytepropeller/pkg/apis/flyteworkflow/v1alpha1 of Flyte 1.16.8. minAttempts counts runs; a negative one wraps to
four billion; 1 and none are the platform's default. A TaskAction's retries stand in bytes that are not judged here.
"""

from typing import Final

from webhook.kinds.core import METADATA
from webhook.kinds.kind_spec import KindSpec, RetryField
from webhook.objects.patch import EVERY, Pattern
from webhook.objects.shape import ANY_KEY, Shape

RETRY: Final[Shape] = {"minAttempts": int}
NODE: Final[Shape] = {"retry": RETRY, "array": {"SubNodeSpec": {"retry": RETRY}}}
WORKFLOW: Final[Shape] = {"nodes": {ANY_KEY: NODE}, "onFailure": NODE}


def retries_of_nodes(workflow: Pattern) -> tuple[RetryField, ...]:
    """Return the retry fields of the workflow at a path."""
    nodes: tuple[Pattern, ...] = ((*workflow, "nodes", EVERY), (*workflow, "onFailure"))
    objects = (*nodes, *((*node, "array", "SubNodeSpec") for node in nodes))
    name = ("retry", "minAttempts")
    return tuple(
        RetryField(within=within, name=name, single=1, made=False, negative_is_unlimited=True) for within in objects
    )


FLYTE_WORKFLOW: Final = KindSpec(
    group="flyte.lyft.com",
    versions=("v1alpha1",),
    kind="FlyteWorkflow",
    resource="flyteworkflows",
    shape={
        "metadata": METADATA,
        "spec": WORKFLOW,
        "subWorkflows": {ANY_KEY: WORKFLOW},
        "tasks": {ANY_KEY: {"metadata": {"retries": {"retries": int}}}},
    },
    immutable=True,  # by us: a workflow runs as it was admitted, and propeller updates it all the time
    owns_pods=True,
    retry_fields=(
        *retries_of_nodes(("spec",)),
        *retries_of_nodes(("subWorkflows", EVERY)),
        RetryField(within=("tasks", EVERY), name=("metadata", "retries", "retries"), made=False),
    ),
)

TASK_ACTION: Final = KindSpec(
    group="flyte.org",
    versions=("v1",),
    kind="TaskAction",
    resource="taskactions",
    admitted=False,
    shape={"metadata": METADATA},
    owns_pods=True,
)

ROWS: Final = (FLYTE_WORKFLOW, TASK_ACTION)
