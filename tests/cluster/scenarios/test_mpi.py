"""MPIJobs v2beta1, run by the MPI operator itself: the launcher is a Job, workers are pods that it creates again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.objects import account, condition, ended, has_failed, is_running, last, noted
from tests.cluster.scenarios.conftest import BY_SCHEDULER_AND_EVICTION
from tests.cluster.test_ledger import explained

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene

pytestmark = pytest.mark.systems

FILE = "mpi-job.yaml"
LAUNCHER = "train-launcher"
ROLE = "training.kubeflow.org/job-role"


def running(here: Scene, role: str, number: int, *, but: Object | None = None) -> list[Object]:
    """Return the running pods of a role as soon as there are so many of them, without the known pod `but`."""
    return here.team.running_with(f"{ROLE}={role}", number, but=but)


def launcher_of(here: Scene, *, but: Object | None = None) -> Object:
    (found,) = running(here, "launcher", 1, but=but)
    return found


def test_the_last_attempt_of_the_launcher_runs_on_demand_within_the_limit(scene: NewScene) -> None:
    here = scene()
    here.create(FILE)
    seen = []
    before: Object | None = None
    for _ in range(3):
        before = launcher_of(here, but=before)
        seen.append(noted(before))
        here.team.ends(before, 1)
    assert [(one["attempt"], one["placement"]) for one in seen] == [("0", "Spot"), ("1", "Spot"), ("2", "OnDemand")]
    root = here.team.wait_for("mpijobs", "train", has_failed)
    assert condition(root, "Failed")["reason"].startswith("BackoffLimitExceeded")
    assert {noted(pod)["placement"] for pod in here.team.get("pods", f"--selector={ROLE}=worker")["items"]} <= {"Spot"}
    job = here.team.wait_for("jobs", LAUNCHER, lambda found: ended(found, 3))
    assert job["spec"]["backoffLimit"] == 2
    assert [cost for _, _, cost in last(job)] == ["retry", "retry", "fatal"]


@BY_SCHEDULER_AND_EVICTION
def test_a_disruption_of_the_launcher_costs_no_retry(
    scene: NewScene, disrupt: Callable[[Scene, Object], None], reason: str
) -> None:
    here = scene()
    here.create(FILE)
    first = launcher_of(here)
    disrupt(here, first)
    assert noted(launcher_of(here, but=first))["attempt"] == "0"
    job = here.team.wait_for("jobs", LAUNCHER, lambda found: ended(found, 1))
    assert last(job) == [("Disruption", reason, "disruption")]
    assert not has_failed(here.team.get("mpijob", "train"))
    explanation = explained(here.team, f"job/{LAUNCHER}")
    assert [row["cost"] for row in explanation["rows"]][:1] == ["disruption"]


def test_the_limit_on_disruptions_of_the_launcher_fails_the_mpi_job(scene: NewScene) -> None:
    here = scene("fail")
    here.create(FILE)
    before: Object | None = None
    for _ in range(2):
        before = launcher_of(here, but=before)
        here.evict(before)
    root = here.team.wait_for("mpijobs", "train", has_failed)
    assert "disruption 2 exceeds the limit of 1" in condition(root, "Failed")["message"]


def test_an_evicted_worker_is_created_again_and_costs_the_launcher_one_retry(scene: NewScene) -> None:
    here = scene()
    here.create(FILE)
    launcher = launcher_of(here)
    first, second = sorted(running(here, "worker", 2), key=lambda pod: str(pod["metadata"]["name"]))
    here.evict(first)
    here.team.ends(launcher, 1)  # mpirun has lost a rank
    again = launcher_of(here, but=launcher)
    assert noted(again)["attempt"] == "1"
    workers = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running(here, "worker", 2)}
    assert workers[first["metadata"]["name"]] != first["metadata"]["uid"]
    assert workers[second["metadata"]["name"]] == second["metadata"]["uid"]
    job = here.team.wait_for("jobs", LAUNCHER, lambda found: ended(found, 1))
    assert account(job)["cost"] == {"retry": 1}
    assert not has_failed(here.team.get("mpijob", "train"))


def test_a_worker_that_its_kubelet_evicts_is_not_created_again_and_fails_the_mpi_job(scene: NewScene) -> None:
    here = scene()
    here.create(FILE)
    launcher = launcher_of(here)
    first, _ = sorted(running(here, "worker", 2), key=lambda pod: str(pod["metadata"]["name"]))
    name = first["metadata"]["name"]
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    status = {"phase": "Failed", "reason": "Evicted", "conditions": [disrupted]}
    path = f"api/v1/namespaces/{here.team.name}/pods/{name}/status"
    answer = here.team.api.send("PATCH", path, {"status": status}, patch="application/strategic-merge-patch+json")
    assert answer["kind"] == "Pod", answer
    root = here.team.wait_for("mpijobs", "train", has_failed)
    assert condition(root, "Failed")["reason"] == "MPIJobEvicted"
    assert "completionTime" not in root["status"]  # it does not end anything
    assert is_running(here.team.get("pod", launcher["metadata"]["name"]))
    assert here.team.get("pod", name)["metadata"]["uid"] == first["metadata"]["uid"]


def test_beyond_the_limit_of_disruptions_the_leader_does_not_suspend_what_the_operator_would_resume(
    scene: NewScene,
) -> None:
    here = scene("suspend")
    here.create(FILE)
    before: Object | None = None
    for _ in range(2):
        before = launcher_of(here, but=before)
        here.evict(before)
    launcher_of(here, but=before)
    job = here.team.wait_for("jobs", LAUNCHER, lambda found: ended(found, 2))
    assert not {"suspended", "grants"} & set(account(job))  # it has grants once it was resumed
    here.team.patch(f"job/{LAUNCHER}", {"spec": {"suspend": True}})
    asked = job["metadata"]["generation"] + 1
    resumed = here.team.wait_for("jobs", LAUNCHER, lambda found: found["metadata"]["generation"] > asked)
    assert resumed["spec"]["suspend"] is False


def test_a_bug_of_the_launcher_is_retried_because_the_loss_of_a_worker_ends_it_in_the_same_way(scene: NewScene) -> None:
    here = scene()
    here.create(FILE)
    first = launcher_of(here)
    here.team.ends(first, 1)
    launcher_of(here, but=first)
    job = here.team.wait_for("jobs", LAUNCHER, lambda found: ended(found, 1))
    assert last(job) == [("ExitCode", "mpirun 1", "retry")]
    assert [list(rule) for rule in job["spec"]["podFailurePolicy"]["rules"]] == [["action", "onPodConditions"]]
