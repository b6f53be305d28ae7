"""Which workload `explain` loads for an object; the rest is tested on a real API server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from tests.objects import stored_job
from webhook.explain.load import load
from webhook.kinds.batch import JOB
from webhook.kinds.job_set import JOB_SET
from webhook.kube.client import Api
from webhook.objects.problem import Json

SET: Json = {"kind": "JobSet", "metadata": {"name": "train", "namespace": "ml"}}
OWNER = {"apiVersion": JOB_SET.api_version, "kind": "JobSet", "name": "train", "uid": "u", "controller": True}


class Stored:
    """An API with one JobSet, or none, and one Job."""

    def __init__(self, job_set: Json | None) -> None:
        self.job_set = job_set

    async def find(self, path: str) -> Json | None:
        assert path == JOB_SET.path("ml", "train")
        return self.job_set

    async def objects(self, path: str, query: dict[str, str], **_: Any) -> AsyncIterator[Json]:
        if path == JOB.path("ml"):
            yield {"metadata": {"name": query["labelSelector"]}}


def loaded(job_set: Json | None, job: Json) -> tuple[Json, list[Json], list[Json]]:
    return asyncio.run(load(cast("Api", Stored(job_set)), JOB, job))


def test_for_a_job_of_a_job_set_the_job_set_is_loaded_with_all_of_its_jobs() -> None:
    root, jobs, _ = loaded(SET, stored_job(ownerReferences=[OWNER]))
    assert root == SET
    assert [loaded_job["metadata"]["name"] for loaded_job in jobs] == ["jobset.sigs.k8s.io/jobset-name=train"]


def test_a_job_whose_job_set_was_deleted_is_loaded_alone() -> None:
    job = stored_job(ownerReferences=[OWNER])
    assert loaded(None, job)[:2] == (job, [job])
