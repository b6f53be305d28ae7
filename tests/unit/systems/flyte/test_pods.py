"""The variable that Flyte gives to a task's containers, and Flyte 2's label."""

from functools import partial
from typing import Any

import pytest

from tests.objects import container_of
from tests.unit.systems.pods import (
    NO_COUNTS,
    NO_NUMBERS,
    last_of_four_off_spot,
    made,
    on_spot,
    only_the_first_on_spot,
    owned,
    place,
    read,
    with_value,
)
from webhook.objects.problem import Json
from webhook.systems.flyte import pods as flyte
from webhook.systems.pod_source import Level

ask = partial(read, of=flyte.levels)

VARIABLE = "FLYTE_ATTEMPT_NUMBER"
PRIMARY = "primary_container_name"


def container(name: str, *attempts: Any) -> Json:
    """Return a container as propeller builds it: its own variables, then those of the platform and the author."""
    variables = [{"name": VARIABLE, "value": attempt} for attempt in attempts]
    return {**container_of(name), "env": [{"name": "FLYTE_INTERNAL_EXECUTION_ID", "value": "f1"}, *variables]}


def pod_at(*attempts: Any, kind: str = "flyteworkflow", containers: list[Json] | None = None) -> Json:
    """Return a pod as Flyte 1 writes it, with the controller's kind often in lower case."""
    return made(
        owned("flyte.lyft.com/v1alpha1", kind, "f1"),
        name="f1-n0-0",
        labels={"execution-id": "f1", "node-id": "n0", "task-name": "train", "interruptible": "true"},
        annotations={PRIMARY: "f1-n0-0", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        spec={"restartPolicy": "Never", "containers": containers or [container("f1-n0-0", *attempts)]},
    )


def workflow(min_attempts: int | None = 4) -> Json:
    retry = {} if min_attempts is None else {"retry": {"minAttempts": min_attempts}}
    nodes = {"n0": {"id": "n0", "kind": "task", **retry}, "n1": {"retry": {"minAttempts": 9}}}
    return {"kind": "FlyteWorkflow", "metadata": {"name": "f1"}, "spec": {"id": "f", "nodes": nodes}}


def pod_of_flyte_2(attempt: int, label: str | None = None, *, with_variable: bool = True) -> Json:
    """Return a pod as Flyte 2 writes it; it has the label, which is 1-based, since 2.0.43."""
    labelled = {} if label is None else {"attempt": label}
    return made(
        owned("flyte.org/v1", "TaskAction", "r1-a0"),
        name=f"r1-a0-{attempt}",
        labels={"flyte.org/managed": "true", "run": "r1", "action": "a0", **labelled},
        annotations={PRIMARY: "r1-a0-0"},
        spec={"containers": [container("r1-a0-0", *([str(attempt)] if with_variable else []))]},
    )


TASK_ACTION: Json = {
    "kind": "TaskAction",
    "metadata": {},
    "spec": {"taskTemplate": "KgQKAjgB"},
    "status": {"attempts": 9},
}


@pytest.mark.parametrize("kind", ["flyteworkflow", "FlyteWorkflow"])
def test_the_last_of_a_nodes_four_attempts_leaves_spot(kind: str) -> None:
    pods = [pod_at(str(attempt), kind=kind) for attempt in range(4)]
    assert [place(root, workflow(4)) for root in pods] == last_of_four_off_spot("Flyte")


def test_the_second_of_two_attempts_leaves_spot() -> None:
    pods = [pod_at(str(attempt)) for attempt in range(4)]
    assert [place(root, workflow(2)) for root in pods] == only_the_first_on_spot("Flyte", 1)


@pytest.mark.parametrize("min_attempts", [None, 1])
def test_with_one_attempt_or_none_the_default_of_the_profile_is_the_budget(
    min_attempts: int | None,
) -> None:
    assert ask(pod_at("1"), workflow(min_attempts))[0] == [Level("Flyte", 1, 3)]
    assert ask(pod_at("1"))[0] == [Level("Flyte", 1, 3)]


def test_zero_attempts_are_one_run() -> None:
    assert ask(pod_at("0"), workflow(0))[0] == [Level("Flyte", 0, 0)]


def test_the_first_of_several_variables_is_flytes_own() -> None:
    assert ask(pod_at("2", "7", "nonsense"), workflow()) == ([Level("Flyte", 2, 3)], [])


def test_the_primary_container_is_read_before_the_others() -> None:
    containers = [container("sidecar", "7"), container("f1-n0-0", "2")]
    assert ask(pod_at(containers=containers), workflow())[0] == [Level("Flyte", 2, 3)]


def test_another_container_is_read_if_the_primary_one_has_no_variable_or_no_name() -> None:
    containers = [container("f1-n0-0"), container_of("bare"), container("sidecar", "2")]
    assert ask(pod_at(containers=containers), workflow())[0] == [Level("Flyte", 2, 3)]
    root = pod_at("2")
    del root["metadata"]["annotations"][PRIMARY]
    assert ask(root, workflow())[0] == [Level("Flyte", 2, 3)]


def test_a_pod_without_variable_and_label_counts_as_a_first_attempt() -> None:
    assert place(pod_at(), workflow()) == on_spot("Unknown", 0, 3)


def test_the_last_of_a_task_actions_four_attempts_leaves_spot() -> None:
    for labels in ([None] * 4, ["1", "2", "3", "4"]):
        pods = [pod_of_flyte_2(attempt, label) for attempt, label in enumerate(labels)]
        assert [place(root, TASK_ACTION) for root in pods] == last_of_four_off_spot("Flyte")


def test_flyte_2s_label_counts_from_one() -> None:
    pods = [pod_of_flyte_2(attempt, str(attempt + 1), with_variable=False) for attempt in range(4)]
    assert [place(root, TASK_ACTION) for root in pods] == last_of_four_off_spot("Flyte")


def test_the_variable_wins_over_the_label() -> None:
    assert ask(pod_of_flyte_2(2, "9"), TASK_ACTION)[0] == [Level("Flyte", 2, 3)]


@pytest.mark.parametrize("nonsense", NO_COUNTS)
def test_a_malformed_variable_falls_back_to_the_label_with_one_warning(nonsense: str) -> None:
    root = pod_of_flyte_2(0, "3")
    root["spec"]["containers"][0]["env"][1]["value"] = nonsense
    found, warnings = ask(root, TASK_ACTION)
    assert found == [Level("Flyte", 2, 3)]
    assert [warning.path[-1] for warning in warnings] == [VARIABLE]


@pytest.mark.parametrize("nonsense", NO_COUNTS)
def test_without_a_label_a_malformed_variable_gives_no_level_and_one_warning(nonsense: str) -> None:
    placed = place(pod_at(nonsense), workflow())
    assert (placed.placement, placed.source, placed.attempt) == ("Spot", "Unknown", "0")
    assert len(placed.warnings) == 1


def test_a_malformed_variable_is_not_replaced_by_a_later_one() -> None:
    """It is not known which of them the container would get."""
    assert ask(pod_at("x", "2"), workflow())[0] == []


@pytest.mark.parametrize("nonsense", [*NO_COUNTS, "0"])
def test_a_malformed_label_gives_no_level_and_one_warning(nonsense: str) -> None:
    found, warnings = ask(pod_of_flyte_2(0, nonsense, with_variable=False), TASK_ACTION)
    assert found == []
    assert [warning.path for warning in warnings] == [("metadata", "labels", "attempt")]


def test_a_variable_with_value_from_gives_no_level_and_one_warning() -> None:
    elsewhere = {"name": VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['attempt']"}}}
    found, warnings = ask(pod_at(containers=[{**container_of("f1-n0-0"), "env": [elsewhere]}]), workflow())
    assert found == []
    assert len(warnings) == 1


@pytest.mark.parametrize("value", [5, -1, 1.5, True, None, [], ["2"], {}, {"a": 1}, 10**30])
def test_a_variable_that_is_not_a_string_gives_no_level_and_one_warning(value: object) -> None:
    found, warnings = ask(pod_at(value), workflow())
    assert found == []
    assert len(warnings) == 1


@pytest.mark.parametrize("containers", [5, True, "text", {}, {"a": 1}, [5], [None], [{"env": 5}], [{"env": [5]}]])
def test_containers_of_another_type_give_no_level(containers: object) -> None:
    root = pod_at("1")
    root["spec"]["containers"] = containers
    assert ask(root, workflow()) == ([], [])


@pytest.mark.parametrize("nonsense", NO_NUMBERS)
@pytest.mark.parametrize(
    "path",
    [
        ("spec",),
        ("spec", "nodes"),
        ("spec", "nodes", "n0"),
        ("spec", "nodes", "n0", "retry"),
        ("spec", "nodes", "n0", "retry", "minAttempts"),
        ("status",),
    ],
)
def test_malformed_fields_of_the_workflow_are_not_an_error(path: tuple[str, ...], nonsense: Any) -> None:
    found, warnings = ask(pod_at("1"), with_value(workflow(None), path, nonsense))
    assert (found, warnings) == ([Level("Flyte", 1, 3)], [])
