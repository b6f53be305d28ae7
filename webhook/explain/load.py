"""Reads from the API what `explain` tells of: a workload, its Jobs or TaskRuns, and their pods."""

from http import HTTPStatus
from typing import Final

from webhook.kinds import batch, core, tekton
from webhook.kinds.job_set import JOB_SET, SET_NAME
from webhook.kinds.kind_spec import controller_of
from webhook.kube.client import Api, ApiError
from webhook.kube.paths import is_name
from webhook.ledger.model.pods import READ as POD_READ
from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.retry.kinds import pipeline_run
from webhook.retry.reading import children_of

POD: Final = type_of(POD_READ)
NOTHING: Final = "no Job, no JobSet and no PipelineRun"


class NoSuchWorkloadError(Exception):
    """There is neither a Job nor a JobSet nor a PipelineRun of that name."""


async def fetch(kubeconfig: str | None, namespace: str, name: str) -> tuple[Json, list[Json], list[Json]]:
    """Return a JobSet, a Job or a PipelineRun, its Jobs or TaskRuns, and their pods.

    Of a Job that a JobSet owns, the JobSet's.

    Raises NoSuchWorkloadError, and what `Api` raises.
    """
    async with await Api.connect(kubeconfig) as api:
        if not all(map(is_name, (namespace, name))):
            raise NoSuchWorkloadError(f"{NOTHING} {namespace}/{name}; list them with kubectl get -n {namespace} jobs")
        job = await api.find(batch.JOB.path(namespace, name))
        controller = None if job is None else controller_of(job)
        set_name = name if job is None else None
        if controller is not None and (controller.group, controller.kind) == (JOB_SET.group, JOB_SET.kind):
            set_name = controller.name
        if job is not None and set_name is None:
            return job, [job], await pods(api, namespace, f"{batch.JOB_NAME}={name}")
        job_set = await api.find(JOB_SET.path(namespace, set_name or name))
        if job_set is None:
            return await fetch_pipeline_run(api, namespace, name)
        selector = {"labelSelector": f"{SET_NAME}={set_name}"}
        jobs = [
            {**one, "apiVersion": "batch/v1", "kind": batch.JOB.kind}
            async for one in api.objects(batch.JOB.path(namespace), selector)
        ]
        return job_set, jobs, await pods(api, namespace, f"{SET_NAME}={set_name}")


async def fetch_pipeline_run(api: Api, namespace: str, name: str) -> tuple[Json, list[Json], list[Json]]:
    """Return a PipelineRun, what runs its tasks, and their pods; raise as above."""
    run = None
    try:
        run = await api.find(tekton.PIPELINE_RUN.path(namespace, name))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:  # who may not read any has none
            raise
    if run is None:
        raise NoSuchWorkloadError(f"{NOTHING} {namespace}/{name}; list them with kubectl get -n {namespace} jobs")
    return (
        run,
        list(await children_of(api, pipeline_run.ADAPTER, run)),
        await pods(api, namespace, f"{pipeline_run.LABEL}={name}"),
    )


async def pods(api: Api, namespace: str, selector: str) -> list[Json]:
    """Return the pods that a selector selects."""
    return [pod async for pod in api.objects(core.POD.path(namespace), {"labelSelector": selector}, kind=POD)]
