"""Jobs of Kubeflow's training operator, run by the operator itself: bugs, disruptions, limits, accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.objects import account, condition, ended, has_failed, is_running, last, noted
from tests.cluster.scenarios.conftest import BY_SCHEDULER_AND_EVICTION, program
from tests.cluster.test_ledger import explained

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace
    from tests.cluster.scenarios.conftest import NewScene, Scene

pytestmark = pytest.mark.systems

FILE = "pytorch-job.yaml"
WORKERS = "pytorch-workers.yaml"
JOBS = "pytorchjobs"
OF_JOB = "training.kubeflow.org/job-name=train"


def running(team: Namespace, number: int = 1, *, but: Object | None = None) -> list[Object]:
    """Return the running pods of the job as soon as there are so many of them, without the known pod `but`."""
    return team.running_with(OF_JOB, number, but=but)


def restart_policy(found: Object) -> str:
    return str(found["spec"]["pytorchReplicaSpecs"]["Worker"].get("restartPolicy"))


def test_a_bug_fails_the_job_at_once(scene: NewScene) -> None:
    here = scene()
    here.create(FILE, program(1))
    found = here.team.wait_for(JOBS, "train", lambda found: has_failed(found) and ended(found, 1))
    assert restart_policy(found) == "ExitCode"
    assert last(found) == [("ExitCode", "pytorch 1", "fatal")]


def test_a_bug_that_the_operator_would_retry_is_ended_by_the_leader_with_the_pod_that_it_started(
    scene: NewScene,
) -> None:
    here = scene()
    here.create(FILE, program(139))
    found = here.team.wait_for(JOBS, "train", has_failed)
    assert condition(found, "Failed")["reason"] == "PodFailurePolicy"
    assert condition(found, "Failed")["message"].endswith("failed with exit code 139")
    assert found["status"]["completionTime"]
    here.team.wait_for_all("pods", lambda pods: not any(map(is_running, pods)), selector=OF_JOB)
    found = here.team.wait_for(JOBS, "train", lambda found: account(found)["cost"].get("fatal"))
    assert account(found)["cost"].get("retry", 0) == 0


@BY_SCHEDULER_AND_EVICTION
def test_a_disruption_costs_no_retry(scene: NewScene, disrupt: Callable[[Scene, Object], None], reason: str) -> None:
    here = scene()
    here.create(FILE)
    before: Object | None = None
    for _ in range(2):
        (before,) = running(here.team, but=before)
        assert noted(before)["attempt"] == "0"
        disrupt(here, before)
    found = here.team.wait_for(JOBS, "train", lambda found: ended(found, 2))
    assert last(found) == [("Disruption", reason, "disruption")] * 2
    assert not has_failed(found)


def test_retries_are_counted_and_the_last_attempt_runs_on_demand(scene: NewScene) -> None:
    here = scene()
    here.create(FILE)
    seen: list[dict[str, str]] = []
    before: Object | None = None
    for _ in range(3):
        (before,) = running(here.team, but=before)
        seen.append(noted(before))
        here.team.ends(before, 143)
    assert [(one["attempt"], one["max-retries"], one["placement"]) for one in seen] == [
        ("0", "2", "Spot"),
        ("1", "2", "Spot"),
        ("2", "2", "OnDemand"),
    ]
    found = here.team.wait_for(JOBS, "train", has_failed)
    assert condition(found, "Failed")["message"].endswith("retry 3 exceeds the limit of 2")
    found = here.team.wait_for(JOBS, "train", lambda found: ended(found, 3))
    assert [cost for _, _, cost in last(found)] == ["retry", "retry", "fatal"]
    here.team.wait_for_all("pods", lambda pods: not any(map(is_running, pods)), selector=OF_JOB)


@pytest.mark.parametrize(("profile", "ends_as"), [("suspend", "Suspended"), ("fail", "Failed")])
def test_the_limit_on_disruptions_suspends_or_fails_the_job(scene: NewScene, profile: str, ends_as: str) -> None:
    here = scene(profile)
    here.create(FILE)
    before: Object | None = None
    for _ in range(2):
        (before,) = running(here.team, but=before)
        here.evict(before)
    found = here.team.wait_for(JOBS, "train", lambda found: condition(found, ends_as))
    here.team.wait_for_all("pods", lambda pods: not any(map(is_running, pods)), selector=OF_JOB)
    if ends_as == "Suspended":
        here.team.patch("pytorchjob/train", {"spec": {"runPolicy": {"suspend": False}}})
        running(here.team)
        found = here.team.get("pytorchjob", "train")
    counted = account(found)["cost"]
    counted.pop("none", None)  # the pod that ran when the job was suspended
    assert counted == {"disruption": 2}


def test_a_crash_beside_a_disruption_is_no_bug(scene: NewScene) -> None:
    here = scene("settle-late")
    here.create(WORKERS)
    first, second = running(here.team, 2)
    here.evict(first)
    here.team.ends(second, 139)
    running(here.team, 2)
    found = here.team.wait_for(JOBS, "train", lambda found: ended(found, 2))
    assert {cost for _, _, cost in last(found)} == {"disruption", "retry"}
    assert not has_failed(found)


def test_a_crash_without_a_disruption_is_a_bug_once_it_is_clear(scene: NewScene) -> None:
    here = scene("settle")
    here.create(WORKERS)
    first, _ = running(here.team, 2)
    here.team.ends(first, 139)
    found = here.team.wait_for(JOBS, "train", has_failed)
    assert condition(found, "Failed")["message"].endswith("failed with exit code 139")


def test_a_preemption_of_a_job_that_may_not_restart_is_avoided(scene: NewScene) -> None:
    here = scene()
    here.create("pytorch-once.yaml")
    (pod,) = running(here.team)
    assert (noted(pod)["placement"], noted(pod)["max-retries"]) == ("OnDemand", "0")


def test_explain_shows_the_account_of_each_replica(scene: NewScene) -> None:
    here = scene()
    here.create(WORKERS)
    first, second = sorted(running(here.team, 2), key=lambda pod: str(pod["metadata"]["name"]))
    here.evict(first)
    here.team.ends(second, 143)
    here.team.wait_for(JOBS, "train", lambda found: ended(found, 2))
    explanation = explained(here.team, "pytorchjob/train")
    ends = {(row["unit"], row["cost"]) for row in explanation["rows"] if row["cost"]}
    assert ends == {("worker/0", "disruption"), ("worker/1", "retry")}
