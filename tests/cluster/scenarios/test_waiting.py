"""Pods that wait: for the end of a delay, for a spot node, for an image."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster import disruptions
from tests.cluster.conftest import with_operators
from tests.cluster.ended_pods import JOB_NAME
from tests.cluster.objects import account, condition, ended, last, noted, phase, restarts
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_jobs import failed_for, index, is_complete, pool
from tests.cluster.test_ledger import explained
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene

JOBS = 50


def cordon_spot(here: Scene) -> None:
    for node in here.nodes.nodes:
        if "-spot-" in node:
            disruptions.cordon(here.kubectl, node)


def is_gated(pod: Object) -> bool:
    return {"name": names.DELAY} in pod["spec"].get("schedulingGates", [])


def seconds_between(first: Object, second: Object) -> float:
    """Return the seconds from the end of a pod's container to the scheduling of another pod."""
    (status,) = first["status"]["containerStatuses"]
    scheduled = datetime.fromisoformat(condition(second, "PodScheduled")["lastTransitionTime"])
    return (scheduled - datetime.fromisoformat(status["state"]["terminated"]["finishedAt"])).total_seconds()


@pytest.mark.first
def test_fifty_jobs_that_find_no_spot_node_are_all_done_on_demand_after_the_wait(scene: NewScene) -> None:
    here = scene("spot-wait", spot=2, on_demand=2)
    cordon_spot(here)
    for number in range(JOBS):
        here.create("one-small-pod.yaml", program(0), name=f"report-{number}")
    done = here.team.wait_for_all("jobs", lambda found: len(found) == JOBS and all(map(is_complete, found)))
    pods = here.team.get("pods")["items"]
    assert {pool(pod) for pod in pods if phase(pod) == "Succeeded"} == {"on-demand"}
    assert [phase(pod) for pod in pods].count("Succeeded") == JOBS
    assert {pod["status"]["reason"] for pod in pods if phase(pod) == "Failed"} == {"SpotUnavailable"}
    assert {phase(pod) for pod in pods} == {"Succeeded", "Failed"}
    assert all(found["status"].get("failed", 0) == 0 for found in done)
    for found in done:
        name = found["metadata"]["name"]
        waited = [pod for pod in pods if phase(pod) == "Failed" and pod["metadata"]["labels"][JOB_NAME] == name]
        counted = here.team.wait_for("jobs", name, partial(ended, number=len(waited)))
        assert last(counted) == [("Disruption", "SpotUnavailable", "disruption")] * len(waited)
        assert waited


def test_a_pod_that_prefers_spot_is_not_ended_for_it(scene: NewScene) -> None:
    here = scene("default", spot=1, on_demand=1)
    cordon_spot(here)
    here.create("one-pod.yaml", program(0))
    here.team.wait_for("jobs", "train", is_complete)
    (pod,) = here.team.get("pods")["items"]
    assert (pool(pod), noted(pod)["placement"]) == ("on-demand", "Spot")


@pytest.mark.first
def test_every_index_that_finds_no_spot_node_runs_on_demand(scene: NewScene) -> None:
    here = scene("spot-wait", spot=1, on_demand=8)
    cordon_spot(here)
    here.create("fifty-indexes.yaml")
    here.team.pods_of("sweep", lambda pods: [pod for pod in pods if phase(pod) == "Running"][JOBS - 1 :])
    waited = [pod for pod in here.team.get("pods")["items"] if phase(pod) == "Failed"]
    assert {pod["status"]["reason"] for pod in waited} == {"SpotUnavailable"}
    assert {index(pod) for pod in waited} == set(map(str, range(JOBS)))
    found = here.team.wait_for("jobs", "sweep", lambda found: ended(found, len(waited)))
    assert account(found)["cost"] == {"disruption": len(waited)}
    assert found["status"].get("failed", 0) == 0


