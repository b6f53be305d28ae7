"""The kinds of the run: their objects, their parts, and the pods that their controllers create.

Real controllers run Jobs, JobSets, PipelineRuns and TaskRuns. Of the others no controller runs here: the program plays
it. It creates the pod of each part with the name, labels, annotations and owner that the real controller gives it, and
the next one when it has ended. It never ends a workload, and writes no status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.cluster.manifests import job, job_set, pod, replicated_job
from webhook.objects.problem import Json
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import WORDS
from webhook.systems.kubeflow import spec as kubeflow
from webhook.systems.ray import spec as ray
from webhook.systems.spark import spec as spark
from webhook.systems.tekton import spec as tekton
from webhook.systems.volcano import spec as volcano

WORKLOAD: Final = "mixed-workload"  # label of every pod: the name of its workload
PART: Final = "mixed-part"  # label of the pods that the program creates
RETRIES: Final = 10
IMAGE: Final = "example.invalid/main"
PYTORCH: Final = next(row for row in kubeflow.KINDS if row.kind == "PyTorchJob")
CONTAINER: Final = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
TEMPLATE: Final[Json] = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a workload, of which one pod runs at a time.

    `name`: returns the name of the pod of an attempt. `labels`, `annotations`: of its pods; `{}` in an annotation
    stands for the attempt.
    """

    name: Callable[[int], str]
    labels: Json = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """A kind of the run.

    `number`: how many workloads. `pods`: those of each. `make`: returns a workload. `parts`: yields its parts; None if
    a real controller creates the pods. `owner`: returns the object that the workload creates to control its pods.
    `deletes`: whether its controller deletes a failed pod before the next one. `status`: what its controller writes
    when it has taken the workload, if the ledger needs that.
    """

    row: KindSpec
    number: int
    pods: int
    make: Callable[[str], Json]
    parts: Callable[[str], Iterator[Part]] | None = None
    owner: Callable[[Json], Json] | None = None
    deletes: bool = False
    status: Json | None = None

    @property
    def word(self) -> str:
        """The kind as the command line names it."""
        return WORDS[self.row]


def labelled(template: Json, name: str) -> Json:
    """Return a pod template with the label of its workload."""
    metadata = template.get("metadata") or {}
    return {**template, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), WORKLOAD: name}}}


def a_job(name: str) -> Json:
    found = job(name, backoffLimit=RETRIES)
    found["spec"]["template"] = labelled(found["spec"]["template"], name)
    return found


def a_job_set(name: str) -> Json:
    replicated = replicated_job("main", backoffLimit=RETRIES)
    replicated["template"]["spec"]["template"] = labelled(replicated["template"]["spec"]["template"], name)
    return job_set(name, replicated, failurePolicy={"maxRestarts": RETRIES})


