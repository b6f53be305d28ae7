"""The label or annotation `restart-attempt`, which the JobSet controller writes on Jobs and pods: the set's restarts.

It includes restarts that do not count towards maxRestarts. The JobSet's status has the number of those that count; the
others were disruptions, which are a level of their own. Since JobSet 0.12 another label has the restarts of a single
Job; those of all Jobs count towards the one maxRestarts of the JobSet (pkg/constants, pkg/controllers of JobSet 0.11
and 0.12). The status is written before the Jobs of a restart are created.
Restarts before the last requested retry of the JobSet do not count.
"""

from typing import Final

from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.systems import retry_history
from webhook.systems.job.spec import JOB
from webhook.systems.job_set.spec import (
    JOB_INDEX,
    JOB_RESTART,
    REPLICATED_JOB,
    RESTART,
    costly_restarts,
    job_restarts,
    restarts_before_run,
)
from webhook.systems.pod_source import Evidence, Level, PodSource, number_at

NAME: Final = "JobSet"


def _levels(evidence: Evidence) -> list[Level]:
    """Return two levels for the restarts of the JobSet and of the pod's Job: those that cost a retry, and disruptions.

    One level if the JobSet is not known, and none if the pod has no such label or annotation.
    """
    restarts = evidence.count_in_labels(RESTART)
    if restarts is None:
        restarts = evidence.count_in_annotations(RESTART)
    if restarts is None:
        return []
    before = 0 if evidence.above is None else _restarts_before(evidence.above)
    restarts = max(0, restarts - before)
    restarts += evidence.count_in_labels(JOB_RESTART) or 0
    job_set = evidence.above
    if job_set is None:
        return [Level(NAME, restarts, evidence.settings_budget)]
    budget = number_at(job_set, ("spec", "failurePolicy", "maxRestarts")) or 0
    in_all = max(0, (number_at(job_set, ("status", "restarts")) or 0) - before)
    costly = number_at(job_set, ("status", "restartsCountTowardsMax")) or 0  # a count of 0 is left out
    alone = job_restarts(job_set, evidence.labels.get(REPLICATED_JOB) or "", evidence.count_in_labels(JOB_INDEX) or 0)
    ignored = min(max(0, in_all - costly) + max(0, alone.in_all - alone.costly), restarts)
    spent = restarts - ignored
    if spent:  # a Job that was never restarted is at its first attempt, even if other Jobs have used retries
        spent += costly_restarts(job_set) - costly - alone.costly
    return [
        Level(NAME, spent, budget),
        Level(NAME, ignored, evidence.settings.disruption_budget, of_disruptions=True),
    ]


def _restarts_before(job_set: Json) -> int:
    """Return the number of restarts up to the last requested retry, including the restart of that retry itself."""
    last = retry_history.read(at(job_set, ("metadata", "annotations", names.RETRY_HISTORY)))[-1:]
    restart = restarts_before_run(last[0].of) if last else None
    return 0 if restart is None else restart + 1


PODS: Final = (PodSource(JOB, NAME, _levels, is_of_group=True),)