@pytest.mark.first
def test_a_pod_is_held_back_until_the_delay_is_over_and_then_runs(scene: NewScene) -> None:
    here = scene("delay")
    here.create("one-pod.yaml", program(143, 0))
    pods = here.team.pods_of("train", lambda pods: any(map(is_gated, pods)))
    (gated,) = filter(is_gated, pods)
    (delay,) = explained(here.team, "train")["delays"]
    assert (delay["pod"], delay["rule"], delay["cause"]) == (gated["metadata"]["name"], 0, "ExitCode")
    here.team.wait_for("jobs", "train", is_complete)
    assert explained(here.team, "train")["delays"] == []
    first, second = here.team.pods_of("train", lambda pods: len(pods) == 2)
    assert seconds_between(first, second) >= 25
    assert not is_gated(second)


def test_a_gate_of_a_delay_that_nobody_asked_for_is_removed(scene: NewScene) -> None:
    here = scene("default")
    here.create("gated.yaml", program(0))
    here.team.wait_for("jobs", "train", is_complete)


def test_a_job_that_is_deleted_during_a_delay_leaves_nothing_behind(scene: NewScene) -> None:
    here = scene("delay")
    here.create("one-pod.yaml", program(143, 0))
    here.team.pods_of("train", lambda pods: any(map(is_gated, pods)))
    here.team.delete("job/train")
    here.team.pods_of("train", lambda pods: not pods)


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "CreateContainerConfigError", "InvalidImageName"])
def test_a_pod_that_does_not_start_fails_its_job_with_the_reason_of_the_kubelet(scene: NewScene, reason: str) -> None:
    here = scene("start-timeout")
    here.create("one-pod.yaml", program(0, cannot_start=reason))
    failed = here.team.wait_for("jobs", "train", failed_for)
    said = condition(failed, "Failed")
    assert said["reason"] == "NeverStarted"
    how = "can never start" if reason == "InvalidImageName" else "has not started in 8 s"
    assert f" {how}: {reason}: rpc error: not found" in said["message"]
    counted = here.team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert last(counted) == [("NeverStarted", "", "fatal")]


def test_with_a_rule_a_pod_that_does_not_start_is_replaced_and_costs_no_retry(scene: NewScene) -> None:
    here = scene("start-again")
    here.create("one-pod.yaml", program(0, cannot_start="ImagePullBackOff,"))
    done = here.team.wait_for("jobs", "train", is_complete)
    assert done["status"].get("failed", 0) == 0
    counted = here.team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert last(counted) == [("NeverStarted", "ImagePullBackOff", "disruption")]


@pytest.mark.first
def test_a_pod_that_never_starts_is_replaced_no_more_often_than_disruptions_are_allowed(scene: NewScene) -> None:
    here = scene("start-again")
    here.create("one-pod.yaml", program(0, cannot_start="ImagePullBackOff,ImagePullBackOff,ImagePullBackOff"))
    failed = here.team.wait_for("jobs", "train", failed_for)
    assert condition(failed, "Failed")["reason"] == "NeverStarted"
    counted = here.team.wait_for("jobs", "train", lambda found: ended(found, 3))
    assert account(counted)["cost"] == {"disruption": 2, "fatal": 1}


@with_operators
def test_a_job_set_whose_pod_does_not_start_fails_without_a_restart(scene: NewScene) -> None:
    here = scene("start-timeout")
    here.create("training-set.yaml", program(cannot_start="ImagePullBackOff"))
    failed = here.team.wait_for("jobsets", "llm", failed_for)
    assert failed_for(failed) == "FailJobSetFailurePolicyAction"
    assert restarts(failed) == (0, 0)


@with_operators
def test_a_job_set_that_finds_no_spot_node_restarts_once_on_demand(scene: NewScene) -> None:
    here = scene("spot-wait", spot=1, on_demand=1)
    cordon_spot(here)
    here.create("training-set.yaml")
    pods = here.team.pods_of_set("llm", 1, 4)
    assert {pool(pod) for pod in pods} == {"on-demand"}
    assert restarts(here.team.get("jobset", "llm")) == (1, 0)