def head(kind: KindSpec, name: str, **spec: Any) -> Json:
    """Return an object of a kind."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "labels": {WORKLOAD: name}},
        "spec": spec,
    }


def task(name: str) -> Json:
    return {"name": name, "retries": RETRIES, "taskSpec": {"steps": [{**CONTAINER, "command": ["main"]}]}}


def a_pipeline_run(name: str) -> Json:
    return head(tekton.PIPELINE_RUN, name, pipelineSpec={"tasks": [task("a"), task("b")]})


def a_task_run(name: str) -> Json:
    return head(tekton.TASK_RUN, name, retries=RETRIES, taskSpec=task("a")["taskSpec"])


def a_workflow(name: str) -> Json:
    template = {"name": "main", "retryStrategy": {"limit": RETRIES}, "container": CONTAINER}
    return head(argo.WORKFLOW, name, entrypoint="main", templates=[template])


def steps(name: str) -> Iterator[Part]:
    """Yield the parts of a Workflow: two steps; its controller names pods by step and attempt."""
    for step in ("build", "test"):
        yield Part(
            name=lambda attempt, step=step: f"{name}-{step}-{attempt}",  # type: ignore[misc]
            labels={"workflows.argoproj.io/workflow": name},
            annotations={"workflows.argoproj.io/node-name": f"{name}.{step}({{}})"},
        )


def a_pytorch_job(name: str) -> Json:
    replicas = {
        kind: {"replicas": number, "restartPolicy": "ExitCode", "template": TEMPLATE}
        for kind, number in (("Master", 1), ("Worker", 2))
    }
    replicas["Master"]["template"] = replicas["Worker"]["template"] = {
        "spec": {"containers": [{**CONTAINER, "name": "pytorch"}]}
    }
    return head(PYTORCH, name, runPolicy={"backoffLimit": RETRIES}, pytorchReplicaSpecs=replicas)


def replicas_of(name: str) -> Iterator[Part]:
    """Yield the parts of a PyTorchJob; a pod that is created again has the same name."""
    for kind, index in (("master", 0), ("worker", 0), ("worker", 1)):
        yield Part(
            name=lambda _, kind=kind, index=index: f"{name}-{kind}-{index}",  # type: ignore[misc]
            labels={
                "training.kubeflow.org/job-name": name,
                "training.kubeflow.org/operator-name": "pytorchjob-controller",
                "training.kubeflow.org/replica-type": kind,
                "training.kubeflow.org/replica-index": str(index),
            },
        )


def a_ray_job(name: str) -> Json:
    template = {"spec": {"containers": [{**CONTAINER, "name": "ray"}]}}
    group = {"groupName": "small", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "rayStartParams": {}}
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": template},
        "workerGroupSpecs": [{**group, "template": template}],
    }
    return head(ray.RAY_JOB, name, entrypoint="main", backoffLimit=RETRIES, rayClusterSpec=cluster)


def ray_cluster(root: Json) -> Json:
    """Return the RayCluster of a RayJob."""
    metadata = root["metadata"]
    owner = {"apiVersion": root["apiVersion"], "kind": root["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    found = head(ray.RAY_CLUSTER, f"{metadata['name']}-abcde", **root["spec"]["rayClusterSpec"])
    found["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    found["metadata"]["labels"]["ray.io/originated-from-cr-name"] = metadata["name"]
    return found


def nodes_of_ray(name: str) -> Iterator[Part]:
    """Yield the parts of a RayCluster; its controller gives its pods random names."""
    for node, group, suffix in (("head", "headgroup", "head"), ("worker", "small", "w0"), ("worker", "small", "w1")):
        yield Part(
            name=lambda attempt, suffix=suffix: f"{name}-abcde-{suffix}-{attempt}",  # type: ignore[misc]
            labels={
                "ray.io/cluster": f"{name}-abcde",
                "ray.io/node-type": node,
                "ray.io/group": group,
                "ray.io/is-ray-node": "yes",
            },
        )


def a_spark_application(name: str) -> Json:
    return head(
        spark.SPARK_APPLICATION,
        name,
        type="Python",
        mode="cluster",
        sparkVersion="3.5.0",
        image=IMAGE,
        mainApplicationFile="local:///main.py",
        restartPolicy={"type": "OnFailure", "onFailureRetries": RETRIES, "onFailureRetryInterval": 5},
        driver={"cores": 1},
        executor={"instances": 2, "cores": 1},
    )


def roles_of(name: str) -> Iterator[Part]:
    """Yield the parts of a SparkApplication; its driver has the same name in each run."""
    for role, suffix in (("driver", "driver"), ("executor", "exec-1"), ("executor", "exec-2")):
        again = suffix == "driver"
        yield Part(
            name=lambda attempt, suffix=suffix, again=again: (  # type: ignore[misc]
                f"{name}-{suffix}" if again else f"{name}-{suffix}-{attempt}"
            ),
            labels={
                "sparkoperator.k8s.io/app-name": name,
                "sparkoperator.k8s.io/launched-by-spark-operator": "true",
                "sparkoperator.k8s.io/submission-id": f"submission-{name}",
                "spark-role": role,
            },
        )


def a_volcano_job(name: str) -> Json:
    tasks = [{"name": "work", "replicas": 2, "template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}]
    return head(volcano.JOB, name, minAvailable=2, schedulerName="default-scheduler", maxRetry=RETRIES + 1, tasks=tasks)


def tasks_of(name: str) -> Iterator[Part]:
    """Yield the parts of a Volcano Job; a pod that is created again has the same name."""
    for index in range(2):
        yield Part(
            name=lambda _, index=index: f"{name}-work-{index}",  # type: ignore[misc]
            labels={"volcano.sh/job-name": name, "volcano.sh/task-spec": "work", "volcano.sh/task-index": str(index)},
            annotations={
                "volcano.sh/job-name": name,
                "volcano.sh/task-spec": "work",
                "volcano.sh/task-index": str(index),
                "volcano.sh/job-retry-count": "0",
            },
        )


def pod_of(part: Part, workload: str, number: int, attempt: int, owner: Json) -> Json:
    """Return the pod of an attempt; `owner`: the object that controls it; `number`: that of the part."""
    annotations = {key: text.format(attempt) for key, text in part.annotations.items()}
    made: Json = pod(part.name(attempt), annotations)
    metadata = owner["metadata"]
    controller = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    made["metadata"]["ownerReferences"] = [{**controller, "uid": metadata["uid"], "controller": True}]
    made["metadata"]["labels"] = {**part.labels, WORKLOAD: workload, PART: str(number)}
    made["spec"]["containers"] = [CONTAINER]
    return made


MADE: Final = (ray.RAY_CLUSTER,)  # the kinds of objects that workloads create to control their pods
# One thousand pods.
ALL: Final = (
    Mixed(row=batch.JOB, number=150, pods=1, make=a_job),
    Mixed(row=JOB_SET, number=50, pods=1, make=a_job_set),
    Mixed(row=argo.WORKFLOW, number=115, pods=2, make=a_workflow, parts=steps),
    Mixed(row=tekton.PIPELINE_RUN, number=40, pods=2, make=a_pipeline_run),
    Mixed(row=tekton.TASK_RUN, number=40, pods=1, make=a_task_run),
    Mixed(row=PYTORCH, number=50, pods=3, make=a_pytorch_job, parts=replicas_of, deletes=True),
    Mixed(row=ray.RAY_JOB, number=30, pods=3, make=a_ray_job, parts=nodes_of_ray, owner=ray_cluster, deletes=True),
    Mixed(
        row=spark.SPARK_APPLICATION,
        number=30,
        pods=3,
        make=a_spark_application,
        parts=roles_of,
        deletes=True,
        status={"applicationState": {"state": "RUNNING"}, "driverInfo": {}},  # no account is written before
    ),
    Mixed(row=volcano.JOB, number=60, pods=2, make=a_volcano_job, parts=tasks_of, deletes=True),
)
