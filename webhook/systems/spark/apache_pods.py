"""The status of the SparkApplication (spark.apache.org) of a driver pod.

The operator writes the next attempt before it creates its driver (spark-operator of spark-kubernetes-operator 1.0.0).
"""

from typing import Final

from webhook.objects.patch import at
from webhook.systems.level import Evidence, Level, number_at
from webhook.systems.spark.apache_spec import DEFAULT_RESTARTS, POLICY

NAME: Final = "ApacheSpark"
ATTEMPT: Final = ("status", "currentAttemptSummary", "attemptInfo")
CONFIG: Final = ("spec", "applicationTolerations", "restartConfig")


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the application; operators before 1.0 write the number of the attempt, and no restarts."""
    if evidence.owner is None:
        return []
    restarts = number_at(evidence.owner, (*ATTEMPT, "restartCounter"))
    attempt = number_at(evidence.owner, (*ATTEMPT, "id")) if restarts is None else restarts
    return [Level(NAME, attempt or 0, budget_of(evidence))]


def budget_of(evidence: Evidence) -> int:
    """Return the number of restarts that the application allows."""
    if at(evidence.owner, (*CONFIG, POLICY)) in {None, "Never"}:
        return 0
    restarts = number_at(evidence.owner, (*CONFIG, "maxRestartAttempts"))
    return DEFAULT_RESTARTS if restarts is None else restarts
