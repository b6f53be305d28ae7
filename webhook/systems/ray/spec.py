"""ray.io/v1: RayJobs, the RayCronJobs that create them, and the RayClusters that control their pods.

Source: ray-operator/controllers/ray of KubeRay 1.6.2. Each retry of a RayJob is a new RayCluster. A RayCluster without
a controller, or of a RayService, is no batch workload. A RayJob gets the jobTemplate of its RayCronJob, but none of its
annotations.
"""

from typing import Final

from webhook.kube import terminal
from webhook.objects.patch import EVERY, Pattern
from webhook.objects.problem import Json, Path
from webhook.objects.shape import Shape
from webhook.systems.core import METADATA, POD_TEMPLATE
from webhook.systems.kind_spec import KindSpec, RetryField

GROUP: Final = "ray.io"
HEAD: Final = "head"  # the scope of the head, and its type
NODE_TYPE: Final = "ray.io/node-type"  # label of pods
VERSIONS: Final = ("v1",)


def may_retry(spec: Json) -> bool:
    """Return True if a RayJob may have retries.

    A retry of a RayJob with a clusterSelector would delete a RayCluster that others use.
    """
    return not spec.get("clusterSelector") and spec.get("submissionMode") != "InteractiveMode"


def may_be_suspended(spec: Json) -> bool:
    """Return True if a RayJob may be suspended: KubeRay ends any other one as not valid."""
    return bool(spec.get("shutdownAfterJobFinishes")) and not spec.get("clusterSelector")


RAY_JOB_SPEC: Final[Shape] = {
    "backoffLimit": int,
    "submissionMode": str,
    "submitterConfig": {"backoffLimit": int},
    "submitterPodTemplate": POD_TEMPLATE,
    "rayClusterSpec": {
        "headGroupSpec": {"template": POD_TEMPLATE},
        "workerGroupSpecs": [{"template": POD_TEMPLATE}],
    },
}


def _pod_templates(spec: Path) -> tuple[Pattern, ...]:
    return (
        (*spec, "rayClusterSpec", "headGroupSpec", "template"),
        (*spec, "rayClusterSpec", "workerGroupSpecs", EVERY, "template"),
        (*spec, "submitterPodTemplate"),
    )


def _retry_fields(spec: Path) -> tuple[RetryField, ...]:
    return (
        RetryField(within=spec, name=("backoffLimit",), may_raise=may_retry),
        RetryField(within=(*spec, "submitterConfig"), name=("backoffLimit",), absent=2, may_be_added=False),
    )


SPEC: Final[Path] = ("spec",)
SCHEDULED: Final[Path] = ("spec", "jobTemplate")

RAY_JOB: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="RayJob",
    shape={"metadata": METADATA, "spec": RAY_JOB_SPEC, "status": {"jobDeploymentStatus": str}},
    counts=True,
    may_begin_anew=terminal.has_failed,
    pod_templates=_pod_templates(SPEC),
    retry_fields=_retry_fields(SPEC),
)

RAY_CRON_JOB: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="RayCronJob",
    shape={"metadata": METADATA, "spec": {"jobTemplate": RAY_JOB_SPEC}},
    pod_templates=_pod_templates(SCHEDULED),
    retry_fields=_retry_fields(SCHEDULED),
)

RAY_CLUSTER: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="RayCluster",
    admitted=False,
    shape={"metadata": METADATA},
    owns_pods=True,
    counted_under=RAY_JOB.kind,
)

KINDS: Final = (RAY_JOB, RAY_CRON_JOB, RAY_CLUSTER)
