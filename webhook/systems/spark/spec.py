"""sparkoperator.k8s.io/v1beta2: SparkApplications and ScheduledSparkApplications.

Source: api/v1beta2 and internal/controller of spark-operator 2.4.0. The retry fields apply only with restartPolicy.type
OnFailure. Always restarts an application without a limit, even after success. Any change of a SparkApplication's spec
restarts it.
"""

from typing import Final

from webhook.objects.problem import Json, Path
from webhook.objects.shape import ANY_KEY, Shape
from webhook.systems.core import METADATA
from webhook.systems.kind_spec import Field, KindSpec, OwnerReference, RetryField

# Labels of drivers and executors. The controller of an executor is its driver.
APPLICATION: Final = "sparkoperator.k8s.io/app-name"
LAUNCHED: Final = "sparkoperator.k8s.io/launched-by-spark-operator"
SUBMISSION: Final = "sparkoperator.k8s.io/submission-id"
GROUP: Final = "sparkoperator.k8s.io"
ROLE: Final = "spark-role"  # label of pods, of Spark itself
VERSIONS: Final = ("v1beta2",)
ANNOTATIONS: Final[Shape] = {"annotations": {ANY_KEY: str}}
SPEC: Final[Path] = ("spec",)
SCHEDULED: Final[Path] = ("spec", "template")
SHAPE: Final[Shape] = {
    "restartPolicy": {"type": str, "onFailureRetries": int, "onSubmissionFailureRetries": int},
    "driver": ANNOTATIONS,
    "executor": ANNOTATIONS,
}


def retry_fields(spec: Path) -> tuple[RetryField, ...]:
    """Return the retry fields of the SparkApplicationSpec at a path."""
    counting = ("type", "OnFailure")
    runs = ("restartPolicy", "onFailureRetries")
    submissions = ("restartPolicy", "onSubmissionFailureRetries")
    return (
        RetryField(within=spec, name=runs, counts_with=counting, unlimited_with="Always"),
        RetryField(within=spec, name=submissions, made=False),
    )


def pod_annotations(spec: Path) -> tuple[Field, ...]:
    """Return the annotations of drivers and executors.

    These fields are used, and no pod template is added: with one the operator would no longer set up the pods itself.
    """
    return tuple(Field(within=(*spec, role), name=("annotations",)) for role in ("driver", "executor"))


def application_of(labels: Json) -> OwnerReference | None:
    """Return the SparkApplication in the labels of a driver or executor; None if they name none."""
    name = labels.get(APPLICATION)
    if not name or LAUNCHED not in labels:
        return None
    return OwnerReference(GROUP, VERSIONS[0], SPARK_APPLICATION.kind, name, "", labels.get(SUBMISSION, ""))


SPARK_APPLICATION: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="SparkApplication",
    resource="sparkapplications",
    shape={"metadata": METADATA, "spec": SHAPE},
    immutable=True,  # for this webhook: an edit of an update would restart the application
    owns_pods=True,
    retry_fields=retry_fields(SPEC),
    pod_annotations=pod_annotations(SPEC),
)

SCHEDULED_SPARK_APPLICATION: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="ScheduledSparkApplication",
    resource="scheduledsparkapplications",
    shape={"metadata": METADATA, "spec": {"template": SHAPE}},
    retry_fields=retry_fields(SCHEDULED),
    pod_annotations=pod_annotations(SCHEDULED),
)

ROWS: Final = (SPARK_APPLICATION, SCHEDULED_SPARK_APPLICATION)
