"""Finds which workload a pod is counted for, if its controller is neither a Job nor a JobSet: by its metadata alone.

A new system is a function here, a row in SYSTEMS, and a module account in its folder.
"""

import re
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple

from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.systems.argo import spec as argo
from webhook.systems.flyte import spec as flyte
from webhook.systems.kind_spec import KindSpec, OwnerReference
from webhook.systems.kubeflow import spec as kubeflow
from webhook.systems.ray import spec as ray
from webhook.systems.spark import apache_spec as apache_spark
from webhook.systems.spark import spec as spark
from webhook.systems.tekton import spec as tekton
from webhook.systems.volcano import spec as volcano

RANGE: Final = re.compile(r"(?:\A|/)(?:[0-9]+-[0-9]+|0[0-9]+)\Z")
ATTEMPT: Final = re.compile(r"\([0-9]{1,9}\)\Z")
COMBINATION: Final = re.compile(r"-(0|[1-9][0-9]{0,8})\Z")  # of a matrix, at the end of a TaskRun's name
PIPELINE_RUN: Final = "tekton.dev/pipelineRun"
PIPELINE_RUN_UID: Final = "tekton.dev/pipelineRunUID"
PIPELINE_TASK: Final = "tekton.dev/pipelineTask"
FLYTE_NODE: Final = "node-id"
AIRFLOW: Final = ("dag_id", "run_id", "task_id")  # apache-airflow-providers-cncf-kubernetes 10.25
AIRFLOW_INDEX: Final = "map_index"
AIRFLOW_EXECUTOR: Final = "kubernetes_executor"
NOT_MAPPED: Final = frozenset({"", "-1"})  # indexes of a task that is not mapped
RAY_GROUP: Final = "ray.io/group"
# What KubeRay adds to the name of a RayJob for that of a RayCluster, from 1.4 on.
OF_RAY_JOB: Final = re.compile(r"-[a-z0-9]{5}\Z")
POD: Final = ("", "Pod")
# Scopes.
HEAD: Final = "head"
DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
LONGEST_SCOPE: Final = 64  # characters: any user may write these labels and annotations
KEPT_OF_SCOPE: Final = 48  # characters of a longer scope; a digest of the whole follows them

# What is read of a pod's metadata, beside its ownerReferences.
READ: Final[dict[str, dict[str, Shape]]] = {
    "labels": dict.fromkeys(
        (
            *(PIPELINE_RUN, PIPELINE_RUN_UID, PIPELINE_TASK),
            *(kubeflow.REPLICA_TYPE, kubeflow.REPLICA_INDEX),
            *(volcano.TASK, volcano.TASK_INDEX),
            *(ray.NODE_TYPE, RAY_GROUP),
            *(spark.ROLE, spark.APPLICATION, spark.LAUNCHED, apache_spark.APPLICATION),
            *(FLYTE_NODE, *AIRFLOW, AIRFLOW_INDEX, AIRFLOW_EXECUTOR),
        ),
        str,
    ),
    "annotations": {argo.NODE_NAME: str},
}


class Elsewhere(NamedTuple):
    """What a pod without an account belongs to, in the words of its own system: for its record in history.

    `owner`: what the workload is a run of, as KIND/NAME; empty if that is not known. `uid`, `scope`: as in Place.
    """

    kind: str
    name: str
    uid: str
    scope: str
    owner: str = ""


class Place(NamedTuple):
    """The workload that a pod is counted for, and its scope there: what has budgets of its own.

    `row`: the kind of the object that has the account. `uid`: that of the object; empty if the pod does not say it.
    `scope`: such as a node of a Workflow, a task of a PipelineRun, or `worker/0`; empty if the workload has one scope.
    """

    row: KindSpec
    name: str
    uid: str
    scope: str


def place_of(metadata: Json, controller: OwnerReference | None) -> Place | None:
    """Return the place of a pod; None if its attempts are counted nowhere, or as those of a Job."""
    if controller is None or (controller.group, controller.kind) == POD:
        place = of_spark(metadata, controller)
    else:
        found = SYSTEMS.get((controller.group, controller.kind.lower()))
        place = None if found is None else found(metadata, controller)
    return None if place is None else place._replace(scope=scope_named(place.scope))


