"""Where a JobSet has its retries and JobSpecs, what its Jobs have in common, and how often they were restarted."""

from typing import Any

import pytest

from tests.objects import job_spec
from tests.unit.systems.reading import retries, root_of
from webhook.objects.problem import Json, field
from webhook.systems.job_set.spec import JOB_SET, costly_restarts, restarts_before_run, run_id

MAX_RESTARTS = "spec.failurePolicy.maxRestarts"


def replicated(name: str, replicas: int | None = None, **spec: Any) -> Json:
    number = {} if replicas is None else {"replicas": replicas}
    return {"name": name, **number, "template": {"spec": job_spec(**spec)}}


def job_set(*jobs: Json, labels: Json | None = None, **spec: Any) -> Json:
    found = {"replicatedJobs": list(jobs or (replicated("workers", 2),)), **spec}
    return root_of(JOB_SET, found, labels=labels or {})


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [(None, 0), ({}, 0), ({"maxRestarts": None}, 0), ({"maxRestarts": 3, "restartStrategy": "Recreate"}, 3)],
)
def test_restarts_are_retries_and_without_a_failure_policy_there_are_none(policy: Json | None, allowed: int) -> None:
    assert retries(JOB_SET, job_set(failurePolicy=policy)) == {MAX_RESTARTS: allowed}


def test_each_replicated_job_is_a_job_spec_with_the_metadata_of_its_template() -> None:
    worker = replicated("workers")
    worker["template"]["metadata"] = {"annotations": {"team": "vision"}}
    leader, found = JOB_SET.jobs(job_set(replicated("leader"), worker))
    assert (field(leader.path), leader.metadata) == ("spec.replicatedJobs[0].template.spec", {})
    assert field(found.metadata_path) == "spec.replicatedJobs[1].template.metadata"
    assert found.metadata == {"annotations": {"team": "vision"}}


@pytest.mark.parametrize(
    ("jobs", "coupled"),
    [
        ([replicated("one")], False),
        ([replicated("one", 1, parallelism=1)], False),
        ([replicated("none", 0), replicated("one", 1)], False),
        ([replicated("idle", 5, parallelism=0), replicated("one")], False),
        ([replicated("two", 2)], True),
        ([replicated("two", 1, parallelism=2)], True),
        ([replicated("leader"), replicated("worker")], True),
    ],
)
def test_two_or_more_pods_of_a_job_set_depend_on_each_other(
    jobs: list[Json],
    coupled: bool,  # noqa: FBT001
) -> None:
    assert JOB_SET.traits(job_set(*jobs)).coupled is coupled


def test_a_job_set_restarts_in_place_if_its_restart_strategy_says_so() -> None:
    in_place = job_set(failurePolicy={"restartStrategy": "InPlaceRestart", "maxRestarts": 3})
    assert JOB_SET.traits(in_place).restarts_in_place
    assert not JOB_SET.traits(job_set(failurePolicy={"restartStrategy": "Recreate"})).restarts_in_place


def test_jobs_of_a_job_set_are_on_failure_and_indexed_by_default_and_not_scalable() -> None:
    traits = JOB_SET.traits(job_set())
    assert (traits.restart_policy, traits.completion_mode, traits.scalable) == ("OnFailure", "Indexed", False)


def with_status(**status: Any) -> Json:
    return {**job_set(), "status": status}


JOBS_STATUS = [
    {"name": "leader"},
    {"name": "workers", "jobRestarts": [0, 3], "jobRestartsCountTowardsMax": [0, 1]},
]


def test_restarts_of_the_set_and_of_single_jobs_count_towards_the_same_limit() -> None:
    assert costly_restarts(with_status(restartsCountTowardsMax=2, replicatedJobsStatus=JOBS_STATUS)) == 3
    assert costly_restarts(with_status(restarts=7)) == 0
    assert costly_restarts({}) == 0


@pytest.mark.parametrize("restarts", [0, 1, 12])
def test_the_name_of_a_run_contains_the_number_of_earlier_restarts(restarts: int) -> None:
    assert restarts_before_run(run_id(restarts)) == restarts


@pytest.mark.parametrize("text", ["", "restart ", "restart two", "restart -1", "4f5c-uid"])
def test_a_malformed_run_name_contains_no_number_of_restarts(text: str) -> None:
    assert restarts_before_run(text) is None
