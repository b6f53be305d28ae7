"""Recognises the pod that leads a workload: if it is lost, all the others have worked in vain.

Reads:
    metadata.labels: `leaders` of the systems, and those by which JobSet marks its Jobs
    metadata.annotations[jobset.sigs.k8s.io/coordinator, batch.kubernetes.io/job-completion-index]
"""

from typing import Final

from webhook.objects.problem import Json
from webhook.pods.pods import INDEX
from webhook.systems.job_set.spec import JOB_INDEX, REPLICATED_JOB, SET_NAME
from webhook.systems.pods import LEADERS

# On each pod of a JobSet with spec.coordinator: host name and subdomain of the coordinator. The host name is SET-JOB-
# JOB INDEX-COMPLETION INDEX (coordinatorEndpoint in pkg/controllers/jobset_controller.go of JobSet 0.12).
COORDINATOR: Final = "jobset.sigs.k8s.io/coordinator"


def leads(labels: Json, said: Json) -> bool:
    """Return True if a pod leads its workload; `said`: its annotations."""
    if any(labels.get(key) == role for key, role in LEADERS.items()):
        return True
    coordinator = said.get(COORDINATOR)
    if not coordinator:
        return False
    own = (labels.get(SET_NAME), labels.get(REPLICATED_JOB), labels.get(JOB_INDEX), said.get(INDEX))
    return str(coordinator).partition(".")[0] == "-".join(map(str, own))
