"""The label that Airflow writes on the pods of its tasks: the number of the try, from 1.

Another label names the part of Airflow that created the pod (apache-airflow-providers-cncf-kubernetes 10.25). The pod
does not contain the number of tries that the task may have.
"""

from typing import Final

from webhook.objects.problem import Json
from webhook.systems.level import Evidence, Level

NAME: Final = "Airflow"
TRY_NUMBER: Final = "try_number"
MAKERS: Final = ("kubernetes_executor", "kubernetes_pod_operator", "spark_kubernetes_operator")


def is_task(labels: Json) -> bool:
    """Return True if a pod with these labels was created by Airflow."""
    return TRY_NUMBER in labels and any(maker in labels for maker in MAKERS)


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the label."""
    if not is_task(evidence.labels):
        return []
    number = evidence.count_in_labels(TRY_NUMBER)
    if number == 0:
        evidence.warn(("metadata", "labels", TRY_NUMBER), number)
    return [Level(NAME, number - 1, evidence.settings_budget)] if number else []
