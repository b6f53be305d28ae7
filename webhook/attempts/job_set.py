"""The number of the JobSet's restart that a pod belongs to, which the JobSet controller writes on Jobs and pods.

It counts restarts that cost nothing of maxRestarts too; how many did, the JobSet's status tells: the others were
disruptions, a level of their own. From JobSet 0.12 on restarts of a single Job are numbered beside it
(pkg/constants, pkg/controllers of JobSet 0.11 and 0.12). The status is written before the Jobs of a restart are.
"""

from typing import Final

from webhook.attempts.level import Evidence, Level, number_at

NAME: Final = "JobSet"
RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
JOB_RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/job-restart-attempt"


def levels(evidence: Evidence) -> list[Level]:
    """Read the restarts of the set, and of the pod's Job."""
    restarts = evidence.count_in_labels(RESTART_ATTEMPT)
    if restarts is None:
        restarts = evidence.count_in_annotations(RESTART_ATTEMPT)
    if restarts is None:
        return []
    restarts += evidence.count_in_labels(JOB_RESTART_ATTEMPT) or 0
    job_set = evidence.above
    if job_set is None:
        return [Level(NAME, restarts, evidence.said_budget)]
    budget = number_at(job_set, ("spec", "failurePolicy", "maxRestarts")) or 0
    in_all = number_at(job_set, ("status", "restarts")) or 0
    costly = number_at(job_set, ("status", "restartsCountTowardsMax")) or 0  # a count of 0 is left out
    ignored = min(max(0, in_all - costly), restarts)
    return [
        Level(NAME, restarts - ignored, budget),
        Level(NAME, ignored, evidence.settings.disruption_budget, of_disruptions=True),
    ]
