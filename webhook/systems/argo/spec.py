"""argoproj.io/v1alpha1: Workflows, CronWorkflows and WorkflowTemplates.

Source: pkg/apis/workflow/v1alpha1 and workflow/controller of Argo Workflows 3.7.3. A retryStrategy without a limit is
unlimited. A template's retryStrategy is merged, field by field, with that of templateDefaults; without either, the
workflow's applies, to steps and DAGs too. `containerSet.retryStrategy.retries` counts runs: with 0 the command never
runs and counts as succeeded.

`retryStrategy.expression` decides after each attempt by what Argo knows of it (buildRetryStrategyLocalScope in
workflow/controller/operator.go). `lastRetry.message`, since Argo 3.5, is that of the pod, or else of a container that
failed, such as `main: Error (exit code 1)`. The pod's conditions are not among it.

A limit may be a template expression. Its number is known only where the object itself has the parameter; whoever
submits a WorkflowTemplate, or calls a template, may give it another. So beside an expression, `expression` bounds the
retries in each case.

A Workflow has no subresource for its status, so its author may write one. Of the templates in there the controller runs
those that it finds (setStoredWfSpec in workflow/controller/operator.go); a memoized resubmission has them. Where it
cannot convert an object, it reads it by encoding/json, which ignores the case of keys (FromUnstructuredObj in
workflow/util).
"""

import re
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice
from typing import Any, Final

from webhook.kube import terminal
from webhook.objects.patch import EVERY, Nested, at
from webhook.objects.problem import Json, Path
from webhook.objects.shape import ANY_KEY, TOO_DEEP, Shape
from webhook.systems.core import METADATA
from webhook.systems.kind_spec import NUMBER, Field, KindSpec, RetryField, TimeoutField

GROUP: Final = "argoproj.io"
VERSIONS: Final = ("v1alpha1",)
NODE_NAME: Final = "workflows.argoproj.io/node-name"  # annotation of pods
FAILED: Final = frozenset({"Failed", "Error"})  # phases
ENDED: Final = FAILED | {"Succeeded"}
DEEPEST: Final = 8
NUMBER_OR_EXPRESSION: Final = (int, str)
STRATEGY: Final[Shape] = {"limit": NUMBER_OR_EXPRESSION, "retryPolicy": str, "expression": str}
IN_PODS: Final = frozenset({"container", "containerSet", "data", "resource", "script"})

# Steps and tasks may contain inline templates.
INLINE: Final = Nested((("steps", EVERY, EVERY, "inline"), ("dag", "tasks", EVERY, "inline")))

