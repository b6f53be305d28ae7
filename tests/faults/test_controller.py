"""The controller killed, stopped, and made to raise in each handler, under load: no admission notices it."""

from __future__ import annotations

import contextlib
import signal
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.awaiting import until
from tests.faults.direct import RefusedError
from tests.faults.replica import RAISES
from tests.faults.stage import NAMESPACE, Replica, Stage, controller_of

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object

# The load sends 100 Jobs a second; each passes /mutate and /validate: 200 admissions a second.
LONG = 300  # Jobs: what is sent while a controller is stopped

TRACKERS = "webhook.ledger.tracking.trackers:Trackers"
OBSERVERS = "webhook.ledger.tracking.observers"
WAITING = "webhook.ledger.waiting:WaitingPods"
FINISHED = "webhook.lookups.finished_jobs:FinishedJobs"
# The handlers of what the watches deliver.
HANDLERS = (
    *(f"{TRACKERS}.{name}" for name in ("see_pod", "see_pod_gone", "see_job", "see_job_gone")),
    *(f"{OBSERVERS}:PodObserver.{name}" for name in ("begin_list", "end_list")),
    *(f"{OBSERVERS}:WorkloadObserver.{name}" for name in ("begin_list", "end_list")),
    *(f"{WAITING}.{name}" for name in ("seen", "deleted")),
    *(f"{FINISHED}.{name}" for name in ("seen", "deleted")),
)
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"


def fail_a_pod(stage: Stage, name: str) -> None:
    """Create a Job with a pod that fails, which no controller of Kubernetes sees here, and delete both."""
    container = {"name": "main", "image": "example.test/main"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}
    stage.api.create(JOBS, job)
    uid = stage.api.get(f"{JOBS}/{name}")["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    labels = {"batch.kubernetes.io/job-name": name}
    metadata = {"name": name, "ownerReferences": [owner], "labels": labels}
    stage.api.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    stage.api.merge(f"{PODS}/{name}/status", {"status": {"phase": "Failed"}})


def has_raised(stage: Stage, replica: Replica, handler: str) -> bool:
    return f"{RAISES} {handler}\n" in stage.processes.log(controller_of(replica.name)).read_text()


@pytest.mark.hardest
def test_controllers_that_are_stopped_or_killed_lose_no_admission(stage: Stage) -> None:
    replicas = stage.two_replicas()
    with stage.under_load("SIGSTOP, then SIGKILL of all controllers") as watched:
        for replica in replicas:
            replica.controller.send_signal(signal.SIGSTOP)
        watched.until_sent(LONG)
        for replica in replicas:
            replica.controller.send_signal(signal.SIGCONT)
        watched.until_sent()
        for replica in [*replicas]:
            stage.restart_controller(replica)
            watched.until_sent()
    assert watched.tally.lost == 0, watched.tally


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_controller_that_raises_in_a_handler_loses_no_admission_and_goes_on(stage: Stage, handler: str) -> None:
    replica = stage.start(f"--raising={handler}")
    stage.until_endpoints(replica)
    stage.until_effective()
    with contextlib.suppress(RefusedError):  # no controller creates it here, and no pod is created without it
        stage.api.create(ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    name = f"raises-{stage.started}"
    with stage.under_load(f"the controller raises in {handler.partition(':')[2]}") as watched:
        fail_a_pod(stage, name)
        if not handler.endswith(("deleted", "gone")):
            until(partial(has_raised, stage, replica, handler))
        stage.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
        stage.api.delete(f"{JOBS}/{name}?propagationPolicy=Background")
        until(partial(has_raised, stage, replica, handler))
        watched.until_sent()
    assert watched.tally.lost == 0, watched.tally
    assert replica.controller.poll() is None
