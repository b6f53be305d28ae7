"""The pods of SparkApplications, of Kubeflow's operator and of Apache's: the scopes are `driver` and `executor`.

The attempt is in the status of the application. `status.executionAttempts` of Kubeflow's operator is incremented once
the driver of a run exists. So it includes the run of a pod whose submission the status names, and else only earlier
runs (internal/controller/sparkapplication of spark-operator 2.4). Apache's operator writes the next attempt before it
creates its driver (spark-operator of spark-kubernetes-operator 1.0.0).
"""

from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.systems.core import POD
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pod_source import NOBODY, NONE, Evidence, Level, Place, PodSource, number_at
from webhook.systems.spark import spec as spark
from webhook.systems.spark.spec import DRIVER, EXECUTOR, SUBMISSION

NAME: Final = "Spark"
NOT_SUBMITTED: Final = "SUBMISSION_FAILED"
APACHE_NAME: Final = "ApacheSpark"
APACHE_ATTEMPT: Final = ("status", "currentAttemptSummary", "attemptInfo")
APACHE_CONFIG: Final = ("spec", "applicationTolerations", "restartConfig")
LABELS: Final = (spark.ROLE, spark.APPLICATION, spark.LAUNCHED, spark.APACHE_APPLICATION)


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the runs before the pod's run."""
    application = evidence.owner
    if application is None:
        return []
    runs = number_at(application, ("status", "executionAttempts")) or 0
    state = at(application, ("status", "applicationState", "state"))
    submission = evidence.labels.get(SUBMISSION)
    if submission is not None and submission == at(application, ("status", "submissionID")) and state != NOT_SUBMITTED:
        runs = max(0, runs - 1)
    retries = number_at(application, ("spec", "restartPolicy", "onFailureRetries"))
    counts = at(application, ("spec", "restartPolicy", "type")) == "OnFailure"
    return [Level(NAME, runs, (retries or 0) if counts else 0)]


def levels_of_apache(evidence: Evidence) -> list[Level]:
    """Return the level of the application; operators before 1.0 write the number of the attempt, and no restarts."""
    if evidence.owner is None:
        return []
    restarts = number_at(evidence.owner, (*APACHE_ATTEMPT, "restartCounter"))
    attempt = number_at(evidence.owner, (*APACHE_ATTEMPT, "id")) if restarts is None else restarts
    return [Level(APACHE_NAME, attempt or 0, _budget_of(evidence))]


def _budget_of(evidence: Evidence) -> int:
    if at(evidence.owner, (*APACHE_CONFIG, spark.APACHE_POLICY)) in {None, "Never"}:
        return 0
    restarts = number_at(evidence.owner, (*APACHE_CONFIG, "maxRestartAttempts"))
    return spark.APACHE_RESTARTS if restarts is None else restarts


def _place_of(metadata: Json, controller: OwnerReference) -> Place:
    return Place(spark.SPARK_APPLICATION, controller.name, controller.uid, _role_of(metadata.get("labels") or {}))


def _place_by_labels(metadata: Json, controller: OwnerReference) -> Place | None:
    """Return the place of a driver without a controller, or of an executor, which its driver controls.

    The drivers of spark-operator have a controller only if its webhook runs, those of Apache's operator never.
    """
    labels = metadata.get("labels") or {}
    application = spark.application_of(labels)
    if application is not None:
        return Place(spark.SPARK_APPLICATION, application.name, "", _role_of(labels))
    name = labels.get(spark.APACHE_APPLICATION)
    if not name:
        return None
    owner = spark.application_of_driver({"metadata": metadata}) if controller == NOBODY else None
    uid = owner.uid if owner is not None and owner.name == name else ""
    return Place(spark.APACHE_SPARK_APPLICATION, name, uid, _role_of(labels))


def _role_of(labels: Json) -> str:
    return EXECUTOR if labels.get(spark.ROLE) == EXECUTOR else DRIVER


def _replaces(evidence: Evidence) -> bool:
    """Return True for executors, which Spark 4.0 replaces itself, and if the operator always restarts."""
    always = at(evidence.owner, ("spec", "restartPolicy", "type")) == "Always"
    return always or evidence.labels.get(spark.ROLE) == EXECUTOR


PODS: Final = (
    PodSource(spark.SPARK_APPLICATION, NAME, levels, _place_of, replaces=_replaces, leaders=((spark.ROLE, DRIVER),)),
    PodSource(spark.APACHE_SPARK_APPLICATION, APACHE_NAME, levels_of_apache),
    PodSource(NONE, "", place=_place_by_labels),
    PodSource(POD, "", place=_place_by_labels, is_counted=False),
)
