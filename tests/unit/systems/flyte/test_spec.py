"""Where the nodes and tasks of a FlyteWorkflow have their retries, as flyteadmin compiles them."""

from typing import Any

import pytest

from tests.unit.systems.reading import retries
from webhook.objects.problem import Json
from webhook.systems.flyte.spec import FLYTE_WORKFLOW, TASK_ACTION


def node(name: str, min_attempts: int | None = None, **fields: Any) -> Json:
    """Return a node; flyteadmin writes minAttempts only if the decorated function has retries."""
    retry = {} if min_attempts is None else {"retry": {"minAttempts": min_attempts}}
    return {"id": name, "name": name, "kind": "task", "task": "train", "resources": {}, **retry, **fields}


def workflow(*nodes: Json, **fields: Any) -> Json:
    named = {one["id"]: one for one in nodes}
    return {
        "apiVersion": "flyte.lyft.com/v1alpha1",
        "kind": "FlyteWorkflow",
        "metadata": {"name": "f1", "namespace": "vision-development", "labels": {"execution-id": "f1"}},
        "spec": {"id": "vision:development:train", "nodes": named, "connections": {"n0": ["n1"]}},
        "inputs": {"literals": {}},
        **fields,
    }


@pytest.mark.parametrize(("runs", "allowed"), [(0, 0), (1, 0), (2, 1), (5, 4), (-1, None)])
def test_a_node_counts_runs_and_a_negative_number_is_unlimited(runs: int, allowed: int | None) -> None:
    assert retries(FLYTE_WORKFLOW, workflow(node("n0", runs))) == {"spec.nodes.n0.retry.minAttempts": allowed}


def test_a_node_without_a_number_has_the_platforms_default_and_is_not_edited() -> None:
    assert retries(FLYTE_WORKFLOW, workflow(node("n0"), node("n1", retry={}))) == {}


def test_a_map_task_has_the_number_in_its_sub_node() -> None:
    array = {"Parallelism": 4, "SubNodeSpec": node("n0-n", 3)}
    assert retries(FLYTE_WORKFLOW, workflow(node("n0", kind="array", array=array))) == {
        "spec.nodes.n0.array.SubNodeSpec.retry.minAttempts": 2
    }


def test_the_node_that_runs_on_failure_has_retries_too() -> None:
    root = workflow(node("n0", 2))
    root["spec"]["onFailure"] = node("efn", 4)
    assert retries(FLYTE_WORKFLOW, root) == {
        "spec.nodes.n0.retry.minAttempts": 1,
        "spec.onFailure.retry.minAttempts": 3,
    }


def test_the_nodes_of_sub_workflows_have_retries_too() -> None:
    evaluate = {"id": "evaluate", "nodes": {"n0": node("n0", 4)}, "onFailure": node("efn", 2)}
    assert retries(FLYTE_WORKFLOW, workflow(node("n0"), subWorkflows={"evaluate": evaluate})) == {
        "subWorkflows.evaluate.nodes.n0.retry.minAttempts": 3,
        "subWorkflows.evaluate.onFailure.retry.minAttempts": 1,
    }


def test_a_task_counts_retries_and_not_runs() -> None:
    tasks = {
        "train": {"type": "python-task", "metadata": {"retries": {"retries": 3}, "timeout": "0s"}},
        "fetch": {"type": "python-task", "metadata": {"retries": {}}},
    }
    assert retries(FLYTE_WORKFLOW, workflow(node("n0"), tasks=tasks)) == {"tasks.train.metadata.retries.retries": 3}


def test_updates_of_a_workflow_are_not_edited_because_propeller_updates_it_often() -> None:
    assert FLYTE_WORKFLOW.immutable
    assert FLYTE_WORKFLOW.owns_pods


def test_a_task_action_of_flyte_2_only_controls_pods() -> None:
    assert (TASK_ACTION.owns_pods, TASK_ACTION.admitted, TASK_ACTION.retry_fields) == (True, False, ())
