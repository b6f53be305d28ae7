"""Says which kinds `explain` explains, and what to explain instead of an object that has no attempts. Pure."""

from typing import Final

from webhook.objects.problem import Problem
from webhook.systems import app_wrapper, core
from webhook.systems.accounts import WITHOUT_JOBS
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS, WORDS
from webhook.systems.ray import spec as ray
from webhook.systems.spark import spec as spark
from webhook.systems.tekton import spec as tekton
from webhook.systems.trainer import spec as trainer
from webhook.systems.volcano import spec as volcano

ROOTS: Final = (batch.JOB, JOB_SET, CRON_JOB, *WITHOUT_JOBS)
# Templates and schedules, and what is made from them: that has attempts.
MADE: Final[dict[KindSpec, KindSpec]] = {
    tekton.TASK: tekton.TASK_RUN,
    tekton.PIPELINE: tekton.PIPELINE_RUN,
    tekton.TRIGGER_TEMPLATE: tekton.PIPELINE_RUN,
    argo.WORKFLOW_TEMPLATE: argo.WORKFLOW,
    argo.CLUSTER_WORKFLOW_TEMPLATE: argo.WORKFLOW,
    argo.CRON_WORKFLOW: argo.WORKFLOW,
    trainer.TRAIN_JOB: JOB_SET,
    trainer.TRAINING_RUNTIME: JOB_SET,
    trainer.CLUSTER_TRAINING_RUNTIME: JOB_SET,
    ray.RAY_CRON_JOB: ray.RAY_JOB,
    spark.SCHEDULED_SPARK_APPLICATION: spark.SPARK_APPLICATION,
    volcano.CRON_JOB: volcano.JOB,
    volcano.JOB_TEMPLATE: volcano.JOB,
}
# Objects that are made for a workload, and the workload.
MAKERS: Final[dict[KindSpec, KindSpec]] = {tekton.CUSTOM_RUN: tekton.PIPELINE_RUN, ray.RAY_CLUSTER: ray.RAY_JOB}
# Kinds that `explain` knows by name, and does not explain.
OTHERS: Final = tuple(kind for kind in KINDS.values() if kind not in ROOTS and kind is not core.POD)


def instead(kind: KindSpec, namespace: str, name: str) -> Problem:
    """Return why an object of a kind in OTHERS is not explained, and what to do."""
    what = f"{kind.kind} {name} has no attempts of its own"
    if kind is app_wrapper.APP_WRAPPER:
        return Problem((), what, "explain the workload in it")
    related = MADE.get(kind) or MAKERS.get(kind)
    if related in ROOTS:
        which = f"the {related.kind} that it belongs to" if kind in MAKERS else f"a {related.kind} that is made from it"
        command = f"retry-policy explain {namespace}/{WORDS[related]}/NAME"
        list_them = f"kubectl get -n {namespace} {related.resource}.{related.group}"
        return Problem((), what, f"explain {which}: {command}; list them: {list_them}")
    counted = related or kind
    what = f"the attempts of a {counted.kind} are not counted"
    return Problem((), what, f"see how its pods ended: kubectl get pods -n {namespace}")
