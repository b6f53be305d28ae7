"""Where the spark-operator's applications have their retries and annotations, and which pods are theirs."""

import pytest

from tests.unit.systems.reading import places, retries, root_of
from webhook.objects.problem import Json
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.spark.spec import SCHEDULED_SPARK_APPLICATION, SPARK_APPLICATION, application_of

RETRIES = "spec.restartPolicy.onFailureRetries"


def spec(**restart_policy: str | int | None) -> Json:
    """Return a SparkApplicationSpec as in the operator's own examples."""
    return {
        "type": "Scala",
        "mode": "cluster",
        "image": "spark:4.0.0",
        "mainClass": "org.apache.spark.examples.SparkPi",
        "mainApplicationFile": "local:///opt/spark/examples/jars/spark-examples.jar",
        "sparkVersion": "4.0.0",
        "restartPolicy": restart_policy,
        "driver": {"cores": 1, "memory": "512m", "serviceAccount": "spark"},
        "executor": {"cores": 1, "instances": 2, "memory": "512m"},
    }


def test_runs_and_submissions_are_counted_by_two_fields() -> None:
    root = root_of(SPARK_APPLICATION, spec(type="OnFailure", onFailureRetries=3, onSubmissionFailureRetries=5))
    assert retries(SPARK_APPLICATION, root) == {RETRIES: 3, "spec.restartPolicy.onSubmissionFailureRetries": 5}


@pytest.mark.parametrize("policy", [{"type": "Never"}, {"type": "OnFailure"}, {"onFailureRetries": None}, {}])
def test_an_application_without_a_number_has_no_retries(policy: dict[str, str | None]) -> None:
    assert retries(SPARK_APPLICATION, root_of(SPARK_APPLICATION, spec(**policy))) == {RETRIES: 0}


def test_without_a_restart_policy_there_are_no_retries() -> None:
    assert retries(SPARK_APPLICATION, root_of(SPARK_APPLICATION, {"type": "Python"})) == {RETRIES: 0}


@pytest.mark.parametrize("number", [None, 0, 2])
def test_the_type_always_is_unlimited_whatever_the_number(number: int | None) -> None:
    root = root_of(SPARK_APPLICATION, spec(type="Always", onFailureRetries=number))
    assert retries(SPARK_APPLICATION, root) == {RETRIES: None}


def test_a_scheduled_application_has_the_fields_of_an_application_in_its_template() -> None:
    template = spec(type="OnFailure", onFailureRetries=1)
    root = root_of(SCHEDULED_SPARK_APPLICATION, {"schedule": "@every 5m", "template": template})
    assert retries(SCHEDULED_SPARK_APPLICATION, root) == {"spec.template.restartPolicy.onFailureRetries": 1}
    assert places(SCHEDULED_SPARK_APPLICATION.pod_annotations, root) == [
        "spec.template.driver.annotations",
        "spec.template.executor.annotations",
    ]


def test_drivers_and_executors_have_annotations_and_no_pod_template() -> None:
    root = root_of(SPARK_APPLICATION, spec())
    assert places(SPARK_APPLICATION.pod_annotations, root) == ["spec.driver.annotations", "spec.executor.annotations"]
    assert list(SPARK_APPLICATION.templates(root)) == []


def test_updates_of_an_application_are_not_edited_because_an_edit_would_restart_it() -> None:
    assert SPARK_APPLICATION.immutable
    assert not SCHEDULED_SPARK_APPLICATION.immutable


LABELS = {
    "spark-role": "executor",
    "sparkoperator.k8s.io/app-name": "pi",
    "sparkoperator.k8s.io/launched-by-spark-operator": "true",
    "sparkoperator.k8s.io/submission-id": "4f5c",
}


def test_a_pod_names_its_application_and_submission_in_labels() -> None:
    application = OwnerReference("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "pi", "", "4f5c")
    assert application_of(LABELS) == application
    older = {key: value for key, value in LABELS.items() if not key.endswith("submission-id")}
    assert application_of(older) == OwnerReference("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "pi", "")


def test_an_empty_name_is_no_application() -> None:
    assert application_of({**LABELS, "sparkoperator.k8s.io/app-name": ""}) is None
