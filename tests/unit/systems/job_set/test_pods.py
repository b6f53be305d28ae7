"""The restarts of a JobSet, and of a single Job in it."""

from typing import Any

import pytest

from tests.objects import job_spec, stored_job
from tests.unit.systems.pods import (
    NO_COUNTS,
    NO_NUMBERS,
    made,
    of_disruptions,
    off_spot,
    on_spot,
    owned,
    place,
    read,
    with_value,
)
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import resolve
from webhook.systems.pod_source import Level

SET = "jobset.sigs.k8s.io/"
RESTARTS = SET + "restart-attempt"
JOB_RESTARTS = SET + "job-restart-attempt"
# After each restart the Job is a new one with the same name.
JOB = stored_job(
    job_spec(backoffLimit=0), ownerReferences=[owned("jobset.x-k8s.io/v1alpha2", "JobSet", "train")], name="train-w-0"
)
OF_JOB = Level("JobStatus", 0, 0)


def pod_at(restarts: str, **more: str) -> Json:
    """Return a pod as the JobSet and Job controllers write it: all values both as label and as annotation."""
    own = {SET + "jobset-name": "train", SET + "replicatedjob-name": "w", SET + "job-index": "0", RESTARTS: restarts}
    both = {**own, **{SET + key.replace("_", "-"): value for key, value in more.items()}}
    return made(
        owned("batch/v1", "Job", "train-w-0"),
        generateName="train-w-0-0-",
        labels={**both, "batch.kubernetes.io/job-name": "train-w-0", "batch.kubernetes.io/job-completion-index": "0"},
        annotations={**both, "batch.kubernetes.io/job-completion-index": "0"},
    )


def job_set(restarts: int = 0, counted: int = 0, max_restarts: int | None = 3) -> Json:
    """Return a stored JobSet; a restartsCountTowardsMax or maxRestarts of 0 is left out."""
    failure_policy = {} if max_restarts is None else {"failurePolicy": {"maxRestarts": max_restarts}}
    status = {"restarts": restarts, **({"restartsCountTowardsMax": counted} if counted else {})}
    return {"kind": "JobSet", "metadata": {"name": "train"}, "spec": failure_policy, "status": status}


def test_the_last_of_a_job_sets_four_runs_leaves_spot() -> None:
    assert [place(pod_at(str(restarts)), JOB, job_set(restarts, restarts)) for restarts in range(4)] == [
        on_spot("JobStatus", 0, 0),
        on_spot("JobSet", 1, 3),
        on_spot("JobSet", 2, 3),
        off_spot("JobSet", 3, 3),
    ]


def test_restarts_of_the_set_and_retries_of_the_job_are_separate_levels() -> None:
    job = stored_job(job_spec(backoffLimit=2), {"failed": 1})
    found = read(pod_at("2"), job, job_set(2, 2, max_restarts=5))
    assert found == ([Level("JobStatus", 1, 2), Level("JobSet", 2, 5), of_disruptions("JobSet", 0)], [])


def test_the_jobs_last_retry_leaves_spot_in_the_sets_first_run() -> None:
    job = stored_job(job_spec(backoffLimit=2), {"failed": 2})
    assert place(pod_at("0"), job, job_set()) == off_spot("JobStatus", 2, 2)


def test_restarts_after_disruptions_only_use_the_disruption_budget() -> None:
    found = read(pod_at("5"), JOB, job_set(restarts=5, counted=1))[0]
    assert found == [OF_JOB, Level("JobSet", 1, 3), of_disruptions("JobSet", 4)]
    assert place(pod_at("5"), JOB, job_set(restarts=5, counted=1)) == on_spot("JobSet", 1, 3)
    assert place(pod_at("20"), JOB, job_set(restarts=20)) == off_spot("JobStatus", 0, 0)


def test_a_set_that_was_only_disrupted_has_used_no_retry_although_its_status_has_no_count() -> None:
    disrupted = job_set(restarts=3, counted=0)
    assert "restartsCountTowardsMax" not in disrupted["status"]
    assert read(pod_at("3"), JOB, disrupted)[0] == [OF_JOB, Level("JobSet", 0, 3), of_disruptions("JobSet", 3)]


def test_restarts_before_a_requested_retry_do_not_count() -> None:
    root = job_set(4, 0)
    root["metadata"] = {"annotations": {names.RETRY_HISTORY: '[{"at":"","by":"alice","of":"restart 3"}]'}}
    levels, _ = read(pod_at("4"), JOB, root)
    assert {(level.source, level.attempt) for level in levels} == {("JobStatus", 0), ("JobSet", 0)}


@pytest.mark.parametrize("nonsense", ["", "{", "[1]", '[{"of":"restart x"}]', "[]"])
def test_a_malformed_retry_history_counts_as_absent(nonsense: str) -> None:
    root = job_set(2, 2)
    root["metadata"] = {"annotations": {names.RETRY_HISTORY: nonsense}}
    levels, _ = read(pod_at("2"), JOB, root)
    assert Level("JobSet", 2, 3) in levels


def test_at_most_as_many_disruptions_are_subtracted_as_the_pod_has_restarts() -> None:
    """The status may be newer than a pod of an earlier run."""
    assert read(pod_at("1"), JOB, job_set(restarts=4, counted=0))[0][1:] == [
        Level("JobSet", 0, 3),
        of_disruptions("JobSet", 1),
    ]


