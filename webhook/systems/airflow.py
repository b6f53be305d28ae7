"""Airflow: a label on the pods of its tasks has the number of the try, from 1. Other labels name the run of a DAG.

Another label names the part of Airflow that created the pod (apache-airflow-providers-cncf-kubernetes 10.25). The pod
does not contain the number of tries that the task may have.
"""

from typing import Final

from webhook.objects.problem import Json
from webhook.systems.pod_source import ANY, Evidence, Level, PodSource

PARTS: Final = ("pods",)
NAME: Final = "Airflow"
TRY_NUMBER: Final = "try_number"
EXECUTOR: Final = "kubernetes_executor"
RUN: Final = ("dag_id", "run_id", "task_id")
INDEX: Final = "map_index"
LABELS: Final = (*RUN, INDEX, EXECUTOR)
NOT_MAPPED: Final = frozenset({"", "-1"})  # indexes of a task that is not mapped
MAKERS: Final = (EXECUTOR, "kubernetes_pod_operator", "spark_kubernetes_operator")


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


def in_dag_run(metadata: Json) -> tuple[str, str, str] | None:
    """Return the DAG, the run and the scope of a pod of Airflow; None if it is none of Airflow's.

    The scope is the task, with the index of a mapped one. A pod that a task of the KubernetesExecutor runs, and the pod
    that this task may create, are told apart.
    """
    labels = metadata.get("labels") or {}
    dag, run, task, index = (labels.get(key) or "" for key in (*RUN, INDEX))
    if not (dag and run and task):
        return None
    scope = task if EXECUTOR in labels else f"{task} (pod)"
    return dag, run, scope if index in NOT_MAPPED else f"{scope}/{index}"


PODS: Final = (PodSource(ANY, NAME, levels),)