def elsewhere(metadata: Json, controller: OwnerReference | None) -> Elsewhere:
    """Return what a pod that is counted for no workload belongs to: its controller, or itself."""
    if controller is not None:
        labels = metadata.get("labels") or {}
        return Elsewhere(controller.kind, controller.name, controller.uid, labels.get(FLYTE_NODE) or "")
    return in_dag_run(metadata) or Elsewhere("Pod", metadata.get("name") or "", metadata.get("uid") or "", "")


def scope_named(text: str) -> str:
    """Return a scope as an account can hold it: short, and without commas, which separate scopes there.

    It may end in `/NUMBER`, but in no range, such as `a/1-3`, and in no `0NUMBER`.
    """
    text = text.replace(",", ";")
    if len(text) > LONGEST_SCOPE or RANGE.search(text):
        digest = blake2b(text.encode(errors="replace"), digest_size=4).hexdigest()
        text = f"{text[:KEPT_OF_SCOPE]}~{digest}"
    return text


def in_workflow(metadata: Json, controller: OwnerReference) -> Place:
    """Return the place of a pod of an Argo Workflow: the scope is its node without the number of the attempt."""
    node = (metadata.get("annotations") or {}).get(argo.NODE_NAME) or ""
    scope = ATTEMPT.sub("", node).removeprefix(controller.name).removeprefix(".")
    return Place(argo.WORKFLOW, controller.name, controller.uid, scope)


def in_task_run(metadata: Json, controller: OwnerReference) -> Place:
    """Return the place of a pod of a TaskRun: its PipelineRun, with the task as scope; the TaskRun if it has none."""
    labels = metadata.get("labels") or {}
    run, uid, task = (labels.get(key) or "" for key in (PIPELINE_RUN, PIPELINE_RUN_UID, PIPELINE_TASK))
    if not (run and uid):
        return Place(tekton.TASK_RUN, controller.name, controller.uid, "")
    return Place(tekton.PIPELINE_RUN, run, uid, scope_of_task(task, controller.name))


def scope_of_task(task: str, task_run: str) -> str:
    """Return the scope of a task of a PipelineRun, by the name of its TaskRun: TASK, or TASK/NUMBER with a matrix.

    Each combination of a matrix is a TaskRun of its own, with its number at the end of its name (getNewRunNames in
    pkg/reconciler/pipelinerun/resources of Tekton 1.9).
    """
    combination = None if task_run.endswith(f"-{task}") else COMBINATION.search(task_run)
    return task if combination is None else f"{task}/{combination[1]}"


def in_training_job(row: KindSpec, metadata: Json, controller: OwnerReference) -> Place:
    """Return the place of a pod of a job of the training operator: the scope is its replica, such as `worker/0`."""
    return Place(row, controller.name, controller.uid, joined(metadata, kubeflow.REPLICA_TYPE, kubeflow.REPLICA_INDEX))


def in_mpi_job(metadata: Json, controller: OwnerReference) -> Place | None:
    """Return the place of a worker of an MPIJob of the MPI operator: the scope is its replica, such as `worker/0`.

    The MPIJob of the training operator has another version, and no account.
    """
    if controller.version != kubeflow.MPI_JOB.read_in:
        return None
    index = (metadata.get("labels") or {}).get(kubeflow.REPLICA_INDEX) or ""
    return Place(kubeflow.MPI_JOB, controller.name, controller.uid, f"{kubeflow.WORKER}/{index}")


def in_volcano_job(metadata: Json, controller: OwnerReference) -> Place:
    """Return the place of a pod of a Volcano Job: the scope is its task and index."""
    return Place(volcano.JOB, controller.name, controller.uid, joined(metadata, volcano.TASK, volcano.TASK_INDEX))


def joined(metadata: Json, *keys: str) -> str:
    """Return the values of these labels, as a scope."""
    labels = metadata.get("labels") or {}
    return "/".join(labels.get(key) or "" for key in keys)


