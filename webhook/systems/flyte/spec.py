"""flyte.lyft.com/v1alpha1: FlyteWorkflows. flyte.org/v1: the TaskActions of Flyte 2, the controllers of its pods.

Source: flytepropeller/pkg/apis/flyteworkflow/v1alpha1 of Flyte 1.16.8. minAttempts counts runs. A negative number
overflows to four billion; 1, or none, means the platform's default. A TaskAction encodes its retries in bytes, which
are not validated here.
"""

from typing import Final

from webhook.objects.patch import EVERY, Pattern
from webhook.objects.shape import ANY_KEY, Shape
from webhook.systems.core import METADATA
from webhook.systems.kind_spec import KindSpec, RetryField

RETRY: Final[Shape] = {"minAttempts": int}
NODE: Final[Shape] = {"retry": RETRY, "array": {"SubNodeSpec": {"retry": RETRY}}}
WORKFLOW: Final[Shape] = {"nodes": {ANY_KEY: NODE}, "onFailure": NODE}


def _retries_of_nodes(workflow: Pattern) -> tuple[RetryField, ...]:
    nodes: tuple[Pattern, ...] = ((*workflow, "nodes", EVERY), (*workflow, "onFailure"))
    objects = (*nodes, *((*node, "array", "SubNodeSpec") for node in nodes))
    name = ("retry", "minAttempts")
    return tuple(
        RetryField(within=within, name=name, single=1, may_be_added=False, negative_is_unlimited=True)
        for within in objects
    )


FLYTE_WORKFLOW: Final = KindSpec(
    group="flyte.lyft.com",
    versions=("v1alpha1",),
    kind="FlyteWorkflow",
    shape={
        "metadata": METADATA,
        "spec": WORKFLOW,
        "subWorkflows": {ANY_KEY: WORKFLOW},
        "tasks": {ANY_KEY: {"metadata": {"retries": {"retries": int}}}},
    },
    immutable=True,  # for this webhook: a workflow runs as it was admitted, and propeller updates it often
    owns_pods=True,
    retry_fields=(
        *_retries_of_nodes(("spec",)),
        *_retries_of_nodes(("subWorkflows", EVERY)),
        RetryField(within=("tasks", EVERY), name=("metadata", "retries", "retries"), may_be_added=False),
    ),
)

TASK_ACTION: Final = KindSpec(
    group="flyte.org",
    versions=("v1",),
    kind="TaskAction",
    admitted=False,
    shape={"metadata": METADATA},
    owns_pods=True,
)

KINDS: Final = (FLYTE_WORKFLOW, TASK_ACTION)
