"""The restarts that a SparkApplication of Apache Spark's own operator allows, and the owner of its drivers."""

import pytest

from tests.unit.systems.reading import retries, root_of, templates
from webhook.objects.problem import Json
from webhook.systems.spark.spec import APACHE_SPARK_APPLICATION as SPARK_APPLICATION
from webhook.systems.spark.spec import application_of_driver as application_of

RESTARTS = "spec.applicationTolerations.restartConfig.maxRestartAttempts"


def application(config: Json | None, **spec: Json) -> Json:
    tolerations: Json = {"resourceRetainPolicy": "OnFailure", "ttlAfterStopMillis": 10000}
    if config is not None:
        tolerations["restartConfig"] = config
    runtime = {"mainClass": "org.apache.spark.examples.SparkPi", "runtimeVersions": {"sparkVersion": "4.1.1"}}
    return root_of(SPARK_APPLICATION, {**runtime, "applicationTolerations": tolerations, **spec})


@pytest.mark.parametrize(
    ("config", "allowed"),
    [
        (None, 0),
        ({}, 0),
        ({"restartPolicy": "Never", "maxRestartAttempts": 9}, 0),
        ({"maxRestartAttempts": 9}, 0),
        ({"restartPolicy": "OnFailure", "maxRestartAttempts": 5}, 5),
        ({"restartPolicy": "Always", "maxRestartAttempts": 5}, 5),
        ({"restartPolicy": "OnInfrastructureFailure", "maxRestartAttempts": 0}, 0),
        ({"restartPolicy": "OnFailure", "maxRestartAttempts": -1}, 0),
        ({"restartPolicy": "OnFailure"}, 3),
        ({"restartPolicy": "OnFailure", "maxRestartAttempts": 5, "restartCounterResetMillis": -1}, 5),
    ],
)
def test_max_restart_attempts_apply_with_every_policy_that_restarts(config: Json | None, allowed: int) -> None:
    assert retries(SPARK_APPLICATION, application(config)) == {RESTARTS: allowed}


def test_an_application_without_application_tolerations_has_no_restarts() -> None:
    assert retries(SPARK_APPLICATION, root_of(SPARK_APPLICATION, {"mainClass": "org.example.Main"})) == {RESTARTS: 0}


def test_driver_and_executor_have_a_pod_template_each() -> None:
    spec: Json = {"podTemplateSpec": {"spec": {"containers": [{"name": "spark"}]}}}
    assert templates(SPARK_APPLICATION, application(None, driverSpec=spec, executorSpec=spec)) == [
        "spec.driverSpec.podTemplateSpec",
        "spec.executorSpec.podTemplateSpec",
    ]
    assert templates(SPARK_APPLICATION, application(None)) == []


def owned(*owners: tuple[str, str]) -> Json:
    references = [{"apiVersion": group, "kind": kind, "name": "pi", "uid": "u"} for group, kind in owners]
    return {"metadata": {"name": "pi-0-driver", "ownerReferences": references}}


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"metadata": {"ownerReferences": None}},
        owned(("v1", "Pod")),
        owned(("sparkoperator.k8s.io/v1beta2", "SparkApplication")),
        owned(("spark.apache.org/v1", "SparkCluster")),
    ],
)
def test_any_other_pod_has_no_application(pod: Json) -> None:
    assert application_of(pod) is None
