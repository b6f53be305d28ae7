"""What the ledger has counted for a replica of a training operator's job: the operator counts no pod that it replaces.

With restartPolicy Never, and with a backoffLimit of 0, the operator replaces no pod that has failed, however that ended
(pkg/controller.v1 of training-operator 1.9.3): then there are no retries.
"""

from typing import Final

from webhook.objects.problem import Json
from webhook.systems.kubeflow import spec as kubeflow
from webhook.systems.level import Evidence, Level, number_at

NAME: Final = "Kubeflow"
BACKOFF_LIMIT: Final = ("spec", "runPolicy", "backoffLimit")


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the retries that the ledger has counted; none if the job is unknown."""
    if evidence.owner is None:
        return []
    return [Level(NAME, evidence.failures or 0, budget_of(evidence, evidence.owner))]


def budget_of(evidence: Evidence, root: Json) -> int:
    """Return the retries of a replica of a job."""
    if kubeflow.restart_policy_of(root, evidence.labels.get(kubeflow.REPLICA_TYPE) or "") == "Never":
        return 0
    said = number_at(root, BACKOFF_LIMIT)
    return evidence.settings_budget if said is None else said
