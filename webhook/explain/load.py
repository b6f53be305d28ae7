"""Reads from the API what `explain` needs: a workload, its Jobs or TaskRuns, their pods, and Events.

Of pods only the fields that the ledger knows are decoded, page by page.
"""

from http import HTTPStatus
from itertools import islice
from operator import itemgetter
from typing import Final

from webhook.capacity.recognition import NodeFacts, facts_of
from webhook.explain.build import is_counted_for
from webhook.explain.build_cron_job import MOST_JOBS, is_controlled_by
from webhook.explain.pending import FAILED_CREATE, omits_succeeded
from webhook.explain.standings import EVENT
from webhook.kube import names
from webhook.kube.client import METADATA_ONLY_LIST, Api, ApiError
from webhook.kube.paths import path_of
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.pods.pods import READ as POD_READ
from webhook.retry.reading import children_of
from webhook.systems import account_object as account
from webhook.systems import core
from webhook.systems.accounts import WITHOUT_JOBS
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set.spec import JOB_SET, SET_NAME
from webhook.systems.kind_spec import KindSpec, controller_of
from webhook.systems.tekton import rerun as pipeline_run
from webhook.systems.tekton import spec as tekton

POD: Final = type_of(POD_READ)
EVERY: Final[dict[str, str]] = {}
NOT_SUCCEEDED: Final = {"fieldSelector": "status.phase!=Succeeded"}
MOST_NODES: Final = 60  # that are read, one by one
# Kinds whose objects may be parts of a workload of another kind.
ABOVE: Final[dict[KindSpec, KindSpec]] = {batch.JOB: JOB_SET, tekton.TASK_RUN: tekton.PIPELINE_RUN}
# The label by which a system names the workload on its pods, if a namespace may have thousands of other pods.
LABELS: Final[dict[KindSpec, str]] = {
    argo.WORKFLOW: "workflows.argoproj.io/workflow",
    tekton.TASK_RUN: "tekton.dev/taskRun",
}


async def load(
    api: Api, kind: KindSpec, root: Json, left_out: LeftOut = RAISING
) -> tuple[KindSpec, Json, list[Json], list[Json]]:
    """Return a workload, its kind, its Jobs or TaskRuns, and their pods, Events about refused pods, and its Account.

    For a Job of a JobSet, return the JobSet with all its Jobs; for a TaskRun of a PipelineRun, the PipelineRun. For a
    CronJob, return its last Jobs and their Accounts, without their pods. Raise what `Api` raises.
    """
    namespace = root["metadata"]["namespace"]
    above = await _above_of(api, kind, root)
    if above is not None:
        kind, root = above
    if kind is CRON_JOB:
        jobs = await _jobs_of(api, root, left_out)
        return kind, root, jobs, [one for job in jobs for one in await _accounts_of(api, batch.JOB, job)]
    name, accounts = root["metadata"]["name"], await _accounts_of(api, kind, root)
    if kind is tekton.PIPELINE_RUN:
        children = list(await children_of(api, pipeline_run.ADAPTER, root))
        return kind, root, children, [*await _pods(api, namespace, f"{pipeline_run.LABEL}={name}"), *accounts]
    if kind in WITHOUT_JOBS:
        return kind, root, [], [*await _pods_of(api, kind, root, left_out), *accounts]
    if kind is batch.JOB:
        unread = NOT_SUCCEEDED if omits_succeeded(root) else {}
        return kind, root, [root], [*await _parts(api, namespace, f"{batch.JOB_NAME}={name}", unread), *accounts]
    selector = f"{SET_NAME}={name}"
    jobs = [
        {**one, "apiVersion": "batch/v1", "kind": batch.JOB.kind}
        async for one in api.objects(batch.JOB.path(namespace), {"labelSelector": selector})
    ]
    return kind, root, jobs, [*await _parts(api, namespace, selector), *accounts]


async def nodes_of(api: Api, parts: list[Json]) -> dict[str, NodeFacts]:
    """Return the nodes of pods, and of the attempts in an Account, by name, as far as they exist.

    None of them if the user may not read nodes. Raise what `Api` raises.
    """
    names_of_nodes = [at(one, ("spec", "nodeName")) for one in parts]
    names_of_nodes += [detail.get("node") for one in parts for detail in at(one, ("status", "last")) or ()]
    found: dict[str, NodeFacts] = {}
    for name in islice(dict.fromkeys(filter(None, names_of_nodes)), MOST_NODES):
        try:
            node = await api.find(path_of("v1", "nodes", name=name))
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return {}
        if node is not None:
            found[name] = facts_of(node)
    return found


async def _accounts_of(api: Api, kind: KindSpec, root: Json) -> list[Json]:
    found = await api.find(account.path_of(kind, root))
    return [] if found is None else [found]


async def _jobs_of(api: Api, cron_job: Json, left_out: LeftOut) -> list[Json]:
    """Return the last Jobs of a CronJob; no label names it, so the metadata of all Jobs in the namespace are read."""
    path = batch.JOB.path(cron_job["metadata"]["namespace"])
    owned: list[Json] = []
    async for one in api.objects(path, {}, METADATA_ONLY_LIST):
        with left_out.around(batch.JOB.kind, one):
            owned += [one["metadata"]] if is_controlled_by(one, cron_job) else []
    owned.sort(key=itemgetter("creationTimestamp"))
    found = [await api.find(f"{path}/{one['name']}") for one in owned[-MOST_JOBS:]]
    return [one for one in found if one is not None]


async def _above_of(api: Api, kind: KindSpec, root: Json) -> tuple[KindSpec, Json] | None:
    """Return the workload that an object is a part of, with its kind; None if it is none, or that is gone."""
    above, controller = ABOVE.get(kind), controller_of(root)
    if above is None or controller is None or (controller.group, controller.kind) != (above.group, above.kind):
        return None
    found = await api.find(above.path(root["metadata"]["namespace"], controller.name))
    return None if found is None else (above, found)


async def _pods(api: Api, namespace: str, selector: str, fields: dict[str, str] = EVERY) -> list[Json]:
    """Return the pods that selectors select: of their labels, and of fields, as a part of the query."""
    query = {"labelSelector": selector, **fields}
    return [pod async for pod in api.objects(core.POD.path(namespace), query, kind=POD)]


async def _pods_of(api: Api, kind: KindSpec, root: Json, left_out: LeftOut) -> list[Json]:
    """Return the pods that are counted for a workload of another kind than Job.

    Where no label of its system names it, all pods of the namespace that admission has labelled are read.
    """
    metadata = root["metadata"]
    label = LABELS.get(kind)
    query = {"labelSelector": names.PROFILE if label is None else f"{names.PROFILE},{label}={metadata['name']}"}
    found: list[Json] = []
    async for pod in api.objects(core.POD.path(metadata["namespace"]), query, kind=POD):
        with left_out.around(core.POD.kind, pod):
            found += [pod] if is_counted_for(pod, kind, root) else []
    return found


async def _parts(api: Api, namespace: str, selector: str, fields: dict[str, str] = EVERY) -> list[Json]:
    """Return the pods as `_pods`, and the Events about pods of Jobs that were refused."""
    return [*await _pods(api, namespace, selector, fields), *await _refusals(api, namespace)]


async def _refusals(api: Api, namespace: str) -> list[Json]:
    """Return the Events about pods of Jobs that could not be created; none if the user may not read Events."""
    query = {"fieldSelector": f"involvedObject.kind={batch.JOB.kind},reason={FAILED_CREATE}"}
    try:
        return [{**event, "kind": EVENT} async for event in api.objects(path_of("v1", "events", namespace), query)]
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return []
