"""The systems whose workloads have an account beside Job and JobSet: one module for each."""

from typing import Final

from webhook.kinds import KindSpec
from webhook.ledger.model.systems import argo, flyte, kubeflow, ray, spark, tekton, volcano
from webhook.ledger.model.systems.system import System

__all__ = ["SYSTEMS", "System", "system_of"]

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
