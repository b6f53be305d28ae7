"""The retry of a JobSet, in place."""

from typing import Any

import jsonpatch
import pytest

from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry import record, requests
from webhook.systems.adapter import Workload
from webhook.systems.job_set import rerun as of_job_set

YES = {names.RETRYABLE: "true"}


def failed(*templates: Json, annotations: Json | None = None, spec: Json | None = None, **status: Any) -> Json:
    replicated = [{"name": f"job-{number}", "template": one} for number, one in enumerate(templates or ({},))]
    conditions = [{"type": "Failed", "status": "True"}, {"type": "StartupPolicyCompleted", "status": "True"}]
    return {
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "resourceVersion": "7",
            "annotations": YES if annotations is None else annotations,
        },
        "spec": {"replicatedJobs": replicated, **(spec or {})},
        "status": {"conditions": conditions, "terminalState": "Failed", "restarts": 2, **status},
    }


def test_a_failed_job_set_with_consent_can_run_again() -> None:
    assert of_job_set.refusal(failed()) is None


@pytest.mark.parametrize(
    ("job_set", "why"),
    [
        (failed(annotations={}), "does not say of job-0 that it may run twice"),
        (failed({}, {"metadata": {"annotations": {names.RETRYABLE: "false"}}}), "does not say of job-1"),
        (failed(conditions=[]), "has not ended"),
        (failed(conditions=[{"type": "Completed", "status": "True"}]), "has succeeded"),
        (failed(spec={"managedBy": "kueue.x-k8s.io/multikueue"}), "is managed by kueue.x-k8s.io/multikueue"),
    ],
)
def test_any_other_job_set_is_refused_with_the_reason(job_set: Json, why: str) -> None:
    assert why in str(of_job_set.refusal(job_set))


def test_each_replicated_job_can_have_its_own_consent() -> None:
    of_pods = {"spec": {"template": {"metadata": {"annotations": YES}}}}
    assert of_job_set.refusal(failed({"metadata": {"annotations": YES}}, of_pods, annotations={})) is None


def test_the_failure_is_removed_and_the_restarts_are_counted_on() -> None:
    now = of_job_set.run_again(failed(restartsCountTowardsMax=2, replicatedJobsStatus=[]))["status"]
    assert now == {
        "conditions": [{"type": "StartupPolicyCompleted", "status": "True"}],
        "restarts": 3,
        "restartsCountTowardsMax": 0,
        "replicatedJobsStatus": [],
    }


def workload(root: Json) -> Workload:
    return Workload(root=root, run=root, when="2026-11-21T12:00:00+00:00")


def test_a_retry_is_recorded_once() -> None:
    job_set = failed()
    job_set = jsonpatch.apply_patch(job_set, of_job_set.steps(workload(job_set), "alice").record)
    assert of_job_set.steps(workload(job_set), "bob").record == []
    assert requests.is_marked(job_set)  # by which the leader finds it
    (one,) = record.read(job_set)
    assert (one.by, one.of) == ("alice", "restart 2")
