"""The runs in the status of a SparkApplication, for its drivers and executors."""

from functools import partial
from typing import Any

import pytest

from tests.unit.systems.pods import (
    NO_NUMBERS,
    UNTOUCHED,
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
from webhook.systems.spark import pods as spark

ask = partial(read, of=spark.levels)

GROUP = "sparkoperator.k8s.io"
OPERATORS = {f"{GROUP}/app-name": "pi", f"{GROUP}/launched-by-spark-operator": "true"}
APPLICATION = f"{GROUP}/v1beta2"


def labels(role: str, submission: str) -> Json:
    return {"spark-role": role, "spark-app-selector": "spark-1", **OPERATORS, f"{GROUP}/submission-id": submission}


def driver(submission: str) -> Json:
    """Return a driver as spark-submit writes it: with the same name in every run."""
    own = owned(APPLICATION, "SparkApplication", "pi")
    return made(own, name="pi-driver", labels=labels("driver", submission), spec={"restartPolicy": "Never"})


def executor(submission: str, number: int = 1, **more: str) -> Json:
    """Return an executor as the driver writes it: its controller is the driver; replacements get new numbers."""
    owners = (
        owned(APPLICATION, "SparkApplication", "pi", controller=False),
        owned("v1", "Pod", "pi-driver"),
    )
    own = {**labels("executor", submission), "spark-exec-id": str(number), **more}
    return made(*owners, name=f"pi-exec-{number}", labels=own)


def application(
    runs: int | None, submission: str, state: str = "RUNNING", retries: int | None = 3, kind: str | None = "OnFailure"
) -> Json:
    """Return a SparkApplication; its status has the last known submission, None before the first."""
    restart_policy = {} if kind is None else {"restartPolicy": {"type": kind, "onFailureRetries": retries}}
    status = {"executionAttempts": runs, "submissionID": submission, "applicationState": {"state": state}}
    return {
        "kind": "SparkApplication",
        "metadata": {"name": "pi"},
        "spec": {"type": "Scala", **restart_policy},
        "status": {} if runs is None else status,
    }


def before_driver(attempt: int) -> Json:
    """Return the application at the creation of this attempt's driver: its status has the earlier runs."""
    return application(attempt or None, f"run-{attempt - 1}", "PENDING_RERUN")


def test_the_last_of_an_applications_four_drivers_leaves_spot() -> None:
    placed = [place(driver(f"run-{attempt}"), before_driver(attempt)) for attempt in range(4)]
    assert placed == last_of_four_off_spot("Spark")


def test_executors_are_placed_like_their_driver_although_their_run_is_already_counted() -> None:
    placed = [place(executor(f"run-{runs}", 7), application(runs + 1, f"run-{runs}")) for runs in range(4)]
    assert placed == last_of_four_off_spot("Spark")


def test_an_executor_that_is_created_before_its_run_is_counted_belongs_to_that_run() -> None:
    assert ask(executor("run-2"), application(2, "run-1"))[0] == [Level("Spark", 2, 3)]


def test_a_run_whose_submission_failed_is_not_subtracted() -> None:
    failed = application(2, "run-2", "SUBMISSION_FAILED")
    assert ask(driver("run-2"), failed)[0] == [Level("Spark", 2, 3)]


@pytest.mark.parametrize(("kind", "budget"), [("OnFailure", 2), ("Never", 0), ("Always", 0), (None, 0)])
def test_retries_count_only_with_the_restart_policy_on_failure(kind: str | None, budget: int) -> None:
    assert ask(driver("run-1"), application(1, "run-0", retries=2, kind=kind))[0] == [Level("Spark", 1, budget)]


def test_on_failure_without_a_number_has_no_retries() -> None:
    placed = [place(driver(f"run-{runs}"), application(runs, f"run-{runs - 1}", retries=None)) for runs in range(4)]
    assert placed == none_on_spot("Spark")


def test_if_the_application_does_not_exist_its_pods_count_as_first_attempts() -> None:
    assert place(driver("run-1")) == on_spot("Unknown", 0, 3)
    assert place(executor("run-1")) == on_spot("Unknown", 0, 3)


def test_an_executor_is_recognised_by_its_labels_alone() -> None:
    """Older operators give it no reference to the application."""
    root = executor("run-0")
    del root["metadata"]["ownerReferences"][0]
    assert place(root, application(1, "run-0")) == on_spot("Spark", 0, 3)


@pytest.mark.parametrize("key", OPERATORS)
def test_without_the_operators_labels_a_pod_controlled_by_a_pod_is_unchanged(key: str) -> None:
    root = executor("run-0")
    del root["metadata"]["labels"][key]
    assert place(root, application(1, "run-0")) == UNTOUCHED


def test_without_a_submission_id_all_counted_runs_are_earlier_ones() -> None:
    root = driver("run-1")
    del root["metadata"]["labels"][f"{GROUP}/submission-id"]
    for known in (application(1, "run-0"), with_value(application(1, "run-0"), ("status", "submissionID"), None)):
        assert ask(root, known)[0] == [Level("Spark", 1, 3)]


@pytest.mark.parametrize("nonsense", NO_NUMBERS)
@pytest.mark.parametrize(
    "path",
    [
        ("status",),
        ("status", "executionAttempts"),
        ("status", "submissionID"),
        ("status", "applicationState"),
        ("status", "applicationState", "state"),
        ("spec",),
        ("spec", "restartPolicy"),
        ("spec", "restartPolicy", "type"),
        ("spec", "restartPolicy", "onFailureRetries"),
    ],
)
def test_malformed_fields_of_the_application_are_not_an_error_and_a_first_executor_stays_on_spot(
    path: tuple[str, ...], nonsense: Any
) -> None:
    placed = place(executor("run-0"), with_value(application(None, ""), path, nonsense))
    assert (placed.placement, placed.attempt, placed.source) == ("Spot", "0", "Spark")
