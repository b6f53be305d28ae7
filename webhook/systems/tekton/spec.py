"""tekton.dev: Tasks, Pipelines and their runs; triggers.tekton.dev: TriggerTemplates, from which events create runs.

Source: pkg/apis/pipeline of Tekton 1.9.0. `retries` counts retries, is 0 by default, and has no value for unlimited.
Tekton copies annotations from a run to its TaskRuns and their pods. Tekton's webhook rejects every update that changes
the spec of a PipelineRun or TaskRun.

Source of triggers: pkg/template and pkg/sink of Tekton Triggers 0.34.0. An event's parameters replace $(tt.params.NAME)
in the text of a resource template. The resulting object is created and admitted like any other; if it is denied, the
event is lost. So the resource templates are validated when the TriggerTemplate is admitted, except for values that
contain parameters.
"""

from typing import Final

from webhook.kube import terminal
from webhook.objects.patch import EVERY, Nested, Pattern
from webhook.objects.problem import Json, Path
from webhook.objects.shape import ANY_KEY, TOO_DEEP, Shape
from webhook.systems.core import METADATA, OBJECT
from webhook.systems.kind_spec import Field, KindSpec, RetryField, TimeoutField

GROUP: Final = "tekton.dev"
VERSIONS: Final = ("v1", "v1beta1")
DEEPEST: Final = 8

# A pipeline may contain pipelines (alpha).
PIPELINES: Final = Nested((("tasks", EVERY, "pipelineSpec"), ("finally", EVERY, "pipelineSpec")))


def _pipeline_shape(depth: int) -> Shape:
    inner = _pipeline_shape(depth - 1) if depth else TOO_DEEP
    task_spec: Shape = {"metadata": {"annotations": {ANY_KEY: str}}}
    tasks: Shape = [{"retries": int, "onError": str, "pipelineSpec": inner, "taskSpec": task_spec}]
    return {"tasks": tasks, "finally": tasks}


def _may_retry(task: Json) -> bool:
    """Return True if a task may have retries: Tekton rejects retries together with onError continue."""
    return task.get("onError") != "continue"


def _tasks_of(spec: Path) -> tuple[Pattern, ...]:
    return tuple((*spec, PIPELINES, part, EVERY) for part in ("tasks", "finally"))


def _retries_of_tasks(spec: Path) -> tuple[RetryField, ...]:
    return tuple(RetryField(within=task, name=("retries",), may_raise=_may_retry) for task in _tasks_of(spec))


def _annotations_of_tasks(spec: Path) -> tuple[Field, ...]:
    return tuple(Field(within=(*task, "taskSpec", "metadata"), name=("annotations",)) for task in _tasks_of(spec))


TASK: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="Task",
    shape={"metadata": METADATA},
)

PIPELINE: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="Pipeline",
    shape={"metadata": METADATA, "spec": _pipeline_shape(DEEPEST)},
    retry_fields=_retries_of_tasks(("spec",)),
    judged_annotations=_annotations_of_tasks(("spec",)),
)

PIPELINE_RUN: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="PipelineRun",
    may_begin_anew=terminal.has_failed,
    shape={
        "metadata": METADATA,
        "spec": {
            "pipelineSpec": _pipeline_shape(DEEPEST),
            "taskRunSpecs": [{"metadata": {"annotations": {ANY_KEY: str}}}],
        },
        "status": {"conditions": [{"type": str, "status": str}]},
    },
    immutable=True,
    retry_fields=_retries_of_tasks(("spec", "pipelineSpec")),
    judged_annotations=(
        *_annotations_of_tasks(("spec", "pipelineSpec")),
        Field(within=("spec", "taskRunSpecs", EVERY, "metadata"), name=("annotations",)),
    ),
)

TASK_RUN: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="TaskRun",
    shape={"metadata": METADATA, "spec": {"retries": int, "timeout": str}},
    immutable=True,
    owns_pods=True,
    retry_fields=(RetryField(within=("spec",), name=("retries",)),),
    # The timeout of each attempt: it starts again with each retry. The timeout of a Pipeline's task is not set, because
    # it must be less than that of the whole run.
    timeout_fields=(TimeoutField(within=("spec",), name=("timeout",), duration=True),),
)

CUSTOM_RUN: Final = KindSpec(
    group=GROUP,
    versions=("v1beta1",),
    kind="CustomRun",
    shape={"metadata": METADATA, "spec": {"retries": int}},
    retry_fields=(RetryField(within=("spec",), name=("retries",)),),
)

EVENT_PARAMETER: Final = "$(tt."  # the prefix of values that an event replaces
TEMPLATES: Final = ("spec", "resourcetemplates", EVERY)

TRIGGER_TEMPLATE: Final = KindSpec(
    group="triggers.tekton.dev",
    versions=("v1beta1", "v1alpha1"),
    kind="TriggerTemplate",
    shape={"metadata": METADATA, "spec": {"resourcetemplates": [OBJECT]}},
    embedded=(TEMPLATES,),
    made_annotations=(Field(within=TEMPLATES, name=("metadata", "annotations")),),
)

KINDS: Final = (TASK, PIPELINE, PIPELINE_RUN, TASK_RUN, CUSTOM_RUN, TRIGGER_TEMPLATE)
