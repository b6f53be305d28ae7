"""How a Job ends and is suspended from outside."""

from typing import Any

import pytest

from webhook.objects.problem import Json
from webhook.systems.job.account import JOB, end_suspended
from webhook.systems.system import Write

OWNER = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}


def job(status: Json | None = None, spec: Json | None = None, **metadata: Any) -> Json:
    named = {"namespace": "ml", "name": "train", "uid": "uid", "resourceVersion": "7", **metadata}
    return {"metadata": named, "spec": spec or {}, "status": status or {}}


DECIDED = {"conditions": [{"type": "FailureTarget", "status": "True"}]}


def test_a_job_is_failed_as_its_controller_fails_it_and_not_twice() -> None:
    write = JOB.fail(job(), None, "Reason", "message")
    assert isinstance(write, Write)
    version, added = write.operations
    assert (write.path, version["op"]) == ("/apis/batch/v1/namespaces/ml/jobs/train/status", "replace")
    (target,) = added["value"]
    assert (target["type"], target["status"], target["reason"]) == ("FailureTarget", "True", "Reason")
    assert JOB.fail(job(DECIDED), None, "Reason", "message") is None


def test_a_suspended_job_that_a_queue_has_stopped_gets_its_end_with_a_start() -> None:
    _, conditions, start = end_suspended(job(), "Reason", "message").operations
    assert [one["type"] for one in conditions["value"]] == ["FailureTarget", "Failed"]
    assert start["path"] == "/status/startTime"


@pytest.mark.parametrize(
    "over", [job(DECIDED), job(spec={"suspend": True}), job(deletionTimestamp="2026-01-01T00:00:00Z")]
)
def test_a_job_that_is_over_suspended_or_deleted_deletes_its_pods_itself(over: Json) -> None:
    assert JOB.has_ended(over)
    assert not JOB.has_ended(job())


@pytest.mark.parametrize("resumed", [job(ownerReferences=[OWNER]), job(labels={"kueue.x-k8s.io/queue-name": "gpu"})])
def test_a_job_is_suspended_unless_something_would_resume_it(resumed: Json) -> None:
    assert JOB.suspend(resumed) is None
    assert JOB.suspend(job()) is not None
