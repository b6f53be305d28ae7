"""One row per kind: where its JobSpecs stand and which fields the rules read. Adding a kind is a row and its test."""

from typing import Final

from webhook.workloads import (
    apache_spark,
    argo,
    batch,
    core,
    flyte,
    job_set,
    kubeflow,
    ray,
    spark,
    tekton,
    trainer,
    volcano,
)
from webhook.workloads.row import Budget, EmbeddedJob, OwnerReference, Workload

__all__ = ["WORKLOADS", "Budget", "EmbeddedJob", "OwnerReference", "Workload", "row_of"]

ROWS: Final = (
    core.POD,
    batch.JOB,
    batch.CRON_JOB,
    job_set.JOB_SET,
    *tekton.ROWS,
    *argo.ROWS,
    *kubeflow.ROWS,
    *trainer.ROWS,
    *ray.ROWS,
    *spark.ROWS,
    *apache_spark.ROWS,
    *volcano.ROWS,
    *flyte.ROWS,
)

# By group and kind, as a request names them.
WORKLOADS: Final = {(row.group, row.kind): row for row in ROWS}

# The kinds that control pods or what controls them. Flyte writes its own in small letters.
CONTROLLERS: Final = {(row.group, row.kind.lower()): row for row in ROWS if row.owns_pods or row.counts}


def row_of(controller: OwnerReference) -> Workload | None:
    """Return the row of a controller's kind, None if it is none that controls pods of ours."""
    return CONTROLLERS.get((controller.group, controller.kind.lower()))
