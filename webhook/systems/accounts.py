"""The systems whose workloads have an account beside Job and JobSet: one module for each."""

from typing import Final

from webhook.systems.argo import account as argo
from webhook.systems.flyte import account as flyte
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kubeflow import account as kubeflow
from webhook.systems.ray import account as ray
from webhook.systems.spark import account as spark
from webhook.systems.system import System
from webhook.systems.tekton import account as tekton
from webhook.systems.volcano import account as volcano

# By the kind of the object that has the account.
SYSTEMS: Final[dict[KindSpec, System]] = {
    one.row: one
    for one in (
        *(argo.WORKFLOW, tekton.PIPELINE_RUN, tekton.TASK_RUN),
        *(*kubeflow.TRAINING, kubeflow.MPI_JOB, volcano.JOB),
        *(ray.RAY_JOB, spark.SPARK_APPLICATION, spark.OF_APACHE),
        flyte.FLYTE_WORKFLOW,
    )
}


def system_of(row: KindSpec) -> System | None:
    """Return the system of a kind that has an account; None for Job and JobSet."""
    return SYSTEMS.get(row)