# How the message begins of a container that ended with a code other than 0.
EXITED: Final = "([^ ]+: )?[A-Za-z]+ [(]exit code "
# Whether the last attempt was ended from outside, as far as Argo knows: its pod was deleted, the kubelet evicted or
# rejected it or its node was shut down, or a container had SIGTERM or SIGKILL, other than for its memory.
IS_DISRUPTED: Final = (
    "lastRetry.message matches '^(pod deleted$"
    "|can.t find failed message for pod |The node was low on resource|Preempted in order to admit critical pod"
    "|Pod was (terminated in response to imminent node shutdown|rejected as the node is shutting down)"
    "|([^ ]+: )?(Error|ContainerStatusUnknown) [(]exit code 1(37|43)[)])'"
)
BEFORE: Final = f"{IS_DISRUPTED} || ("
AFTER: Final = re.compile(r"\) && asInt\(retries\) < ([0-9]{1,9})")
BOUNDED: Final = re.compile(r"asInt\(retries\) < ([0-9]{1,9}) && \((.*)\)", re.DOTALL)
LONGEST_EXPRESSION: Final = 4_096  # characters of an author's expression that are looked at
DEPTHS: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
NO_BRACKETS: Final = re.compile(r"[^][(){}]+")
# A template expression that is a parameter of the workflow, or of a template.
PARAMETER: Final = re.compile(
    r"\{\{ *(?:= *)?(?:asInt *\( *)?(workflow|inputs)\.parameters"
    r"(?:\.([A-Za-z0-9_-]+)|\[['\"]([A-Za-z0-9_-]+)['\"]\])[ )]*\}\}"
)
LIMIT: Final = ("retryStrategy", "limit")
SPEC: Final[Path] = ("spec",)
CRON_SPEC: Final[Path] = ("spec", "workflowSpec")
STORED: Final[Path] = ("status", "storedWorkflowTemplateSpec")
LONGEST_TAG: Final = 200  # characters of a template expression that is looked up
MOST_PARAMETERS: Final = 100  # that are looked at to find one
STRING: Final = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`""", re.DOTALL)
CODE: Final = re.compile(r"""(?:[^'"`]|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`)*+""", re.DOTALL)  # and STRINGs


def sparing_disruptions(condition: str, retries: int | None) -> str:
    """Return an expression: retry after a disruption, else only under a condition and `retries` times at most.

    `retries`: None for as often as the limit allows.
    """
    return f"{BEFORE}{condition})" + ("" if retries is None else f" && asInt(retries) < {retries}")


def condition_in(expression: str) -> tuple[str, int | None] | None:
    """Return condition and retries of an expression by `sparing_disruptions`; None for any other expression."""
    if not expression.startswith(BEFORE):
        return None
    rest = expression.removeprefix(BEFORE)
    head, _, tail = rest.rpartition(") && ")
    found = AFTER.fullmatch(f") && {tail}")
    condition, retries = (rest.removesuffix(")"), None) if found is None else (head, int(found[1]))
    return (condition, retries) if is_closed(condition) else None


def bounded(expression: str, retries: int) -> str:
    """Return an expression that is true `retries` times at most, and only where `expression` is."""
    return f"asInt(retries) < {retries} && ({expression or 'true'})"


def without_bound(expression: str) -> tuple[str, int | None]:
    """Return the expression in one by `bounded`, and its retries; any other expression as it is, and None."""
    found = BOUNDED.fullmatch(expression)
    if found is None or not is_closed(found[2]):
        return expression, None
    return found[2], int(found[1])


def _bound_in(strategy: Json) -> int | None:
    """Return the retries that a retryStrategy allows whatever its limit becomes; None if it bounds them not."""
    return without_bound(strategy.get("expression") or "")[1]


def _parameter(root: Json, holder: Path, tag: str, spec: Path) -> int | None:
    """Return the number of the parameter that a template expression is, if the object at `spec` or `holder` has it.

    `holder`: the path of the template that the expression is in.
    """
    found = PARAMETER.fullmatch(tag) if len(tag) <= LONGEST_TAG else None
    if found is None:
        return None
    within = (*spec, "arguments") if found[1] == "workflow" else (*holder, "inputs")
    listed = at(root, (*within, "parameters"))
    for one in islice(listed if isinstance(listed, list) else (), MOST_PARAMETERS):
        if isinstance(one, dict) and one.get("name") == (found[2] or found[3]):
            value: Any = one.get("default") if one.get("value") is None else one["value"]
            return int(value) if not isinstance(value, bool) and NUMBER.fullmatch(str(value)) else None
    return None


def retries_in_sum(strategy: Json) -> int | None:
    """Return the retries in the limit of a retryStrategy that allows more runs after disruptions; None if not."""
    found = condition_in(strategy.get("expression") or "")
    return None if found is None or not NUMBER.fullmatch(str(strategy.get("limit"))) else found[1]


def is_closed(expression: str) -> bool:
    """Return True if an expression may stand in parentheses: it closes what it opens, and has no comments or tags.

    It may still be invalid: brackets of different kinds are not told apart.
    """
    if len(expression) > LONGEST_EXPRESSION or "{{" in expression:
        return False
    if not CODE.fullmatch(expression):
        return False  # a string is not closed
    code = STRING.sub("", expression)
    depths = list(accumulate(map(DEPTHS.__getitem__, NO_BRACKETS.sub("", code)), initial=0))
    return not (depths[-1] or min(depths) or any(mark in code for mark in ("//", "/*", ";")))


def _template_shape(depth: int) -> Shape:
    inner = _template_shape(depth - 1) if depth else TOO_DEEP
    return {
        "activeDeadlineSeconds": NUMBER_OR_EXPRESSION,
        "daemon": bool,
        "metadata": {"annotations": {ANY_KEY: str}},
        "retryStrategy": STRATEGY,
        "containerSet": {"retryStrategy": {"retries": NUMBER_OR_EXPRESSION}},
        "steps": [[{"inline": inner}]],
        "dag": {"tasks": [{"inline": inner}]},
    }


TEMPLATE: Final = _template_shape(DEEPEST)
WORKFLOW_SPEC: Final[Shape] = {
    "podMetadata": {"annotations": {ANY_KEY: str}},
    "retryStrategy": STRATEGY,
    "templateDefaults": TEMPLATE,
    "templates": [TEMPLATE],
}


def _retry_fields(spec: Path) -> tuple[RetryField, ...]:
    defaults = (*spec, "templateDefaults")
    templates = (*spec, "templates", EVERY, INLINE)
    limited, in_set = _limits(spec)
    return (
        limited(within=spec, may_be_added=True),
        limited(within=defaults),
        limited(within=templates, inherits=(*defaults, *LIMIT)),
        in_set(within=defaults),
        in_set(within=templates),
    )


def _limits(spec: Path) -> tuple[partial[RetryField], partial[RetryField]]:
    """Return the limit of a retryStrategy, and that of a containerSet's; `spec`: where the parameters are."""
    evaluated = partial(_parameter, spec=spec)
    return (
        partial(
            RetryField,
            name=LIMIT,
            absent=None,
            may_be_added=False,
            retries_in_sum=retries_in_sum,
            evaluated=evaluated,
            bound=_bound_in,
        ),
        partial(
            RetryField,
            name=("containerSet", "retryStrategy", "retries"),
            single=1,
            may_be_added=False,
            evaluated=evaluated,
        ),
    )


def _stored_retry_fields() -> tuple[RetryField, ...]:
    templates = ("status", "storedTemplates", EVERY, INLINE)
    return (*_retry_fields(STORED), *(field(within=templates) for field in _limits(SPEC)))


def _timeout_fields(spec: Path) -> tuple[TimeoutField, ...]:
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


def _judged_annotations(spec: Path) -> tuple[Field, ...]:
    holders = ((*spec, "templateDefaults"), (*spec, "templates", EVERY, INLINE))
    return tuple(Field(within=(*holder, "metadata"), name=("annotations",)) for holder in holders)


def _pod_annotations(spec: Path) -> tuple[Field, ...]:
    """Return the annotations that all pods of the WorkflowSpec at a path get; they do not get those of the Workflow."""
    return (Field(within=spec, name=("podMetadata", "annotations")),)


WORKFLOW_TEMPLATE: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="WorkflowTemplate",
    shape={"metadata": METADATA, "spec": WORKFLOW_SPEC},
    retry_fields=_retry_fields(SPEC),
    timeout_fields=_timeout_fields(SPEC),
    pod_annotations=_pod_annotations(SPEC),
    judged_annotations=_judged_annotations(SPEC),
    ignores_case=True,
)

CLUSTER_WORKFLOW_TEMPLATE: Final = replace(
    WORKFLOW_TEMPLATE, kind="ClusterWorkflowTemplate", resource="clusterworkflowtemplates", namespaced=False
)

# Immutable for this webhook, not for the API: a Workflow runs as it was admitted, and its controller updates it often.
WORKFLOW: Final = replace(
    WORKFLOW_TEMPLATE,
    kind="Workflow",
    resource="workflows",
    shape={
        "metadata": METADATA,
        "spec": WORKFLOW_SPEC,
        "status": {
            "phase": str,
            "conditions": [{"type": str, "status": str}],
            "storedWorkflowTemplateSpec": WORKFLOW_SPEC,
            "storedTemplates": {ANY_KEY: TEMPLATE},
        },
    },
    stored_retry_fields=_stored_retry_fields(),
    immutable=True,
    owns_pods=True,
    may_begin_anew=terminal.has_failed,
)

CRON_WORKFLOW: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="CronWorkflow",
    shape={
        "metadata": METADATA,
        "spec": {"workflowSpec": WORKFLOW_SPEC, "workflowMetadata": {"annotations": {ANY_KEY: str}}},
    },
    made_annotations=(Field(within=SPEC, name=("workflowMetadata", "annotations")),),
    retry_fields=_retry_fields(CRON_SPEC),
    timeout_fields=_timeout_fields(CRON_SPEC),
    pod_annotations=_pod_annotations(CRON_SPEC),
    judged_annotations=_judged_annotations(CRON_SPEC),
    ignores_case=True,
)

KINDS: Final = (WORKFLOW, WORKFLOW_TEMPLATE, CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW)


def spec_of(kind: KindSpec) -> Path:
    """Return the path of the WorkflowSpec in an object of one of these kinds."""
    return CRON_SPEC if kind is CRON_WORKFLOW else SPEC
