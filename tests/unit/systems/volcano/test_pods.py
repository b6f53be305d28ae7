"""The annotation of Volcano's Jobs."""

from functools import partial
from typing import Any

import pytest

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
from webhook.systems.pod_source import Level
from webhook.systems.volcano import pods as volcano

ask = partial(read, of=volcano.levels)

RETRY_COUNT = "volcano.sh/job-retry-count"


def pod_at(retries: str) -> Json:
    """Return a pod as Volcano 1.13 writes it, with the same name in every run."""
    own = {"job-name": "train", "task-spec": "worker", "task-index": "0", "queue-name": "default"}
    both = {f"volcano.sh/{key}": value for key, value in own.items()}
    annotations = {**both, RETRY_COUNT: retries, "volcano.sh/job-version": "0"}
    owner = owned("batch.volcano.sh/v1alpha1", "Job", "train")
    return made(owner, name="train-worker-0", labels=both, annotations=annotations)


def job(max_retry: int | None = 4) -> Json:
    spec = {} if max_retry is None else {"maxRetry": max_retry}
    return {"kind": "Job", "metadata": {"name": "train"}, "spec": spec, "status": {"retryCount": 9, "failed": 9}}


def test_max_retry_counts_runs_so_that_the_last_of_four_leaves_spot() -> None:
    assert [place(pod_at(str(retries)), job()) for retries in range(4)] == last_of_four_off_spot("Volcano")


@pytest.mark.parametrize(("max_retry", "budget"), [(None, 2), (0, 2), (1, 0), (2, 1), (11, 10)])
def test_an_absent_max_retry_means_three_runs(max_retry: int | None, budget: int) -> None:
    assert ask(pod_at("0"), job(max_retry)) == ([Level("Volcano", 0, budget)], [])


def test_the_second_of_two_runs_leaves_spot() -> None:
    assert [place(pod_at(str(retries)), job(2)) for retries in range(4)] == only_the_first_on_spot("Volcano", 1)


def test_if_the_job_does_not_exist_the_profiles_default_is_the_budget() -> None:
    assert [place(pod_at(str(retries))) for retries in range(4)] == last_of_four_off_spot("Volcano")


def test_before_volcano_1_10_without_the_annotation_there_is_no_level() -> None:
    root = pod_at("0")
    del root["metadata"]["annotations"][RETRY_COUNT]
    assert ask(root, job()) == ([], [])
    assert place(root, job()) == on_spot("Unknown", 0, 3)


@pytest.mark.parametrize("nonsense", NO_COUNTS)
def test_a_malformed_count_gives_no_level_and_one_warning(nonsense: str) -> None:
    found, warnings = ask(pod_at(nonsense), job())
    assert found == []
    assert [warning.path for warning in warnings] == [("metadata", "annotations", RETRY_COUNT)]
    placed = place(pod_at(nonsense), job())
    assert (placed.placement, placed.source, placed.attempt) == ("Spot", "Unknown", "0")
    assert len(placed.warnings) == 1


@pytest.mark.parametrize("nonsense", NO_NUMBERS)
@pytest.mark.parametrize("path", [("spec",), ("spec", "maxRetry"), ("status",)])
def test_malformed_fields_of_the_job_are_not_an_error(path: tuple[str, ...], nonsense: Any) -> None:
    found, warnings = ask(pod_at("1"), with_value(job(None), path, nonsense))
    assert (found, warnings) == ([Level("Volcano", 1, 2)], [])
