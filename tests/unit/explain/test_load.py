"""What `explain` says where the API refuses to show, or has, nothing; all else is tested on a real API server."""

import asyncio
from typing import Any, cast

import pytest

from webhook.explain.load import NoSuchWorkloadError, fetch_pipeline_run
from webhook.kube.client import Api, ApiError


class Refusing:
    """An API that answers each look-up in one way."""

    def __init__(self, error: ApiError | None) -> None:
        self.error = error

    async def find(self, path: str) -> Any:  # noqa: ARG002 - one answer for all
        if self.error is not None:
            raise self.error


def fetch(error: ApiError | None) -> None:
    asyncio.run(fetch_pipeline_run(cast("Api", Refusing(error)), "ml", "build"))


@pytest.mark.parametrize("error", [None, ApiError(403, "pipelineruns.tekton.dev is forbidden")])
def test_where_pipeline_runs_are_absent_or_may_not_be_read_there_is_no_such_workload(error: ApiError | None) -> None:
    with pytest.raises(NoSuchWorkloadError, match="no Job, no JobSet and no PipelineRun ml/build"):
        fetch(error)


def test_another_answer_of_the_api_server_is_not_hidden() -> None:
    with pytest.raises(ApiError, match="500 etcd is away"):
        fetch(ApiError(500, "etcd is away"))
