"""With which restart in place the API ends a workload."""

from typing import Any

import pytest

from tests.unit.accounts.pods import job, job_set
from tests.unit.accounts.restarting_pods import restarted
from webhook.pods.outcomes import has_ended_job, limit_of
from webhook.pods.pods import Pod
from webhook.systems.job.spec import UNLIMITED

LOOPS = restarted(3, policy="OnFailure")


@pytest.mark.parametrize(
    ("spec", "pod", "limit"),
    [
        ({"backoffLimit": 3}, LOOPS, 3),
        ({"backoffLimit": 0}, LOOPS, 1),
        ({"backoffLimit": None}, LOOPS, 6),
        ({"backoffLimit": None, "backoffLimitPerIndex": 2}, LOOPS, UNLIMITED),
        ({"backoffLimit": 4, "backoffLimitPerIndex": 2}, LOOPS, 4),
        ({"backoffLimit": 3}, restarted(3, policy="Never"), UNLIMITED),
    ],
)
def test_the_job_controller_counts_restarts_of_pods_on_failure(spec: dict[str, Any], pod: Pod, limit: int) -> None:
    assert limit_of(pod, job(spec), None) == limit


def test_a_job_set_that_restarts_in_place_has_max_restarts() -> None:
    assert limit_of(LOOPS, job(), job_set(restartStrategy="InPlaceRestart")) == 4
    assert limit_of(LOOPS, job({"backoffLimit": 2}), job_set(restartStrategy="Recreate")) == 2


def test_restarts_of_one_pod_may_be_enough_to_end_its_job() -> None:
    assert has_ended_job(LOOPS, job({"backoffLimit": 3}))
    assert not has_ended_job(LOOPS, job({"backoffLimit": 4}))
    assert not has_ended_job(restarted(3), job({"backoffLimit": 3}))
