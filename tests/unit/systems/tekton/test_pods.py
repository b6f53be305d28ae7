"""The names of a TaskRun's pods."""

import hashlib
from functools import partial
from typing import Any

import pytest

from tests.unit.systems.pods import (
    NO_NUMBERS,
    NOT_SPOT,
    SPOT,
    last_of_four_off_spot,
    made,
    none_on_spot,
    on_spot,
    owned,
    place,
    read,
    with_value,
)
from webhook.objects.problem import Json
from webhook.systems.pod_source import Level
from webhook.systems.tekton import pods as tekton

ask = partial(read, of=tekton.levels)

LONGEST_NAME = 63
LONGEST_HEAD = 31
ASSISTANT = {"pipeline.tekton.dev/affinity-assistant": "affinity-assistant-0123456789"}


def child_name(task_run: str, attempt: int) -> str:
    """Return a pod's name as Tekton generates it (pkg/pod/pod.go, kmeta.ChildName)."""
    suffix = "-pod" if attempt == 0 else f"-pod-retry{attempt}"
    if len(task_run) + len(suffix) <= LONGEST_NAME:
        return task_run + suffix
    digest = hashlib.md5(task_run.encode(), usedforsecurity=False).hexdigest()
    return task_run[: LONGEST_HEAD - len(suffix)] + digest + suffix


def pod_at(attempt: int, task_run: str = "build", annotations: Json | None = None) -> Json:
    return named(child_name(task_run, attempt), task_run, annotations)


def named(name: str, task_run: str = "build", annotations: Json | None = None) -> Json:
    labels = {"tekton.dev/taskRun": task_run, "app.kubernetes.io/managed-by": "tekton-pipelines"}
    owner = owned("tekton.dev/v1", "TaskRun", task_run)
    given = {"pipeline.tekton.dev/release": "v1.6.0", **(annotations or {})}
    return made(owner, name=name, labels=labels, annotations=given, spec={"restartPolicy": "Never"})


def task_run(retries: int | None = 3) -> Json:
    spec = {"timeout": "1h0m0s"} if retries is None else {"retries": retries}
    return {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "metadata": {"name": "build"}, "spec": spec}


def test_the_last_of_a_task_runs_four_attempts_leaves_spot() -> None:
    assert [place(pod_at(attempt), task_run()) for attempt in range(4)] == last_of_four_off_spot("Tekton")


def test_a_task_run_of_the_previous_api_version_leaves_spot_at_the_last_attempt_too() -> None:
    root = pod_at(2)
    root["metadata"]["ownerReferences"][0]["apiVersion"] = "tekton.dev/v1beta1"
    assert place(root, task_run()) == on_spot("Tekton", 2, 3)


def test_a_shortened_name_still_has_the_number() -> None:
    long = "release-pipeline-of-the-recommendation-service-train-everything"
    names = [child_name(long, attempt) for attempt in range(4)]
    assert all(len(name) <= LONGEST_NAME and not name.startswith(long) for name in names)
    assert names[0][:27] != names[1][:27]
    assert [place(pod_at(attempt, long), task_run()) for attempt in range(4)] == last_of_four_off_spot("Tekton")


def test_numbers_of_several_digits_are_read() -> None:
    assert ask(pod_at(10), task_run(retries=10))[0] == [Level("Tekton", 10, 10)]


def test_a_task_run_without_the_field_has_no_retries() -> None:
    assert [place(pod_at(attempt), task_run(None)) for attempt in range(4)] == none_on_spot("Tekton")


def test_if_the_task_run_does_not_exist_the_profiles_default_is_the_budget() -> None:
    assert [place(pod_at(attempt)) for attempt in range(4)] == last_of_four_off_spot("Tekton")


def test_a_task_runs_name_may_end_like_that_of_a_pod() -> None:
    assert ask(named("build-pod-retry7-pod", "build-pod-retry7"), task_run())[0] == [Level("Tekton", 0, 3)]


def test_with_an_affinity_assistant_spot_is_preferred_and_not_required() -> None:
    """All pods run on the assistant's node, which may not meet a requirement."""
    first, last = (place(pod_at(attempt, annotations=ASSISTANT), task_run()) for attempt in (0, 3))
    assert (first.placement, first.required, first.preferred) == ("Spot", (), (SPOT,))
    assert (last.placement, last.required, last.preferred) == ("OnDemand", (), (NOT_SPOT,))


@pytest.mark.parametrize(
    "name",
    [
        "build",
        "build-pods",
        "build-pod-retry",
        "build-pod-retry-1",
        "build-pod-retry1x",
        "build-pod-retry\u0661",
        "build-pod-retry" + "9" * 30,
        "pod",
    ],
)
def test_a_name_of_another_form_gives_no_level_and_one_warning(name: str) -> None:
    found, warnings = ask(named(name), task_run())
    assert found == []
    assert [warning.path for warning in warnings] == [("metadata", "name")]
    placed = place(named(name), task_run())
    assert (placed.placement, placed.source, placed.attempt) == ("Spot", "Unknown", "0")
    assert len(placed.warnings) == 1


@pytest.mark.parametrize("nonsense", NO_NUMBERS)
@pytest.mark.parametrize("path", [("spec",), ("spec", "retries")])
def test_malformed_retries_of_the_task_run_count_as_no_retries(path: tuple[str, ...], nonsense: Any) -> None:
    assert ask(pod_at(1), with_value(task_run(), path, nonsense)) == ([Level("Tekton", 1, 0)], [])
