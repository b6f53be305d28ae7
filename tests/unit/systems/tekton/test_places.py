"""Which PipelineRun and task, or which TaskRun, a pod of Tekton is counted for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from webhook.systems import pods as places
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pod_source import Place
from webhook.systems.tekton.spec import PIPELINE_RUN, TASK_RUN

if TYPE_CHECKING:
    from webhook.objects.problem import Json


def of_task(task_run: str, *, version: str = "v1", **labels: str) -> Place | None:
    metadata: Json = {"labels": {f"tekton.dev/{key}": value for key, value in labels.items()}}
    owner = OwnerReference("tekton.dev", version, "TaskRun", task_run, "u-task")
    return places.place_of(metadata, owner)


def of_build(task_run: str, task: str, *, version: str = "v1") -> Place | None:
    return of_task(task_run, version=version, pipelineRun="build", pipelineRunUID="u-run", pipelineTask=task)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_pod_of_a_pipelines_task_is_counted_for_the_pipeline_run_by_task(version: str) -> None:
    assert of_build("build-compile", "compile", version=version) == Place(PIPELINE_RUN, "build", "u-run", "compile")


def test_each_combination_of_a_matrix_is_a_scope_of_its_own() -> None:
    scopes = [found.scope for number in range(11) if (found := of_build(f"build-compile-{number}", "compile"))]
    assert scopes == [f"compile/{number}" for number in range(11)]


def test_a_task_whose_name_ends_with_a_number_is_no_combination() -> None:
    found = of_build("build-compile-1", "compile-1")
    assert found is not None
    assert found.scope == "compile-1"


def test_a_pod_of_a_task_run_without_a_pipeline_is_counted_for_the_task_run() -> None:
    assert of_task("compile") == Place(TASK_RUN, "compile", "u-task", "")


def test_the_label_of_a_pipeline_run_without_its_uid_is_not_believed() -> None:
    assert of_task("compile", pipelineRun="build", pipelineTask="a") == Place(TASK_RUN, "compile", "u-task", "")
