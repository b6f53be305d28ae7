"""The status of the SparkApplication of Apache Spark's own operator that a driver belongs to.

It names the next attempt before its driver is made (spark-operator of spark-kubernetes-operator 1.0.0).
"""

from typing import Final

from webhook.attempts.level import Evidence, Level, number_at
from webhook.kinds.apache_spark import DEFAULT_RESTARTS, POLICY
from webhook.objects.patch import at

NAME: Final = "ApacheSpark"
ATTEMPT: Final = ("status", "currentAttemptSummary", "attemptInfo")
CONFIG: Final = ("spec", "applicationTolerations", "restartConfig")


def levels(evidence: Evidence) -> list[Level]:
    """Count the attempts before this one; an operator before 1.0 numbers them alone."""
    if evidence.owner is None:
        return []
    restarts = number_at(evidence.owner, (*ATTEMPT, "restartCounter"))
    attempt = number_at(evidence.owner, (*ATTEMPT, "id")) if restarts is None else restarts
    return [Level(NAME, attempt or 0, budget_of(evidence))]


def budget_of(evidence: Evidence) -> int:
    """Return how many restarts the application allows."""
    if at(evidence.owner, (*CONFIG, POLICY)) in {None, "Never"}:
        return 0
    restarts = number_at(evidence.owner, (*CONFIG, "maxRestartAttempts"))
    return DEFAULT_RESTARTS if restarts is None else restarts
