"""Reads from the API what `explain` tells of: a workload, its Jobs and their pods."""

from typing import Final

from webhook.problem import Json
from webhook.server.api import Api
from webhook.workloads import batch
from webhook.workloads.job_set import JOB_SET
from webhook.workloads.row import controller_of

SET_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
JOB_LABEL: Final = "batch.kubernetes.io/job-name"


class NoSuchWorkloadError(Exception):
    """There is neither a Job nor a JobSet of that name."""


async def fetch(kubeconfig: str | None, namespace: str, name: str) -> tuple[Json, list[Json], list[Json]]:
    """Return a JobSet or a Job, its Jobs, and their pods; of a Job that a JobSet owns, the JobSet's.

    Raises NoSuchWorkloadError, and what `Api` raises.
    """
    async with await Api.connect(kubeconfig) as api:
        job = await api.find(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
        controller = None if job is None else controller_of(job)
        set_name = name if job is None else None
        if controller is not None and (controller.group, controller.kind) == (JOB_SET.group, JOB_SET.kind):
            set_name = controller.name
        if job is not None and set_name is None:
            return job, [job], await pods(api, namespace, f"{JOB_LABEL}={name}")
        job_set = await api.find(
            f"/apis/{JOB_SET.group}/{JOB_SET.versions[0]}/namespaces/{namespace}/jobsets/{set_name}"
        )
        if job_set is None:
            raise NoSuchWorkloadError(f"no Job and no JobSet {namespace}/{name}")
        selector = {"labelSelector": f"{SET_LABEL}={set_name}"}
        jobs = [
            {**one, "apiVersion": "batch/v1", "kind": batch.JOB.kind}
            async for page in api.pages(f"/apis/batch/v1/namespaces/{namespace}/jobs", selector, "application/json")
            for one in page["items"]
        ]
        return job_set, jobs, await pods(api, namespace, f"{SET_LABEL}={set_name}")


async def pods(api: Api, namespace: str, selector: str) -> list[Json]:
    """Return the pods that a selector selects."""
    pages = api.pages(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector}, "application/json")
    return [pod async for page in pages for pod in page["items"]]
