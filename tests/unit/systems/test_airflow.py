"""The number of an Airflow task's try, from 1."""

from functools import partial

import pytest

from tests.objects import job_spec, stored_job
from tests.unit.systems.pods import (
    NO_COUNTS,
    UNTOUCHED,
    last_of_four_off_spot,
    made,
    off_spot,
    on_spot,
    owned,
    place,
    read,
)
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import resolve
from webhook.systems import airflow
from webhook.systems.pod_source import Level

ask = partial(read, of=airflow.levels)

TASK = {"dag_id": "nightly", "task_id": "train", "run_id": "scheduled__2026-11-21"}
MAKERS = ["kubernetes_executor", "kubernetes_pod_operator"]


def labels(maker: str, number: str) -> Json:
    return {maker: "True", **TASK, "try_number": number, "airflow_version": "3.1.0"}


def pod_at(number: str, maker: str = "kubernetes_executor") -> Json:
    """Return a pod as Airflow writes it: without a controller. The executor writes the number as an annotation too."""
    annotations = {**TASK, "try_number": number} if maker == "kubernetes_executor" else {}
    return made(name="nightly-train-x1y2", labels=labels(maker, number), annotations=annotations)


def pod_of_job(number: str) -> Json:
    """Return a pod of the Job that a KubernetesJobOperator creates, whose template has the labels."""
    return made(owned("batch/v1", "Job", "job-train"), generateName="job-", labels=labels(MAKERS[1], number))


@pytest.mark.parametrize("maker", MAKERS)
def test_with_the_profiles_default_the_last_of_a_tasks_four_tries_leaves_spot(maker: str) -> None:
    assert [place(pod_at(str(number), maker)) for number in range(1, 5)] == last_of_four_off_spot("Airflow")


def test_a_tasks_own_budget_can_be_an_annotation() -> None:
    settings = resolve("default", Profile(), {names.MAX_RETRIES: "5"})
    assert ask(pod_at("2"), settings=settings)[0] == [Level("Airflow", 1, 5)]
    root = pod_at("4")
    root["metadata"]["annotations"][names.MAX_RETRIES] = "5"
    assert place(root) == on_spot("Airflow", 3, 5)


def test_a_try_that_runs_as_a_job_has_two_levels() -> None:
    job = stored_job(job_spec(backoffLimit=2), {"failed": 1})
    assert read(pod_of_job("3"), job) == ([Level("JobStatus", 1, 2), Level("Airflow", 2, 3)], [])


def test_a_try_that_runs_as_a_job_leaves_spot_at_the_last_retry_of_the_job_and_at_the_last_try() -> None:
    jobs = [stored_job(job_spec(backoffLimit=2), {"failed": failed}) for failed in range(3)]
    assert [place(pod_of_job("1"), job) for job in jobs] == [
        on_spot("JobStatus", 0, 2),
        on_spot("JobStatus", 1, 2),
        off_spot("JobStatus", 2, 2),
    ]
    assert [place(pod_of_job(str(number)), jobs[0]) for number in range(1, 5)] == [
        on_spot("JobStatus", 0, 2),
        on_spot("Airflow", 1, 3),
        on_spot("Airflow", 2, 3),
        off_spot("Airflow", 3, 3),
    ]


def test_a_try_that_runs_as_a_spark_application_has_two_levels() -> None:
    application = {
        "spec": {"restartPolicy": {"type": "OnFailure", "onFailureRetries": 4}},
        "status": {"executionAttempts": 1, "submissionID": "before"},
    }
    root = made(
        owned("sparkoperator.k8s.io/v1beta2", "SparkApplication", "pi"),
        name="pi-driver",
        labels={**labels("spark_kubernetes_operator", "3"), "sparkoperator.k8s.io/submission-id": "now"},
    )
    assert read(root, application)[0] == [Level("Spark", 1, 4), Level("Airflow", 2, 3)]


@pytest.mark.parametrize("nonsense", [*NO_COUNTS, "0"])
def test_a_malformed_number_gives_no_level_and_one_warning(nonsense: str) -> None:
    for maker in MAKERS:
        found, warnings = ask(pod_at(nonsense, maker))
        assert found == []
        assert [warning.path for warning in warnings] == [("metadata", "labels", "try_number")]
        placed = place(pod_at(nonsense, maker))
        assert (placed.placement, placed.source, placed.attempt) == ("Spot", "Unknown", "0")


@pytest.mark.parametrize("nonsense", [*NO_COUNTS, "0"])
def test_with_a_malformed_number_only_the_level_of_the_job_is_used(nonsense: str) -> None:
    found, warnings = read(pod_of_job(nonsense), stored_job(job_spec(backoffLimit=2), {"failed": 1}))
    assert found == [Level("JobStatus", 1, 2)]
    assert len(warnings) == 1


@pytest.mark.parametrize("left", [{"try_number": "3"}, {"kubernetes_executor": "True"}, {"airflow_version": "3.1.0"}])
def test_a_pod_with_only_one_of_the_labels_is_unchanged(left: Json) -> None:
    assert place(made(name="web", labels=left)) == UNTOUCHED
