"""The status of the SparkApplication (sparkoperator.k8s.io) of a driver or executor.

`status.executionAttempts` is incremented once the driver of a run exists. So it includes the run of a pod whose
submission the status names, and else only earlier runs (internal/controller/sparkapplication of spark-operator 2.4).
"""

from typing import Final

from webhook.objects.patch import at
from webhook.systems.level import Evidence, Level, number_at
from webhook.systems.spark.spec import SUBMISSION

NAME: Final = "Spark"
NOT_SUBMITTED: Final = "SUBMISSION_FAILED"


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the runs before the pod's run."""
    application = evidence.owner
    if application is None:
        return []
    runs = number_at(application, ("status", "executionAttempts")) or 0
    state = at(application, ("status", "applicationState", "state"))
    submission = evidence.labels.get(SUBMISSION)
    if submission is not None and submission == at(application, ("status", "submissionID")) and state != NOT_SUBMITTED:
        runs = max(0, runs - 1)
    retries = number_at(application, ("spec", "restartPolicy", "onFailureRetries"))
    counts = at(application, ("spec", "restartPolicy", "type")) == "OnFailure"
    return [Level(NAME, runs, (retries or 0) if counts else 0)]
