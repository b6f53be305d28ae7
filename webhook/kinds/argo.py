"""argoproj.io/v1alpha1: Workflows, CronWorkflows and WorkflowTemplates.

Source: pkg/apis/workflow/v1alpha1 and workflow/controller of Argo Workflows 3.7.3. A retryStrategy without a limit is
unlimited. A template's retryStrategy is merged, field by field, with that of templateDefaults; without either, the
workflow's applies, to steps and DAGs too. `containerSet.retryStrategy.retries` counts runs: with 0 the command never
runs and counts as succeeded.
"""

from dataclasses import replace
from typing import Final

from webhook.kinds.core import METADATA
from webhook.kinds.kind_spec import Field, KindSpec, RetryField, TimeoutField
from webhook.objects.patch import EVERY, Nested
from webhook.objects.problem import Path
from webhook.objects.shape import ANY_KEY, TOO_DEEP, Shape

GROUP: Final = "argoproj.io"
VERSIONS: Final = ("v1alpha1",)
DEEPEST: Final = 8
NUMBER_OR_EXPRESSION: Final = (int, str)
IN_PODS: Final = frozenset({"container", "containerSet", "data", "resource", "script"})

# Steps and tasks may contain inline templates.
INLINE: Final = Nested((("steps", EVERY, EVERY, "inline"), ("dag", "tasks", EVERY, "inline")))


def template_shape(depth: int) -> Shape:
    """Return the shape of a Template."""
    inner = template_shape(depth - 1) if depth else TOO_DEEP
    return {
        "activeDeadlineSeconds": NUMBER_OR_EXPRESSION,
        "daemon": bool,
        "metadata": {"annotations": {ANY_KEY: str}},
        "retryStrategy": {"limit": NUMBER_OR_EXPRESSION},
        "containerSet": {"retryStrategy": {"retries": NUMBER_OR_EXPRESSION}},
        "steps": [[{"inline": inner}]],
        "dag": {"tasks": [{"inline": inner}]},
    }


TEMPLATE: Final = template_shape(DEEPEST)
WORKFLOW_SPEC: Final[Shape] = {
    "podMetadata": {"annotations": {ANY_KEY: str}},
    "retryStrategy": {"limit": NUMBER_OR_EXPRESSION},
    "templateDefaults": TEMPLATE,
    "templates": [TEMPLATE],
}


def retry_fields(spec: Path) -> tuple[RetryField, ...]:
    """Return the retry fields of the WorkflowSpec at a path."""
    limit = ("retryStrategy", "limit")
    defaults = (*spec, "templateDefaults")
    templates = (*spec, "templates", EVERY, INLINE)
    in_set = ("containerSet", "retryStrategy", "retries")
    return (
        RetryField(within=spec, name=limit, absent=None),
        RetryField(within=defaults, name=limit, absent=None, made=False),
        RetryField(within=templates, name=limit, absent=None, made=False, inherits=(*defaults, *limit)),
        RetryField(within=defaults, name=in_set, single=1, made=False),
        RetryField(within=templates, name=in_set, single=1, made=False),
    )


def timeout_fields(spec: Path) -> tuple[TimeoutField, ...]:
    """Return the time limits of one attempt in the WorkflowSpec at a path: those of pods, not of the whole workflow."""
    name = ("activeDeadlineSeconds",)
    inherits = (*spec, "templateDefaults", *name)
    within = (*spec, "templates", EVERY, INLINE)
    return (
        TimeoutField(
            within=within,
            name=name,
            only_with=IN_PODS,
            never_with="daemon",
            inherits=inherits,
            together_with="`containerSet.retryStrategy`",
        ),
    )


def judged_annotations(spec: Path) -> tuple[Field, ...]:
    """Return the annotations that pods of one template get in the WorkflowSpec at a path."""
    holders = ((*spec, "templateDefaults"), (*spec, "templates", EVERY, INLINE))
    return tuple(Field(within=(*holder, "metadata"), name=("annotations",)) for holder in holders)


def pod_annotations(spec: Path) -> tuple[Field, ...]:
    """Return the annotations that all pods of the WorkflowSpec at a path get; they do not get those of the Workflow."""
    return (Field(within=spec, name=("podMetadata", "annotations")),)


SPEC: Final[Path] = ("spec",)
CRON_SPEC: Final[Path] = ("spec", "workflowSpec")

WORKFLOW_TEMPLATE: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="WorkflowTemplate",
    resource="workflowtemplates",
    shape={"metadata": METADATA, "spec": WORKFLOW_SPEC},
    retry_fields=retry_fields(SPEC),
    timeout_fields=timeout_fields(SPEC),
    pod_annotations=pod_annotations(SPEC),
    judged_annotations=judged_annotations(SPEC),
)

CLUSTER_WORKFLOW_TEMPLATE: Final = replace(
    WORKFLOW_TEMPLATE, kind="ClusterWorkflowTemplate", resource="clusterworkflowtemplates", namespaced=False
)

# Immutable for this webhook, not for the API: a Workflow runs as it was admitted, and its controller updates it often.
WORKFLOW: Final = replace(WORKFLOW_TEMPLATE, kind="Workflow", resource="workflows", immutable=True, owns_pods=True)

CRON_WORKFLOW: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="CronWorkflow",
    resource="cronworkflows",
    shape={
        "metadata": METADATA,
        "spec": {"workflowSpec": WORKFLOW_SPEC, "workflowMetadata": {"annotations": {ANY_KEY: str}}},
    },
    made_annotations=(Field(within=SPEC, name=("workflowMetadata", "annotations")),),
    retry_fields=retry_fields(CRON_SPEC),
    timeout_fields=timeout_fields(CRON_SPEC),
    pod_annotations=pod_annotations(CRON_SPEC),
    judged_annotations=judged_annotations(CRON_SPEC),
)

ROWS: Final = (WORKFLOW, WORKFLOW_TEMPLATE, CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW)
