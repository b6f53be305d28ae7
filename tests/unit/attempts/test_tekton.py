"""The names of a TaskRun's pods."""

import hashlib
from functools import partial
from typing import Any

import pytest

from tests.unit.attempts.pods import (
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
from webhook.attempts import Level, tekton
from webhook.objects.problem import Json

ask = partial(read, of=tekton.levels)

LONGEST_NAME = 63
LONGEST_HEAD = 31
ASSISTANT = {"pipeline.tekton.dev/affinity-assistant": "affinity-assistant-0123456789"}


def child_name(task_run: str, attempt: int) -> str:
    """A pod's name as Tekton makes it (pkg/pod/pod.go, kmeta.ChildName)."""
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


def test_of_a_task_runs_four_attempts_the_last_leaves_spot() -> None:
    assert [place(pod_at(attempt), task_run()) for attempt in range(4)] == last_of_four_off_spot("Tekton")


def test_so_it_is_under_the_api_version_before() -> None:
    root = pod_at(2)
    root["metadata"]["ownerReferences"][0]["apiVersion"] = "tekton.dev/v1beta1"
    assert place(root, task_run()) == on_spot("Tekton", 2, 3)


def test_the_number_survives_in_a_name_that_was_too_long() -> None:
    long = "release-pipeline-of-the-recommendation-service-train-everything"
    names = [child_name(long, attempt) for attempt in range(4)]
    assert all(len(name) <= LONGEST_NAME and not name.startswith(long) for name in names)
    assert names[0][:27] != names[1][:27]
    assert [place(pod_at(attempt, long), task_run()) for attempt in range(4)] == last_of_four_off_spot("Tekton")


def test_more_than_nine_retries_can_be_read() -> None:
    assert ask(pod_at(10), task_run(retries=10))[0] == [Level("Tekton", 10, 10)]


def test_a_task_run_that_says_nothing_of_retries_has_none() -> None:
    assert [place(pod_at(attempt), task_run(None)) for attempt in range(4)] == none_on_spot("Tekton")


def test_where_the_task_run_is_gone_the_profiles_default_is_the_budget() -> None:
    assert [place(pod_at(attempt)) for attempt in range(4)] == last_of_four_off_spot("Tekton")


def test_a_task_runs_own_name_may_end_like_a_pods() -> None:
    assert ask(named("build-pod-retry7-pod", "build-pod-retry7"), task_run())[0] == [Level("Tekton", 0, 3)]


def test_beside_an_affinity_assistant_spot_is_a_preference() -> None:
    """It stands on one node, and its pods with it: a requirement could not be met there."""
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
def test_a_name_of_another_form_tells_nothing_with_one_warning(name: str) -> None:
    found, warnings = ask(named(name), task_run())
    assert found == []
    assert [warning.path for warning in warnings] == [("metadata", "name")]
    placed = place(named(name), task_run())
    assert (placed.placement, placed.source, placed.attempt) == ("Spot", "Unknown", "0")
    assert len(placed.warnings) == 1


@pytest.mark.parametrize("nonsense", NO_NUMBERS)
@pytest.mark.parametrize("path", [("spec",), ("spec", "retries")])
def test_nonsense_in_the_task_run_counts_as_no_retries(path: tuple[str, ...], nonsense: Any) -> None:
    assert ask(pod_at(1), with_value(task_run(), path, nonsense)) == ([Level("Tekton", 1, 0)], [])
