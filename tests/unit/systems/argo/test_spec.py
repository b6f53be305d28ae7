"""Where Workflows and their templates have their retries, time limits and annotations of pods."""

from typing import Any

import pytest

from tests.unit.systems.reading import places, retries, root_of, timeouts_unset, wrong
from webhook.objects.problem import Json
from webhook.systems.argo.spec import (
    CLUSTER_WORKFLOW_TEMPLATE,
    CRON_WORKFLOW,
    DEEPEST,
    KINDS,
    WORKFLOW,
    WORKFLOW_TEMPLATE,
)
from webhook.systems.kind_spec import KindSpec

CONTAINER: Json = {"image": "python:alpine", "command": ["python", "-c", "import train"]}
# One step in a template of its own, one inline, and a DAG with an inline template.
TEMPLATES: list[Json] = [
    {
        "name": "main",
        "steps": [
            [{"name": "fetch", "template": "fetch"}],
            [{"name": "train", "inline": {"retryStrategy": {"limit": 4}, "container": CONTAINER}}],
        ],
    },
    {"name": "fetch", "retryStrategy": {"limit": "10", "backoff": {"duration": "1"}}, "container": CONTAINER},
    {
        "name": "report",
        "dag": {"tasks": [{"name": "a", "inline": {"retryStrategy": {"limit": "{{inputs.parameters.tries}}"}}}]},
    },
]


def workflow(**spec: Any) -> Json:
    return root_of(WORKFLOW, {"entrypoint": "main", **spec})


def test_each_template_with_a_retry_strategy_has_its_own_limit_even_an_inline_one() -> None:
    assert retries(WORKFLOW, workflow(templates=TEMPLATES)) == {
        "spec.retryStrategy.limit": 0,
        "spec.templates[0].steps[1][0].inline.retryStrategy.limit": 4,
        "spec.templates[1].retryStrategy.limit": 10,
        "spec.templates[2].dag.tasks[0].inline.retryStrategy.limit": 0,
    }


def test_a_limit_that_is_an_expression_is_returned_as_it_is_written() -> None:
    budgets = list(WORKFLOW.budgets(workflow(templates=TEMPLATES)))
    assert [one.expression for one in budgets if one.expression] == ["{{inputs.parameters.tries}}"]


@pytest.mark.parametrize("strategy", [{}, {"limit": None}, {"retryPolicy": "Always"}])
def test_a_strategy_without_a_limit_is_unlimited(strategy: Json) -> None:
    templates = [{"name": "main", "retryStrategy": strategy, "container": CONTAINER}]
    found = retries(WORKFLOW, workflow(retryStrategy=strategy, templates=templates))
    assert found == {"spec.retryStrategy.limit": None, "spec.templates[0].retryStrategy.limit": None}


def test_a_template_without_a_limit_has_the_limit_of_the_template_defaults() -> None:
    defaults = {"timeout": "30s", "retryStrategy": {"limit": "2"}}
    root = workflow(templateDefaults=defaults, templates=[{"name": "main", "retryStrategy": {}}, {"name": "other"}])
    assert retries(WORKFLOW, root) == {
        "spec.retryStrategy.limit": 0,
        "spec.templateDefaults.retryStrategy.limit": 2,
    }


@pytest.mark.parametrize(("runs", "allowed"), [(0, 0), (1, 0), (2, 1), ("5", 4)])
def test_a_container_set_counts_runs_and_not_retries(runs: int | str, allowed: int) -> None:
    in_set = {"retryStrategy": {"retries": runs, "duration": "10s"}, "containers": [CONTAINER]}
    found = retries(WORKFLOW, workflow(templates=[{"name": "main", "containerSet": in_set}]))
    assert found["spec.templates[0].containerSet.retryStrategy.retries"] == allowed


def test_a_cron_workflow_has_its_retries_in_its_workflow_spec() -> None:
    root = root_of(CRON_WORKFLOW, {"schedules": ["0 3 * * *"], "workflowSpec": {"templates": TEMPLATES}})
    assert list(retries(CRON_WORKFLOW, root)) == [
        path.replace("spec.", "spec.workflowSpec.", 1) for path in retries(WORKFLOW, workflow(templates=TEMPLATES))
    ]


