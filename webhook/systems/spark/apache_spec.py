"""spark.apache.org: the SparkApplications of Apache Spark's own operator.

Source: spark-operator-api and spark-operator of spark-kubernetes-operator 1.0.0. maxRestartAttempts limits every
restart policy except Never, which restarts nothing and is the default. An attempt that runs for
restartCounterResetMillis resets the count, so that restarts are unlimited; -1 never resets it. The limits for some
causes of a restart apply in addition. The driver has the application among its ownerReferences, but no controller; an
executor's controller is the driver.
"""

from functools import partial
from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json, Path
from webhook.objects.shape import Shape
from webhook.systems.core import METADATA, POD_TEMPLATE
from webhook.systems.kind_spec import Budget, KindSpec, OwnerReference, RetryField, owner_references

GROUP: Final = "spark.apache.org"
KIND: Final = "SparkApplication"
APPLICATION: Final = "spark.operator/spark-app-name"  # label of drivers and executors
DEFAULT_RESTARTS: Final = 3
POLICY: Final = "restartPolicy"
RESET: Final = "restartCounterResetMillis"


class RestartField(RetryField):
    """maxRestartAttempts, whose meaning depends on the other fields of restartConfig."""

    def budget(self, root: Json, path: Path, found: Json) -> Budget | None:  # noqa: ARG002 - as any retry field
        """Return the number of restarts that a restartConfig allows."""
        config = at(found, self.name[:-1]) or {}
        allowing = partial(Budget, path)
        if config.get(POLICY) in {None, "Never"}:
            return allowing(0, beside=((*path[:-1], POLICY), "OnFailure"))
        reset = config.get(RESET)
        if reset is not None and reset >= 0:
            return allowing(None, beside=((*path[:-1], RESET), -1))
        restarts = config.get(self.name[-1])
        return allowing(DEFAULT_RESTARTS if restarts is None else max(0, restarts))


def application_of(root: Json) -> OwnerReference | None:
    """Return the SparkApplication of a driver, from its ownerReferences; None if there is none."""
    for reference in owner_references(root):
        if (reference.group, reference.kind) == (GROUP, KIND):
            return reference
    return None


SHAPE: Final[Shape] = {
    "applicationTolerations": {
        "restartConfig": {POLICY: str, "maxRestartAttempts": int, RESET: int},
    },
    "driverSpec": {"podTemplateSpec": POD_TEMPLATE},
    "executorSpec": {"podTemplateSpec": POD_TEMPLATE},
}

SPARK_APPLICATION: Final = KindSpec(
    group=GROUP,
    versions=("v1", "v1beta1"),
    kind=KIND,
    resource="sparkapplications",
    shape={"metadata": METADATA, "spec": SHAPE},
    owns_pods=True,
    pod_templates=tuple(("spec", role, "podTemplateSpec") for role in ("driverSpec", "executorSpec")),
    retry_fields=(
        RestartField(
            within=("spec",),
            name=("applicationTolerations", "restartConfig", "maxRestartAttempts"),
            counts_with=(POLICY, "OnFailure"),
        ),
    ),
)

ROWS: Final = (SPARK_APPLICATION,)
