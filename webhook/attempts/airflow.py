"""The label that Airflow writes on the pods of its tasks: which try this is, 1 first.

With it goes a label that says who made the pod (apache-airflow-providers-cncf-kubernetes 10.25). How many tries a task
has, no pod tells.
"""

from typing import Final

from webhook.attempts.level import Evidence, Level
from webhook.objects.problem import Json

NAME: Final = "Airflow"
TRY_NUMBER: Final = "try_number"
MAKERS: Final = ("kubernetes_executor", "kubernetes_pod_operator", "spark_kubernetes_operator")


def is_task(labels: Json) -> bool:
    """Tell whether labels are those of a pod that Airflow made."""
    return TRY_NUMBER in labels and any(maker in labels for maker in MAKERS)


def levels(evidence: Evidence) -> list[Level]:
    """Read the label."""
    if not is_task(evidence.labels):
        return []
    number = evidence.count_in_labels(TRY_NUMBER)
    if number == 0:
        evidence.warn(("metadata", "labels", TRY_NUMBER), number)
    return [Level(NAME, number - 1, evidence.said_budget)] if number else []
