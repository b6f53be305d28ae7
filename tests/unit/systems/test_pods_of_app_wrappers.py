"""The resets in the status of an AppWrapper, for its pods and those of its workloads."""

from functools import partial

import pytest

from tests.objects import job_spec, stored_job
from tests.unit.systems.pods import last_of_four_off_spot, made, owned, place, read
from webhook.objects.problem import Json
from webhook.systems import app_wrapper
from webhook.systems.app_wrapper import RETRY_LIMIT
from webhook.systems.pod_source import Level

ask = partial(read, of=app_wrapper.levels)

WRAPPER = owned("workload.codeflare.dev/v1beta2", "AppWrapper", "wrapped")


def pod() -> Json:
    """Return a pod that is embedded in an AppWrapper."""
    return made(WRAPPER, name="inside")


def pod_of_job() -> Json:
    return made(owned("batch/v1", "Job", "train"), generateName="train-")


def wrapper(resets: int | None, limit: str | None = "3") -> Json:
    annotations = {} if limit is None else {RETRY_LIMIT: limit}
    status = {} if resets is None else {"resettingCount": resets}
    return {"kind": "AppWrapper", "metadata": {"name": "wrapped", "annotations": annotations}, "status": status}


def test_the_last_of_four_attempts_leaves_spot() -> None:
    assert [place(pod(), wrapper(resets)) for resets in range(4)] == last_of_four_off_spot("AppWrapper")


def test_a_job_in_an_app_wrapper_also_counts_its_own_failures() -> None:
    found, _ = read(pod_of_job(), stored_job(job_spec(backoffLimit=3), {"failed": 1}), wrapper(2))
    assert found == [Level("JobStatus", 1, 3), Level("AppWrapper", 2, 3)]


@pytest.mark.parametrize("limit", [None, "many"])
def test_a_limit_that_is_absent_or_not_a_number_is_the_operators_default(limit: str | None) -> None:
    assert ask(pod(), wrapper(None, limit)) == ([Level("AppWrapper", 0, 3)], [])


def test_an_app_wrapper_that_does_not_exist_gives_no_level() -> None:
    assert ask(pod()) == ([], [])
