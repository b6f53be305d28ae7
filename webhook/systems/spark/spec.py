"""SparkApplications and ScheduledSparkApplications of Kubeflow's operator, and those of Apache Spark's own (APACHE_).

sparkoperator.k8s.io/v1beta2: api/v1beta2 and internal/controller of spark-operator 2.4.0. The retry fields apply only
with restartPolicy.type OnFailure. Always restarts an application without a limit, even after success. Any change of a
SparkApplication's spec restarts it.

spark.apache.org: spark-operator-api and spark-operator of spark-kubernetes-operator 1.0.0. maxRestartAttempts limits
every restart policy except Never, which restarts nothing and is the default. An attempt that runs for
restartCounterResetMillis resets the count, so that restarts are unlimited; -1 never resets it. The limits for some
causes of a restart apply in addition. The driver has the application among its ownerReferences, but no controller; an
executor's controller is the driver.
"""

from functools import partial
from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json, Path
from webhook.objects.shape import ANY_KEY, Shape
from webhook.systems.core import METADATA, POD_TEMPLATE
from webhook.systems.kind_spec import Budget, Field, KindSpec, OwnerReference, RetryField, owner_references

# Labels of drivers and executors. The controller of an executor is its driver.
APPLICATION: Final = "sparkoperator.k8s.io/app-name"
LAUNCHED: Final = "sparkoperator.k8s.io/launched-by-spark-operator"
SUBMISSION: Final = "sparkoperator.k8s.io/submission-id"
GROUP: Final = "sparkoperator.k8s.io"
ROLE: Final = "spark-role"  # label of pods, of Spark itself
VERSIONS: Final = ("v1beta2",)
# Scopes.
DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
APACHE_GROUP: Final = "spark.apache.org"
APACHE_APPLICATION: Final = "spark.operator/spark-app-name"  # label of drivers and executors
APACHE_RESTARTS: Final = 3
APACHE_POLICY: Final = "restartPolicy"
APACHE_RESET: Final = "restartCounterResetMillis"
ANNOTATIONS: Final[Shape] = {"annotations": {ANY_KEY: str}}
SPEC: Final[Path] = ("spec",)
SCHEDULED: Final[Path] = ("spec", "template")
SHAPE: Final[Shape] = {
    "restartPolicy": {"type": str, "onFailureRetries": int, "onSubmissionFailureRetries": int},
    "driver": ANNOTATIONS,
    "executor": ANNOTATIONS,
}


def _retry_fields(spec: Path) -> tuple[RetryField, ...]:
    counting = ("type", "OnFailure")
    runs = ("restartPolicy", "onFailureRetries")
    submissions = ("restartPolicy", "onSubmissionFailureRetries")
    return (
        RetryField(within=spec, name=runs, counts_with=counting, unlimited_with="Always"),
        RetryField(within=spec, name=submissions, may_be_added=False),
    )


def _pod_annotations(spec: Path) -> tuple[Field, ...]:
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
    shape={"metadata": METADATA, "spec": SHAPE},
    immutable=True,  # for this webhook: an edit of an update would restart the application
    owns_pods=True,
    retry_fields=_retry_fields(SPEC),
    pod_annotations=_pod_annotations(SPEC),
)

SCHEDULED_SPARK_APPLICATION: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="ScheduledSparkApplication",
    shape={"metadata": METADATA, "spec": {"template": SHAPE}},
    retry_fields=_retry_fields(SCHEDULED),
    pod_annotations=_pod_annotations(SCHEDULED),
)


class ApacheRestartField(RetryField):
    """maxRestartAttempts, whose meaning depends on the other fields of restartConfig."""

    def budget(self, root: Json, path: Path, found: Json) -> Budget | None:  # noqa: ARG002 - as any retry field
        """Return the number of restarts that a restartConfig allows."""
        config = at(found, self.name[:-1]) or {}
        allowing = partial(Budget, path)
        if config.get(APACHE_POLICY) in {None, "Never"}:
            return allowing(0, required_sibling=((*path[:-1], APACHE_POLICY), "OnFailure"))
        reset = config.get(APACHE_RESET)
        if reset is not None and reset >= 0:
            return allowing(None, required_sibling=((*path[:-1], APACHE_RESET), -1))
        restarts = config.get(self.name[-1])
        return allowing(APACHE_RESTARTS if restarts is None else max(0, restarts))


def application_of_driver(root: Json) -> OwnerReference | None:
    """Return the SparkApplication of a driver, from its ownerReferences; None if there is none."""
    for reference in owner_references(root):
        if (reference.group, reference.kind) == (APACHE_GROUP, SPARK_APPLICATION.kind):
            return reference
    return None


APACHE_SHAPE: Final[Shape] = {
    "applicationTolerations": {
        "restartConfig": {APACHE_POLICY: str, "maxRestartAttempts": int, APACHE_RESET: int},
    },
    "driverSpec": {"podTemplateSpec": POD_TEMPLATE},
    "executorSpec": {"podTemplateSpec": POD_TEMPLATE},
}

APACHE_SPARK_APPLICATION: Final = KindSpec(
    group=APACHE_GROUP,
    versions=("v1", "v1beta1"),
    kind=SPARK_APPLICATION.kind,
    shape={"metadata": METADATA, "spec": APACHE_SHAPE},
    owns_pods=True,
    pod_templates=tuple(("spec", role, "podTemplateSpec") for role in ("driverSpec", "executorSpec")),
    retry_fields=(
        ApacheRestartField(
            within=("spec",),
            name=("applicationTolerations", "restartConfig", "maxRestartAttempts"),
            counts_with=(APACHE_POLICY, "OnFailure"),
        ),
    ),
)

KINDS: Final = (SPARK_APPLICATION, SCHEDULED_SPARK_APPLICATION, APACHE_SPARK_APPLICATION)