def in_flyte_workflow(metadata: Json, controller: OwnerReference) -> Place:
    """Return the place of a pod of a FlyteWorkflow: the scope is what Flyte calls the pod, without the attempt.

    The label of the node alone does not tell apart the nodes of sub-workflows and the elements of map tasks. A name
    that would be too long is a digest: then the scope is the label, with `/*`.
    """
    name = metadata.get("name") or ""
    prefix = f"{controller.name}-"
    node, _, attempt = name.removeprefix(prefix).rpartition("-")
    if not (name.startswith(prefix) and node and attempt.isdecimal()):
        node = f"{(metadata.get('labels') or {}).get(FLYTE_NODE) or ''}/*"
    return Place(flyte.FLYTE_WORKFLOW, controller.name, controller.uid, node)


def in_dag_run(metadata: Json) -> Elsewhere | None:
    """Return the run of a DAG, named DAG.RUN, that a pod of Airflow belongs to; None if it is none of Airflow's.

    Its scope is the task, with the index of a mapped one. A pod that a task of the KubernetesExecutor runs, and the pod
    that this task may create, are told apart.
    """
    labels = metadata.get("labels") or {}
    dag, run, task, index = (labels.get(key) or "" for key in (*AIRFLOW, AIRFLOW_INDEX))
    if not (dag and run and task):
        return None
    scope = task if AIRFLOW_EXECUTOR in labels else f"{task} (pod)"
    scope = scope_named(scope if index in NOT_MAPPED else f"{scope}/{index}")
    name = f"{dag}.{run}"
    return Elsewhere("DAGRun", name, name, scope, f"DAG/{dag}")


def in_ray_cluster(metadata: Json, controller: OwnerReference) -> Place | None:
    """Return the place of a pod of a RayCluster that a RayJob created: the scopes are `head` and `worker/GROUP`.

    The pod says nothing of the RayJob but the name of its RayCluster. Other RayClusters have no batch pods.
    """
    name = OF_RAY_JOB.sub("", controller.name)
    labels = metadata.get("labels") or {}
    scope = HEAD if labels.get(ray.NODE_TYPE) == HEAD else f"worker/{labels.get(RAY_GROUP) or ''}"
    return None if name == controller.name else Place(ray.RAY_JOB, name, "", scope)


def in_spark_application(metadata: Json, controller: OwnerReference) -> Place:
    """Return the place of a driver that its SparkApplication controls."""
    return Place(spark.SPARK_APPLICATION, controller.name, controller.uid, role_of(metadata.get("labels") or {}))


def of_spark(metadata: Json, controller: OwnerReference | None) -> Place | None:
    """Return the place of a driver without a controller, or of an executor, which its driver controls.

    The drivers of spark-operator have a controller only if its webhook runs, those of Apache's operator never.
    """
    labels = metadata.get("labels") or {}
    application = spark.application_of(labels)
    if application is not None:
        return Place(spark.SPARK_APPLICATION, application.name, "", role_of(labels))
    name = labels.get(apache_spark.APPLICATION)
    if not name:
        return None
    owner = apache_spark.application_of({"metadata": metadata}) if controller is None else None
    uid = owner.uid if owner is not None and owner.name == name else ""
    return Place(apache_spark.SPARK_APPLICATION, name, uid, role_of(labels))


def role_of(labels: Json) -> str:
    """Return the scope of a pod of Spark."""
    return EXECUTOR if labels.get(spark.ROLE) == EXECUTOR else DRIVER


# By group and kind of the controller, the kind in lower case.
SYSTEMS: Final[dict[tuple[str, str], Callable[[Json, OwnerReference], Place | None]]] = {
    (argo.GROUP, "workflow"): in_workflow,
    (tekton.GROUP, "taskrun"): in_task_run,
    **{(kubeflow.GROUP, kind.lower()): partial(in_training_job, row) for kind, row in kubeflow.TRAINING.items()},
    (kubeflow.GROUP, "mpijob"): in_mpi_job,
    (volcano.GROUP, "job"): in_volcano_job,
    (flyte.FLYTE_WORKFLOW.group, "flyteworkflow"): in_flyte_workflow,
    (ray.GROUP, "raycluster"): in_ray_cluster,
    (spark.GROUP, "sparkapplication"): in_spark_application,
}
