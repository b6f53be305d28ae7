"""Which workload, and which of its pods, `explain` loads for an object; the rest is tested on a real API server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from tests.objects import stored_job
from tests.unit.explain.workflows import pod, workflow
from webhook.explain.load import LABELS, load
from webhook.kube.client import Api
from webhook.objects.problem import Json
from webhook.systems import core
from webhook.systems.account_object import ACCOUNT, path_of
from webhook.systems.argo import spec as argo
from webhook.systems.job.spec import JOB
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.tekton import spec as tekton

SET: Json = {"kind": "JobSet", "metadata": {"name": "train", "namespace": "ml", "uid": "u"}}
OWNER = {"apiVersion": JOB_SET.api_version, "kind": "JobSet", "name": "train", "uid": "u", "controller": True}


class Stored:
    """An API with one JobSet, or none, and one Job; with an Account of each workload."""

    def __init__(self, job_set: Json | None) -> None:
        self.job_set = job_set

    async def find(self, path: str) -> Json | None:
        if path.startswith(ACCOUNT.path("ml")):
            return {"kind": ACCOUNT.kind, "path": path}
        assert path == JOB_SET.path("ml", "train")
        return self.job_set

    async def objects(self, path: str, query: dict[str, str], **_: Any) -> AsyncIterator[Json]:
        if path == JOB.path("ml"):
            yield {"metadata": {"name": query["labelSelector"]}}


def loaded(job_set: Json | None, job: Json) -> tuple[Json, list[Json], list[Json]]:
    return asyncio.run(load(cast("Api", Stored(job_set)), JOB, job))[1:]


def test_for_a_job_of_a_job_set_the_job_set_is_loaded_with_all_of_its_jobs() -> None:
    root, jobs, (account,) = loaded(SET, stored_job(ownerReferences=[OWNER]))
    assert (root, account["path"]) == (SET, path_of(JOB_SET, SET))
    assert [loaded_job["metadata"]["name"] for loaded_job in jobs] == ["jobset.sigs.k8s.io/jobset-name=train"]


def test_a_job_whose_job_set_was_deleted_is_loaded_alone() -> None:
    job = stored_job(ownerReferences=[OWNER])
    assert loaded(None, job)[:2] == (job, [job])


class Listed:
    """An API with pods, and perhaps a PipelineRun; `queries`: what was asked of which list."""

    def __init__(self, *pods: Json) -> None:
        self.pods = pods
        self.queries: dict[str, dict[str, str]] = {}

    async def find(self, path: str) -> Json | None:
        if path.startswith(ACCOUNT.path("ml")):
            return None
        return {"kind": "PipelineRun", "metadata": {"name": path.rpartition("/")[2], "namespace": "ml", "uid": "u"}}

    async def objects(self, path: str, query: dict[str, str], **_: Any) -> AsyncIterator[Json]:
        self.queries[path] = query
        if path == core.POD.path("ml"):
            for one in self.pods:
                yield one


def test_the_pods_of_a_workflow_are_asked_for_by_its_name_and_kept_if_they_are_its_own() -> None:
    earlier = pod("build")
    earlier["metadata"]["ownerReferences"] = [{**earlier["metadata"]["ownerReferences"][0], "uid": "earlier"}]
    api, root = Listed(pod("build"), earlier, pod("test")), workflow()
    row, loaded_root, parts, found = asyncio.run(load(cast("Api", api), argo.WORKFLOW, root))
    assert (row, loaded_root, parts) == (argo.WORKFLOW, root, [])
    assert [one["metadata"]["name"] for one in found] == ["train-build-0", "train-test-0"]
    assert api.queries == {
        "/api/v1/namespaces/ml/pods": {"labelSelector": "retry-policy.dev/profile,workflows.argoproj.io/workflow=train"}
    }


def test_without_a_label_of_its_system_all_pods_that_admission_has_labelled_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(cast("dict[KindSpec, str | None]", LABELS), argo.WORKFLOW, None)
    api = Listed(pod("build"))
    found = asyncio.run(load(cast("Api", api), argo.WORKFLOW, workflow()))[3]
    assert len(found) == 1
    assert [*api.queries.values()] == [{"labelSelector": "retry-policy.dev/profile"}]


def test_for_a_task_run_of_a_pipeline_run_the_pipeline_run_is_loaded() -> None:
    owner = {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "name": "build", "uid": "u", "controller": True}
    task_run = {"metadata": {"name": "build-a", "namespace": "ml", "ownerReferences": [owner]}}
    row, root, *_ = asyncio.run(load(cast("Api", Listed()), tekton.TASK_RUN, task_run))
    assert (row, root["metadata"]["name"]) == (tekton.PIPELINE_RUN, "build")
