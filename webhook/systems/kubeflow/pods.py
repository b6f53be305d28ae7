"""The pods of the training operator's jobs and of the MPI operator's: the scope is a replica.

The attempt is what the ledger has counted for a replica: the training operator counts no pod that it replaces.

With restartPolicy Never, and with a backoffLimit of 0, the operator replaces no pod that has failed, however that ended
(pkg/controller.v1 of training-operator 1.9.3): then there are no retries.
"""

from functools import partial
from typing import Final

from webhook.objects.problem import Json
from webhook.systems.kind_spec import KindSpec, OwnerReference
from webhook.systems.kubeflow import spec as kubeflow
from webhook.systems.pod_source import Evidence, Level, Place, PodSource, joined, number_at

NAME: Final = "Kubeflow"
LABELS: Final = (kubeflow.REPLICA_TYPE, kubeflow.REPLICA_INDEX)
# By the label of the MPI operator, and of the training operator, which has both.
LAUNCHER: Final = tuple((label, "launcher") for label in ("training.kubeflow.org/job-role", kubeflow.REPLICA_TYPE))
BACKOFF_LIMIT: Final = ("spec", "runPolicy", "backoffLimit")


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the retries that the ledger has counted; none if the job is unknown."""
    if evidence.owner is None:
        return []
    return [Level(NAME, evidence.failures or 0, _budget_of(evidence, evidence.owner))]


def _budget_of(evidence: Evidence, root: Json) -> int:
    if kubeflow.restart_policy_of(root, evidence.labels.get(kubeflow.REPLICA_TYPE) or "") == "Never":
        return 0
    said = number_at(root, BACKOFF_LIMIT)
    return evidence.settings_budget if said is None else said


def _in_training_job(kind: KindSpec, metadata: Json, controller: OwnerReference) -> Place:
    return Place(kind, controller.name, controller.uid, joined(metadata, *LABELS))


def _in_mpi_job(metadata: Json, controller: OwnerReference) -> Place | None:
    """Return the place of a worker of an MPIJob of the MPI operator: the scope is its replica, such as `worker/0`.

    The MPIJob of the training operator has another version, and no account.
    """
    if controller.version != kubeflow.MPI_JOB.read_in:
        return None
    index = (metadata.get("labels") or {}).get(kubeflow.REPLICA_INDEX) or ""
    return Place(kubeflow.MPI_JOB, controller.name, controller.uid, f"{kubeflow.WORKER}/{index}")


PODS: Final = (
    *(PodSource(kind, NAME, levels, partial(_in_training_job, kind)) for kind in kubeflow.TRAINING.values()),
    PodSource(kubeflow.MPI_JOB, "", place=_in_mpi_job, leaders=LAUNCHER),
)
