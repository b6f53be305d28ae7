"""ray.io/v1: RayJobs, and the RayClusters that hold their pods.

Source: ray-operator/controllers/ray of KubeRay 1.5.1. Each retry of a RayJob is a new RayCluster. A RayCluster of
nobody, or of a RayService, is no batch.
"""

from typing import Final

from webhook.patch import EVERY
from webhook.problem import Json
from webhook.workloads.core import METADATA, POD_TEMPLATE
from webhook.workloads.row import RetryField, Workload

GROUP: Final = "ray.io"
VERSIONS: Final = ("v1",)


def may_retry(spec: Json) -> bool:
    """Tell whether a RayJob bears retries: one with a clusterSelector would delete a cluster that others use."""
    return not spec.get("clusterSelector") and spec.get("submissionMode") != "InteractiveMode"


RAY_JOB: Final = Workload(
    group=GROUP,
    versions=VERSIONS,
    kind="RayJob",
    resource="rayjobs",
    shape={
        "metadata": METADATA,
        "spec": {
            "backoffLimit": int,
            "submissionMode": str,
            "submitterConfig": {"backoffLimit": int},
            "submitterPodTemplate": POD_TEMPLATE,
            "rayClusterSpec": {
                "headGroupSpec": {"template": POD_TEMPLATE},
                "workerGroupSpecs": [{"template": POD_TEMPLATE}],
            },
        },
    },
    counts=True,
    pod_templates=(
        ("spec", "rayClusterSpec", "headGroupSpec", "template"),
        ("spec", "rayClusterSpec", "workerGroupSpecs", EVERY, "template"),
        ("spec", "submitterPodTemplate"),
    ),
    retry_fields=(
        RetryField(within=("spec",), name=("backoffLimit",), may_raise=may_retry),
        RetryField(within=("spec", "submitterConfig"), name=("backoffLimit",), absent=2, made=False),
    ),
)

RAY_CLUSTER: Final = Workload(
    group=GROUP,
    versions=VERSIONS,
    kind="RayCluster",
    resource="rayclusters",
    admitted=False,
    shape={"metadata": METADATA},
    owns_pods=True,
    counted_above=True,
)

ROWS: Final = (RAY_JOB, RAY_CLUSTER)
