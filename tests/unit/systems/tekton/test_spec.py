"""Where Tekton's runs and Pipelines have their retries, and what TriggerTemplates create."""

from typing import Any

import pytest

from tests.unit.systems.reading import places, retries, root_of, timeouts_unset, wrong
from webhook.objects.problem import Json, field
from webhook.systems.kinds import embedded_in
from webhook.systems.tekton.spec import CUSTOM_RUN, DEEPEST, PIPELINE, PIPELINE_RUN, TASK, TASK_RUN, TRIGGER_TEMPLATE

STEPS: list[Json] = [{"name": "build", "image": "golang:1.25", "script": "go build ./..."}]


def pipeline_spec(**fields: Any) -> Json:
    tasks = [
        {"name": "build", "retries": 2, "taskSpec": {"steps": STEPS}},
        {"name": "test", "runAfter": ["build"], "taskRef": {"name": "test"}},
    ]
    return {"tasks": tasks, "finally": [{"name": "report", "retries": 1, "taskRef": {"name": "report"}}], **fields}


def test_a_pipeline_has_the_retries_of_each_task_and_of_those_of_finally() -> None:
    assert retries(PIPELINE, root_of(PIPELINE, pipeline_spec())) == {
        "spec.tasks[0].retries": 2,
        "spec.tasks[1].retries": 0,
        "spec.finally[0].retries": 1,
    }


def test_a_pipeline_run_has_retries_of_an_embedded_pipeline_and_none_of_a_referenced_one() -> None:
    root = root_of(PIPELINE_RUN, {"pipelineSpec": pipeline_spec()})
    assert list(retries(PIPELINE_RUN, root)) == [
        "spec.pipelineSpec.tasks[0].retries",
        "spec.pipelineSpec.tasks[1].retries",
        "spec.pipelineSpec.finally[0].retries",
    ]
    assert retries(PIPELINE_RUN, root_of(PIPELINE_RUN, {"pipelineRef": {"name": "release"}})) == {}


def test_a_pipeline_in_a_pipeline_has_retries_of_its_own() -> None:
    outer = {"tasks": [{"name": "release", "pipelineSpec": pipeline_spec()}]}
    assert retries(PIPELINE, root_of(PIPELINE, outer))["spec.tasks[0].pipelineSpec.finally[0].retries"] == 1


def nested(depth: int) -> Json:
    spec = pipeline_spec()
    for _ in range(depth):
        spec = {"finally": [{"name": "inner", "pipelineSpec": spec}]}
    return root_of(PIPELINE, spec)


def test_pipelines_that_are_nested_too_deeply_are_a_problem() -> None:
    deepest = "spec" + ".finally[0].pipelineSpec" * DEEPEST
    assert retries(PIPELINE, nested(DEEPEST))[f"{deepest}.tasks[0].retries"] == 2
    (found,) = wrong(PIPELINE, nested(DEEPEST + 1))
    assert found.endswith("is nested too deeply; move it up")


@pytest.mark.parametrize("kind", [TASK_RUN, CUSTOM_RUN])
@pytest.mark.parametrize(("spec", "allowed"), [({"retries": 3}, 3), ({}, 0), ({"retries": None}, 0)])
def test_a_run_of_one_task_has_one_retry_field_and_no_retries_if_it_is_absent(
    kind: Any, spec: Json, allowed: int
) -> None:
    assert retries(kind, root_of(kind, spec)) == {"spec.retries": allowed}


def test_a_task_has_no_retries() -> None:
    assert retries(TASK, root_of(TASK, {"steps": STEPS})) == {}


def test_only_a_task_run_has_a_time_limit_of_each_attempt() -> None:
    assert timeouts_unset(TASK_RUN, root_of(TASK_RUN, {"retries": 1})) == ["spec.timeout"]
    assert timeouts_unset(TASK_RUN, root_of(TASK_RUN, {"timeout": "30m0s"})) == []
    assert timeouts_unset(PIPELINE, root_of(PIPELINE, pipeline_spec())) == []


def test_pods_of_one_task_have_annotations_in_its_spec_or_in_that_of_the_run() -> None:
    annotated = {"metadata": {"annotations": {"a": "b"}}}
    tasks = [{"name": "build", "taskSpec": {**annotated, "steps": STEPS}}]
    spec = {"pipelineSpec": {"tasks": tasks}, "taskRunSpecs": [{"pipelineTaskName": "build", **annotated}]}
    assert places(PIPELINE_RUN.judged_annotations, root_of(PIPELINE_RUN, spec)) == [
        "spec.pipelineSpec.tasks[0].taskSpec.metadata.annotations",
        "spec.taskRunSpecs[0].metadata.annotations",
    ]


def test_updates_of_runs_are_not_edited_because_tekton_rejects_changes_of_their_spec() -> None:
    assert [kind.kind for kind in (TASK, PIPELINE, PIPELINE_RUN, TASK_RUN, CUSTOM_RUN) if kind.immutable] == [
        "PipelineRun",
        "TaskRun",
    ]


def trigger_template(*templates: Json) -> Json:
    return root_of(TRIGGER_TEMPLATE, {"params": [{"name": "tries"}], "resourcetemplates": list(templates)})


def test_a_trigger_template_contains_the_runs_that_an_event_creates() -> None:
    run = root_of(PIPELINE_RUN, {"pipelineSpec": pipeline_spec()})
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    unknown = {"apiVersion": "tekton.dev/v1", "kind": "$(tt.params.kind)"}
    root = trigger_template(other, run, unknown)
    assert wrong(TRIGGER_TEMPLATE, root) == []
    found = [(field(path), inner, kind) for path, inner, kind in embedded_in(TRIGGER_TEMPLATE, root)]
    assert found == [("spec.resourcetemplates[1]", run, PIPELINE_RUN)]


def test_each_resource_template_gets_annotations_of_the_trigger_template() -> None:
    root = trigger_template(root_of(TASK_RUN, {}), root_of(PIPELINE_RUN, {}))
    assert places(TRIGGER_TEMPLATE.made_annotations, root) == [
        f"spec.resourcetemplates[{index}].metadata.annotations" for index in range(2)
    ]
