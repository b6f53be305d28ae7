"""The restarts in the status of a SparkApplication of Apache Spark's own operator, for its drivers."""

from functools import partial

import pytest

from tests.unit.systems.pods import last_of_four_off_spot, made, on_spot, owned, place, read
from webhook.objects.problem import Json
from webhook.systems.pod_source import Level
from webhook.systems.spark.pods import levels_of_apache

ask = partial(read, of=levels_of_apache)

LABELS = {"spark.operator/name": "spark-kubernetes-operator", "spark.operator/spark-app-name": "pi"}


def driver() -> Json:
    """Return a driver as the operator writes it: its application is not the controller."""
    of_application = owned("spark.apache.org/v1", "SparkApplication", "pi", controller=False)
    return made(of_application, name="pi-0-driver", labels={**LABELS, "spark-role": "driver"})


def executor() -> Json:
    """Return an executor as the driver writes it."""
    return made(owned("v1", "Pod", "pi-0-driver"), name="pi-exec-1", labels={**LABELS, "spark-role": "executor"})


def application(restarts: int | None, attempts: Json | None = None, **config: str | int) -> Json:
    attempt = {} if restarts is None else {"restartCounter": restarts}
    status = {"currentAttemptSummary": {"attemptInfo": {**attempt, **(attempts or {})}}}
    restart_config = {"restartPolicy": "OnFailure", "maxRestartAttempts": 3, **config}
    spec = {"applicationTolerations": {"restartConfig": restart_config}}
    return {"kind": "SparkApplication", "metadata": {"name": "pi"}, "spec": spec, "status": status}


def test_the_driver_of_the_last_of_four_attempts_leaves_spot() -> None:
    assert [place(driver(), application(restarts)) for restarts in range(4)] == last_of_four_off_spot("ApacheSpark")


def test_a_driver_is_recognised_by_an_owner_that_is_not_its_controller() -> None:
    assert ask(driver(), application(2)) == ([Level("ApacheSpark", 2, 3)], [])


def test_an_executor_is_placed_without_an_attempt() -> None:
    assert place(executor()) == on_spot("Unknown", 0, 3)


def test_before_version_1_0_the_attempt_is_read_from_its_id() -> None:
    assert ask(driver(), application(None, {"id": 2})) == ([Level("ApacheSpark", 2, 3)], [])


def test_the_operators_default_is_three_restarts() -> None:
    found = application(1)
    del found["spec"]["applicationTolerations"]["restartConfig"]["maxRestartAttempts"]
    assert ask(driver(), found) == ([Level("ApacheSpark", 1, 3)], [])


@pytest.mark.parametrize("found", [application(0, restartPolicy="Never"), {"kind": "SparkApplication"}])
def test_without_a_restart_policy_there_are_no_retries(found: Json) -> None:
    assert ask(driver(), found) == ([Level("ApacheSpark", 0, 0)], [])


def test_an_application_that_does_not_exist_gives_no_level() -> None:
    assert ask(driver()) == ([], [])
