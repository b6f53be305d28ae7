"""For which RayJob or SparkApplication a pod is counted, and in which scope."""

from typing import Any

import pytest

from webhook.objects.problem import Json
from webhook.systems.kind_spec import controller_of
from webhook.systems.pod_source import Place
from webhook.systems.pods import place_of
from webhook.systems.ray import spec as ray
from webhook.systems.spark import spec as spark

LAUNCHED = {"sparkoperator.k8s.io/app-name": "etl", "sparkoperator.k8s.io/launched-by-spark-operator": "true"}
OF_APACHE = {"spark.operator/spark-app-name": "etl"}
DRIVER_POD = {"apiVersion": "v1", "kind": "Pod", "name": "etl-driver", "uid": "driver-uid", "controller": True}


def owner(version: str, kind: str, name: str, **changes: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"{name}-uid", "controller": True, **changes}


def found(labels: Json, *owners: Json) -> Place | None:
    metadata = {"labels": labels, "ownerReferences": list(owners)}
    return place_of(metadata, controller_of({"metadata": metadata}))


def test_the_name_of_a_ray_job_is_that_of_its_cluster_without_the_end_that_kuberay_adds() -> None:
    cluster = owner("ray.io/v1", "RayCluster", "nightly-train-7xk2p")
    assert found({"ray.io/node-type": "head"}, cluster) == Place(ray.RAY_JOB, "nightly-train", "", "head")


def test_each_group_of_workers_is_a_scope() -> None:
    cluster = owner("ray.io/v1", "RayCluster", "train-7xk2p")
    labels = {"ray.io/node-type": "worker", "ray.io/group": "head"}
    assert found(labels, cluster) == Place(ray.RAY_JOB, "train", "", "worker/head")
    assert found({}, cluster) == Place(ray.RAY_JOB, "train", "", "worker/")


@pytest.mark.parametrize("name", ["shared", "shared-gpu", "x-TOOBIG"])
def test_a_cluster_whose_name_kuberay_did_not_make_has_no_ray_job(name: str) -> None:
    assert found({"ray.io/node-type": "head"}, owner("ray.io/v1", "RayCluster", name)) is None


def test_a_driver_is_counted_for_the_application_that_controls_it() -> None:
    application = owner("sparkoperator.k8s.io/v1beta2", "SparkApplication", "etl")
    labels = {**LAUNCHED, "spark-role": "driver"}
    assert found(labels, application) == Place(spark.SPARK_APPLICATION, "etl", "etl-uid", "driver")


def test_a_driver_without_a_controller_and_an_executor_are_counted_by_their_labels() -> None:
    assert found({**LAUNCHED, "spark-role": "driver"}) == Place(spark.SPARK_APPLICATION, "etl", "", "driver")
    labels = {**LAUNCHED, "spark-role": "executor"}
    assert found(labels, DRIVER_POD) == Place(spark.SPARK_APPLICATION, "etl", "", "executor")


def test_a_driver_of_apaches_operator_says_the_uid_of_its_application_an_executor_does_not() -> None:
    application = owner("spark.apache.org/v1", "SparkApplication", "etl", controller=None)
    driver, executor = {**OF_APACHE, "spark-role": "driver"}, {**OF_APACHE, "spark-role": "executor"}
    assert found(driver, application) == Place(spark.APACHE_SPARK_APPLICATION, "etl", "etl-uid", "driver")
    assert found(executor, DRIVER_POD) == Place(spark.APACHE_SPARK_APPLICATION, "etl", "", "executor")


def test_the_uid_of_another_application_is_not_taken() -> None:
    other = owner("spark.apache.org/v1", "SparkApplication", "other", controller=None)
    assert found(OF_APACHE, other) == Place(spark.APACHE_SPARK_APPLICATION, "etl", "", "driver")


@pytest.mark.parametrize("labels", [{}, {"spark-role": "driver"}, {"sparkoperator.k8s.io/app-name": "etl"}])
def test_any_other_pod_without_a_controller_or_of_a_pod_is_counted_nowhere(labels: Json) -> None:
    assert found(labels) is None
    assert found(labels, DRIVER_POD) is None
