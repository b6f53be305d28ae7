"""Reads from the API what `explain` needs: a workload, its Jobs or TaskRuns, their pods, and Events."""

from http import HTTPStatus
from operator import itemgetter
from typing import Final

from webhook.explain.build import EVENT
from webhook.explain.build_cron_job import MOST_JOBS, is_controlled_by
from webhook.explain.pending import FAILED_CREATE
from webhook.kinds import KindSpec, batch, core, tekton
from webhook.kinds.job_set import JOB_SET, SET_NAME
from webhook.kinds.kind_spec import controller_of
from webhook.kube.client import METADATA_ONLY_LIST, Api, ApiError
from webhook.kube.paths import path_of
from webhook.ledger.model.pods import READ as POD_READ
from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.retry.kinds import pipeline_run
from webhook.retry.reading import children_of

POD: Final = type_of(POD_READ)


async def load(api: Api, row: KindSpec, root: Json) -> tuple[Json, list[Json], list[Json]]:
    """Return a workload, its Jobs or TaskRuns, and their pods and the Events about refused pods.

    For a Job of a JobSet, return the JobSet with all its Jobs. For a CronJob, return its last Jobs without their pods.
    Raise what `Api` raises.
    """
    namespace, name = root["metadata"]["namespace"], root["metadata"]["name"]
    if row is batch.CRON_JOB:
        return root, await jobs_of(api, root), []
    if row is tekton.PIPELINE_RUN:
        children = list(await children_of(api, pipeline_run.ADAPTER, root))
        return root, children, await pods(api, namespace, f"{pipeline_run.LABEL}={name}")
    if row is batch.JOB:
        job_set = await job_set_of(api, root)
        if job_set is None:
            return root, [root], await parts(api, namespace, f"{batch.JOB_NAME}={name}")
        root = job_set
    selector = f"{SET_NAME}={root['metadata']['name']}"
    jobs = [
        {**one, "apiVersion": "batch/v1", "kind": batch.JOB.kind}
        async for one in api.objects(batch.JOB.path(namespace), {"labelSelector": selector})
    ]
    return root, jobs, await parts(api, namespace, selector)


async def jobs_of(api: Api, cron_job: Json) -> list[Json]:
    """Return the last Jobs of a CronJob; no label names it, so the metadata of all Jobs in the namespace are read."""
    path = batch.JOB.path(cron_job["metadata"]["namespace"])
    owned = [
        one["metadata"] async for one in api.objects(path, {}, METADATA_ONLY_LIST) if is_controlled_by(one, cron_job)
    ]
    owned.sort(key=itemgetter("creationTimestamp"))
    found = [await api.find(f"{path}/{one['name']}") for one in owned[-MOST_JOBS:]]
    return [one for one in found if one is not None]


async def job_set_of(api: Api, job: Json) -> Json | None:
    """Return the JobSet that controls a Job; None if none does."""
    controller = controller_of(job)
    if controller is None or (controller.group, controller.kind) != (JOB_SET.group, JOB_SET.kind):
        return None
    return await api.find(JOB_SET.path(job["metadata"]["namespace"], controller.name))


async def pods(api: Api, namespace: str, selector: str) -> list[Json]:
    """Return the pods that a selector selects."""
    return [pod async for pod in api.objects(core.POD.path(namespace), {"labelSelector": selector}, kind=POD)]


async def parts(api: Api, namespace: str, selector: str) -> list[Json]:
    """Return the pods that a selector selects, and the Events about pods of Jobs that were refused."""
    return [*await pods(api, namespace, selector), *await refusals(api, namespace)]


async def refusals(api: Api, namespace: str) -> list[Json]:
    """Return the Events about pods of Jobs that could not be created; none if the user may not read Events."""
    query = {"fieldSelector": f"involvedObject.kind={batch.JOB.kind},reason={FAILED_CREATE}"}
    try:
        return [{**event, "kind": EVENT} async for event in api.objects(path_of("v1", "events", namespace), query)]
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return []
