"""The retry of a CronJob's last Job."""

from typing import Any

import pytest

from tests.objects import job_spec
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.systems import kueue
from webhook.systems.adapter import Workload
from webhook.systems.job import rerun as of_job
from webhook.systems.job.rerun import OF_CRON_JOB

WHEN = "2026-11-22T08:30:00+00:00"
YES = {names.RETRYABLE: "true"}
OWNER = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "cron-uid", "controller": True}


def nightly(annotations: Json | None = None) -> Json:
    metadata = {"name": "nightly", "namespace": "ml", "uid": "cron-uid", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"schedule": "0 3 * * *"}}


def last_job(annotations: Json | None = None, conditions: list[Json] | None = None, **status: Any) -> Json:
    metadata = {"name": "nightly-29391", "namespace": "ml", "uid": "job-uid", "annotations": annotations or {}}
    failed: list[Json] = [{"type": "Failed", "status": "True"}]
    return {
        "metadata": {**metadata, "ownerReferences": [OWNER]},
        "spec": job_spec(completions=4, completionMode="Indexed"),
        "status": {"conditions": failed if conditions is None else conditions, **status},
    }


def found(run: Json | None, annotations: Json | None = None, placeholder: Json | None = None) -> Workload:
    return Workload(root=nightly(annotations), run=run, when=WHEN, placeholder=placeholder)


@pytest.mark.parametrize(
    ("of_cron_job", "of_job", "may"),
    [({}, {}, False), (YES, {}, True), ({}, YES, True), (YES, {names.RETRYABLE: "false"}, False)],
)
def test_the_annotation_of_a_cron_job_applies_to_its_jobs_unless_they_have_their_own(
    of_cron_job: Json,
    of_job: Json,
    may: bool,  # noqa: FBT001
) -> None:
    assert (OF_CRON_JOB.refusal(found(last_job(of_job), of_cron_job)) is None) is may


def test_the_remedy_names_the_job_that_would_run() -> None:
    assert "kubectl annotate -n ml job/nightly-29391" in str(OF_CRON_JOB.refusal(found(last_job())))


def test_a_cron_job_without_a_job_is_refused() -> None:
    assert str(OF_CRON_JOB.refusal(found(None, YES))) == "it has no Job to retry; wait for its next Job"
    assert OF_CRON_JOB.run_id(found(None)) == ""
    assert OF_CRON_JOB.what_reruns(found(None)) == ""


def test_a_cron_job_whose_last_job_is_being_retried_is_refused() -> None:
    placeholder = of_job.placeholder_for(last_job(YES), "alice", WHEN)
    begun = found(None, YES, placeholder)
    assert str(OF_CRON_JOB.refusal(begun)) == "a retry of its last Job has begun; wait until it has ended"
    assert OF_CRON_JOB.what_reruns(begun) == "Job ml/nightly-29391, whose retry has begun:"


def test_succeeded_indexes_of_the_last_job_do_not_run_again() -> None:
    done = last_job(YES, completedIndexes="0-2", succeeded=3)
    assert OF_CRON_JOB.what_reruns(found(done)) == "Job ml/nightly-29391: 1 of 4 indexes"


def test_a_retry_requires_the_permissions_for_any_job() -> None:
    assert [str(right) for right in OF_CRON_JOB.rights(nightly())] == [
        "create jobs",
        "patch jobs",
        "delete jobs",
        "patch jobs/status",
    ]


def test_any_cron_job_can_be_suspended() -> None:
    queued = nightly()
    queued["metadata"]["labels"] = {kueue.QUEUE_NAME: "gpus"}
    assert OF_CRON_JOB.cannot_be_suspended(queued) is None