def test_the_restarts_of_the_pods_own_job_add_to_the_sets() -> None:
    assert read(pod_at("1", job_restart_attempt="2"), JOB, job_set(1, 1))[0][1] == Level("JobSet", 3, 3)
    assert place(pod_at("1", job_restart_attempt="1"), JOB, job_set(1, 1)) == on_spot("JobSet", 2, 3)
    assert place(pod_at("1", job_restart_attempt="2"), JOB, job_set(1, 1)) == off_spot("JobSet", 3, 3)


def test_a_set_without_a_failure_policy_has_no_retries() -> None:
    assert read(pod_at("0"), JOB, job_set(max_restarts=None))[0] == [
        OF_JOB,
        Level("JobSet", 0, 0),
        of_disruptions("JobSet", 0),
    ]


def test_if_the_set_does_not_exist_the_budget_is_max_retries_or_else_the_default() -> None:
    assert read(pod_at("2"), JOB)[0] == [OF_JOB, Level("JobSet", 2, 3)]
    settings = resolve("default", Profile(), {names.MAX_RETRIES: "5"})
    assert read(pod_at("2"), JOB, settings=settings)[0][1] == Level("JobSet", 2, 5)


@pytest.mark.parametrize("nonsense", NO_COUNTS)
def test_a_malformed_label_falls_back_to_the_annotation_with_one_warning(nonsense: str) -> None:
    root = pod_at("2")
    root["metadata"]["labels"][RESTARTS] = nonsense
    found, warnings = read(root, JOB, job_set(2, 2))
    assert found[1] == Level("JobSet", 2, 3)
    assert [warning.path for warning in warnings] == [("metadata", "labels", RESTARTS)]


@pytest.mark.parametrize("nonsense", NO_COUNTS)
def test_if_both_are_malformed_the_jobs_status_is_used_with_a_warning_each(nonsense: str) -> None:
    found, warnings = read(pod_at(nonsense), JOB, job_set(2, 2))
    assert found == [OF_JOB]
    assert len(warnings) == 2
    assert place(pod_at(nonsense), JOB, job_set(2, 2)).attempt == "0"


@pytest.mark.parametrize("nonsense", NO_COUNTS)
def test_if_the_count_of_the_jobs_restarts_is_malformed_those_of_the_set_are_used_with_a_warning(nonsense: str) -> None:
    found, warnings = read(pod_at("2", job_restart_attempt=nonsense), JOB, job_set(2, 2))
    assert found[1] == Level("JobSet", 2, 3)
    assert [warning.path for warning in warnings] == [("metadata", "labels", JOB_RESTARTS)]


@pytest.mark.parametrize("nonsense", [*NO_NUMBERS, 10**30])
@pytest.mark.parametrize(
    "path",
    [
        ("spec",),
        ("spec", "failurePolicy"),
        ("spec", "failurePolicy", "maxRestarts"),
        ("status",),
        ("status", "restarts"),
        ("status", "restartsCountTowardsMax"),
    ],
)
def test_malformed_fields_of_the_set_are_not_an_error_and_a_first_attempt_stays_on_spot(
    path: tuple[str, ...], nonsense: Any
) -> None:
    above = with_value(job_set(2, 2), path, nonsense)
    assert place(pod_at("0"), JOB, above).attempt == "0"
    assert place(pod_at("0"), stored_job(job_spec(backoffLimit=2)), above).placement == "Spot"
    assert {level.source for level in read(pod_at("1"), JOB, above)[0]} == {"JobStatus", "JobSet"}


NO_RESTARTS = [
    *([{"name": "w", "jobRestarts": one}] for one in ("x", [], ["3"], [True])),
    [{"name": "w", "jobRestartsCountTowardsMax": [-1]}],
]


def alone(total: int, counted: int, name: str = "w") -> Json:
    """Return the status of replicated Jobs, in which the first Job of `name` was restarted alone."""
    return {"name": name, "jobRestarts": [total, 0], "jobRestartsCountTowardsMax": [counted, 0]}


def with_jobs(root: Json, *status: Json) -> Json:
    root["status"]["replicatedJobsStatus"] = list(status)
    return root


def test_a_job_that_was_restarted_alone_has_used_restarts_of_the_set() -> None:
    found = read(pod_at("0", job_restart_attempt="1"), JOB, with_jobs(job_set(), alone(1, 1)))[0]
    assert found == [OF_JOB, Level("JobSet", 1, 3), of_disruptions("JobSet", 0)]


def test_free_restarts_of_a_single_job_count_as_disruptions() -> None:
    found = read(pod_at("1", job_restart_attempt="3"), JOB, with_jobs(job_set(1, 1), alone(3, 1)))[0]
    assert found == [OF_JOB, Level("JobSet", 2, 3), of_disruptions("JobSet", 2)]


def test_restarts_of_other_single_jobs_count_for_a_job_that_restarts_too() -> None:
    root = with_jobs(job_set(1, 1), alone(0, 0), alone(2, 2, "other"))
    assert place(pod_at("1", job_restart_attempt="0"), JOB, root) == off_spot("JobSet", 3, 3)
    root["status"]["restarts"], root["status"]["restartsCountTowardsMax"] = 0, 0
    assert place(pod_at("0", job_restart_attempt="0"), JOB, root) == on_spot("JobStatus", 0, 0)


@pytest.mark.parametrize("status", [None, "x", [None], [{"name": "w"}], *NO_RESTARTS])
def test_a_malformed_status_of_single_jobs_counts_as_absent(status: Any) -> None:
    root = job_set(1, 1)
    root["status"]["replicatedJobsStatus"] = status
    assert read(pod_at("1"), JOB, root)[0] == [OF_JOB, Level("JobSet", 1, 3), of_disruptions("JobSet", 0)]
