"""Jobs and pods, as kubectl prints them, give the records that the server would have written."""

from typing import Any

from tests.accounts import stored
from webhook.accounts.account import Account, Attempt
from webhook.history.record import AttemptRecord, Record, WorkloadRecord
from webhook.insight.simulate import live, past
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.systems.job import spec as batch

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job", "controller": True}
JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "ml",
        "uid": "job",
        "creationTimestamp": "2026-11-21T12:00:00Z",
        "labels": {names.PROFILE: "batch"},
    },
    "spec": {
        "backoffLimit": 3,
        "completions": 1,
        "parallelism": 1,
        "podFailurePolicy": {
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
    },
    "status": {
        "completionTime": "2026-11-21T12:30:00Z",
        "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-11-21T12:30:00Z"}],
    },
}
NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "spot-1",
        "labels": {"cloud.google.com/gke-spot": "true", "topology.kubernetes.io/zone": "z1"},
    },
}


def pod(name: str, **status: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": name,
            "creationTimestamp": "2026-11-21T12:00:10Z",
            "ownerReferences": [OWNER],
            "annotations": {names.PLACEMENT: "Spot"},
        },
        "spec": {
            "nodeName": "spot-1",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1500m", "memory": "2Gi"}}}],
        },
        "status": {"startTime": "2026-11-21T12:00:20Z", **status},
    }


def ended(code: int, at: str) -> list[Json]:
    return [{"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": at, "reason": "Error"}}}]


LOST = pod(
    "train-1",
    phase="Failed",
    containerStatuses=ended(137, "2026-11-21T12:10:20Z"),
    conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
)
GOOD = pod("train-2", phase="Succeeded", containerStatuses=ended(0, "2026-11-21T12:29:50Z"))


def records(*objects: Json) -> list[Record]:
    return list(live.records_of(live.loaded(objects), None))


def attempts(*objects: Json) -> list[AttemptRecord]:
    return [one for one in records(*objects) if isinstance(one, AttemptRecord)]


def test_pods_are_attempts_and_their_job_a_workload() -> None:
    lost, good = attempts(JOB, LOST, GOOD, NODE)

    assert (lost.cause, lost.reason, lost.cost) == ("Disruption", "PreemptionByScheduler", "disruption")
    assert (lost.capacity, lost.zone, lost.placement, lost.seconds) == ("Spot", "z1", "Spot", 600.0)
    assert lost.resources == {"cpu": 1.5, "memory": 2 * 2.0**30}
    assert (good.cause, good.seconds) == ("Succeeded", 1770.0)
    (workload,) = [one for one in records(JOB) if isinstance(one, WorkloadRecord)]
    assert (workload.outcome, workload.profile, workload.retries, workload.completions) == ("Complete", "batch", 3, 1)


def test_an_attempt_whose_pod_was_deleted_is_known_from_the_account() -> None:
    detail = Attempt(
        attempt=0,
        pod="train-0",
        node="spot-1",
        placement="Spot",
        start="2026-11-21T12:01:00Z",
        end="2026-11-21T12:05:00Z",
        cause="Disruption",
        cost="disruption",
    )
    account = stored(batch.JOB, JOB, Account(ended=1, last=[detail]))

    found = attempts(JOB, account, GOOD, NODE)

    assert [(one.pod, one.cause, one.seconds) for one in found] == [
        ("train-0", "Disruption", 240.0),
        ("train-2", "Succeeded", 1770.0),
    ]
    assert found[1].resources == found[0].resources


def test_a_dump_can_be_replayed() -> None:
    (story,) = past.read(records(JOB, LOST, GOOD, NODE)).stories
    assert [one.seconds for one in story.attempts] == [600.0, 1770.0]


def test_running_pods_unreadable_accounts_and_other_objects_do_no_harm() -> None:
    account = {**stored(batch.JOB, JOB), "status": {"attempts": "two"}}
    running = pod("train-3", phase="Running")
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "web"}}

    assert attempts(JOB, account, running, alone, {"apiVersion": "v1", "kind": "Service", "metadata": {}}) == []


def test_objects_that_are_not_as_the_api_has_them_are_left_out() -> None:
    nameless = {"kind": "Job", "metadata": {"namespace": "ml", "uid": "x"}, "spec": {}}
    wrong = {"kind": "Pod", "metadata": {"name": "x", "namespace": "ml", "uid": "y"}, "spec": 3}
    assert records(nameless, wrong, {"kind": "Node", "metadata": None}, {"kind": "Pod"}) == []