def test_a_template_lacks_a_deadline_unless_it_or_the_template_defaults_have_one() -> None:
    bounded = {"name": "bounded", "activeDeadlineSeconds": 60, "script": {"source": "print()"}}
    templates = [*TEMPLATES, bounded]
    assert timeouts_unset(WORKFLOW, workflow(templates=templates)) == [
        "spec.templates[0].steps[1][0].inline.activeDeadlineSeconds",
        "spec.templates[1].activeDeadlineSeconds",
    ]
    defaults = {"activeDeadlineSeconds": "{{workflow.parameters.deadline}}"}
    assert timeouts_unset(WORKFLOW, workflow(templateDefaults=defaults, templates=templates)) == []


@pytest.mark.parametrize("work", ["container", "containerSet", "data", "resource", "script"])
def test_every_template_that_runs_a_pod_may_have_a_deadline_except_a_daemon(work: str) -> None:
    assert timeouts_unset(WORKFLOW, workflow(templates=[{"name": "main", work: {}}])) == [
        "spec.templates[0].activeDeadlineSeconds"
    ]
    assert timeouts_unset(WORKFLOW, workflow(templates=[{"name": "main", "daemon": True, work: {}}])) == []
    assert timeouts_unset(WORKFLOW, workflow(templates=[{"name": "main", "daemon": False, work: {}}]))


def test_templates_without_pods_have_no_deadline() -> None:
    templates = [{"name": "wait", "suspend": {}}, {"name": "call", "http": {"url": "https://example.test"}}]
    assert timeouts_unset(WORKFLOW, workflow(templates=templates)) == []


def test_pods_have_annotations_of_the_whole_workflow_and_of_their_template() -> None:
    templates = [{"name": "main", "metadata": {"annotations": {"a": "b"}}, "container": CONTAINER}]
    root = workflow(podMetadata={"annotations": {"team": "vision"}}, templates=templates)
    assert places(WORKFLOW.pod_annotations, root) == ["spec.podMetadata.annotations"]
    assert places(WORKFLOW.judged_annotations, root) == ["spec.templates[0].metadata.annotations"]


def test_a_cron_workflow_has_the_annotations_of_its_workflows() -> None:
    root = root_of(CRON_WORKFLOW, {"workflowMetadata": {"annotations": {"team": "vision"}}, "workflowSpec": {}})
    assert wrong(CRON_WORKFLOW, root) == []
    assert places(CRON_WORKFLOW.made_annotations, root) == ["spec.workflowMetadata.annotations"]


def nested(depth: int) -> Json:
    template: Json = {"retryStrategy": {"limit": 3}, "container": CONTAINER}
    for _ in range(depth):
        template = {"dag": {"tasks": [{"name": "inner", "inline": template}]}}
    return workflow(templates=[template])


def test_inline_templates_that_are_nested_too_deeply_are_a_problem() -> None:
    assert list(retries(WORKFLOW, nested(DEEPEST)).values()) == [0, 3]
    (found,) = wrong(WORKFLOW, nested(DEEPEST + 1))
    assert found.endswith("is nested too deeply; move it up")


@pytest.mark.parametrize(
    ("kind", "is_immutable", "owns_pods", "is_namespaced"),
    [
        (WORKFLOW, True, True, True),
        (WORKFLOW_TEMPLATE, False, False, True),
        (CLUSTER_WORKFLOW_TEMPLATE, False, False, False),
        (CRON_WORKFLOW, False, False, True),
    ],
)
def test_only_a_workflow_runs_pods_and_is_immutable(
    kind: KindSpec,
    is_immutable: bool,  # noqa: FBT001
    owns_pods: bool,  # noqa: FBT001
    is_namespaced: bool,  # noqa: FBT001
) -> None:
    assert kind in KINDS
    assert (kind.immutable, kind.owns_pods, kind.namespaced) == (is_immutable, owns_pods, is_namespaced)
