"""Jobs as users write them, from the manifest to their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.objects import account, condition, ended, exit_codes, noted, phase
from tests.cluster.scenarios.conftest import program

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene

INDEX = "batch.kubernetes.io/job-completion-index"


def is_complete(found: Object) -> Object:
    return condition(found, "Complete")


def failed_for(found: Object) -> str:
    """Return the reason for which a Job has failed, empty if it has not failed."""
    return str(condition(found, "Failed").get("reason", ""))


def pool(pod: Object) -> str:
    return "spot" if "-spot-" in pod["spec"]["nodeName"] else "on-demand"


def index(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][INDEX])


def test_a_bug_in_one_of_eight_pods_fails_the_job_at_once_and_ends_the_others(scene: NewScene) -> None:
    here = scene()
    here.create("eight-pods.yaml")
    pods = here.team.running("render-frames", 8)
    here.team.ends(pods[0], 1)
    failed = here.team.wait_for("jobs", "render-frames", failed_for)
    assert failed_for(failed) == "PodFailurePolicy"
    assert failed["status"]["failed"] == 8  # the Job controller ended the other seven
    assert failed["status"].get("active", 0) == 0
    left = {pod["metadata"]["uid"] for pod in here.team.get("pods")["items"]}
    assert left <= {pod["metadata"]["uid"] for pod in pods}
    counted = here.team.wait_for("jobs", "render-frames", lambda found: ended(found, 8))
    assert account(counted)["cost"] == {"fatal": 1, "none": 7}


@pytest.mark.first
def test_a_job_that_exits_on_sigterm_is_retried_up_to_its_budget_and_the_last_attempt_runs_on_demand(
    scene: NewScene,
) -> None:
    here = scene("require")
    here.create("one-pod.yaml", program(143, 143, 0))
    done = here.team.wait_for("jobs", "train", is_complete)
    pods = here.team.pods_of("train", lambda pods: len(pods) == 3)
    assert [pool(pod) for pod in pods] == ["spot", "spot", "on-demand"]
    assert done["status"]["failed"] == 2


@pytest.mark.first
def test_a_job_that_exits_on_sigterm_more_often_than_its_budget_allows_fails(scene: NewScene) -> None:
    here = scene()
    here.create("one-pod.yaml", program(143, 143, 143, 0))
    failed = here.team.wait_for("jobs", "train", failed_for)
    assert failed_for(failed) == "BackoffLimitExceeded"
    assert failed["status"]["failed"] == 3


@pytest.mark.first
def test_a_sidecar_that_is_killed_when_its_pod_ends_does_not_fail_the_job(scene: NewScene) -> None:
    here = scene()
    here.create("sidecar.yaml", program(143, 0, others=137))
    first, second = here.team.pods_of("with-proxy", lambda pods: len([pod for pod in pods if exit_codes(pod)]) == 2)
    assert exit_codes(first) == {"main": 143, "proxy": 137}
    assert exit_codes(second) == {"main": 0, "proxy": 137}
    here.team.running("with-proxy", 1)  # a third attempt: the second pod failed too, because its sidecar was killed
    assert not failed_for(here.team.get("job", "with-proxy"))


def test_a_native_sidecar_that_is_killed_when_its_pod_ends_does_not_fail_the_job(scene: NewScene) -> None:
    here = scene()
    here.create("native-sidecar.yaml", program(143, 0, others=137))
    done = here.team.wait_for("jobs", "with-log-shipper", is_complete)
    assert done["status"]["failed"] == 1


def test_a_program_that_is_killed_because_it_used_too_much_memory_fails_the_job_at_once(scene: NewScene) -> None:
    here = scene()
    here.create("one-pod.yaml", program(137))
    failed = here.team.wait_for("jobs", "train", failed_for)
    assert failed_for(failed) == "PodFailurePolicy"
    assert "exit code 137" in condition(failed, "Failed")["message"]


def test_a_failed_init_container_is_retried(scene: NewScene) -> None:
    here = scene()
    here.create("init-container.yaml", program(1, container="download"))
    (last,) = here.team.running("with-download", 1)
    # The Job controller knows no time at which such a pod has ended, and replaces it at once: if its end is not counted
    # by then, the next pod has the same number, and ends as it did.
    failed = [pod for pod in here.team.get("pods")["items"] if pod["metadata"]["uid"] != last["metadata"]["uid"]]
    downloads = [one for pod in failed for one in pod["status"]["initContainerStatuses"]]
    assert {
        (phase(pod), one["state"]["terminated"]["exitCode"]) for pod, one in zip(failed, downloads, strict=True)
    } == {("Failed", 1)}
    assert here.team.get("job", "with-download")["status"]["failed"] == len(failed)


def test_only_the_index_that_failed_moves_to_on_demand(scene: NewScene) -> None:
    here = scene("require")
    here.create("indexes-with-budgets.yaml")
    pods = here.team.running("shards", 3)
    assert {pool(pod) for pod in pods} == {"spot"}
    failing = next(pod for pod in pods if index(pod) == "1")
    here.team.ends(failing, 143)
    now = {index(pod): pod for pod in here.team.running("shards", 3, but=failing)}
    assert {number: pool(pod) for number, pod in now.items()} == {"0": "spot", "1": "on-demand", "2": "spot"}
    here.team.ends(now["1"], 1)
    for number in "02":
        here.team.ends(now[number], 0)
    done = here.team.wait_for("jobs", "shards", failed_for)
    assert (done["status"]["failedIndexes"], done["status"]["completedIndexes"]) == ("1", "0,2")


@pytest.mark.first
def test_the_jobs_and_pods_of_a_cron_job_get_the_policy(scene: NewScene) -> None:
    here = scene()
    here.create("cron-job.yaml", program(1))
    (job,) = here.team.wait_for_all("jobs", lambda jobs: any(map(failed_for, jobs)))
    assert failed_for(job) == "PodFailurePolicy"
    (pod,) = here.team.get("pods", f"--selector=batch.kubernetes.io/job-name={job['metadata']['name']}")["items"]
    assert noted(pod) == {
        "placement": "Spot",
        "attempt": "0",
        "max-retries": "3",
        "attempt-source": "JobStatus",
    }


def test_a_job_that_was_created_suspended_can_be_suspended_again_at_no_cost(scene: NewScene) -> None:
    here = scene()
    here.create("suspended.yaml")
    here.team.patch("job/queued", {"spec": {"suspend": False}})
    (first,) = here.team.running("queued", 1)
    here.team.patch("job/queued", {"spec": {"suspend": True}})  # the Job controller then kills its pod
    here.team.wait_for("jobs", "queued", lambda found: ended(found, 1) and condition(found, "Suspended"))
    here.team.patch("job/queued", {"spec": {"suspend": False}})
    (second,) = here.team.running("queued", 1, but=first)
    here.team.ends(second, 0)
    done = here.team.wait_for("jobs", "queued", is_complete)
    assert done["status"].get("failed", 0) == 0


def test_a_user_is_warned_that_suspending_a_running_job_may_fail_it(scene: NewScene) -> None:
    here = scene()
    here.create("one-pod.yaml")
    here.team.running("train", 1)
    warned = here.team.run("patch", "job", "train", "--type=merge", '--patch={"spec":{"suspend":true}}').stderr
    warning = "spec.suspend: pods that this ends may fail the Job; safe if they exit with 143 on SIGTERM"
    assert f"Warning: Job {here.team.name}/train: {warning}" in warned


def test_an_elastic_job_completes_after_it_is_scaled_down(scene: NewScene) -> None:
    here = scene()
    here.create("elastic.yaml")
    here.team.running("elastic", 3)
    here.team.patch("job/elastic", {"spec": {"completions": 2, "parallelism": 2}})
    left = here.team.running("elastic", 2)
    for pod in left:
        here.team.ends(pod, 0)
    here.team.wait_for("jobs", "elastic", is_complete)


def test_a_job_keeps_the_failure_policy_of_its_author(scene: NewScene) -> None:
    here = scene()
    here.create("own-policy.yaml")
    (first,) = here.team.running("scraper", 1)
    here.team.ends(first, 75)
    (second,) = here.team.running("scraper", 1, but=first)
    assert here.team.get("job", "scraper")["status"].get("failed", 0) == 0  # the author's rule ignores 75
    here.team.ends(second, 1)
    failed = here.team.wait_for("jobs", "scraper", failed_for)
    assert failed_for(failed) == "PodFailurePolicy"  # by the injected rule


def test_failures_after_the_first_success_do_not_fail_a_work_queue(scene: NewScene) -> None:
    here = scene()
    here.create("work-queue.yaml")
    first, *others = here.team.running("consumers", 3)
    here.team.ends(first, 0)
    here.team.all_end(others, 1)
    here.team.wait_for("jobs", "consumers", is_complete)


def test_with_a_success_policy_a_failed_worker_does_not_fail_the_job(scene: NewScene) -> None:
    here = scene()
    here.create("leader-decides.yaml")
    pods = {index(pod): pod for pod in here.team.running("mpi", 3)}
    here.team.ends(pods["1"], 1)
    here.team.wait_for("jobs", "mpi", lambda found: found["status"].get("failed") == 1)
    here.team.ends(pods["0"], 0)
    here.team.wait_for("jobs", "mpi", is_complete)


@pytest.mark.first
def test_an_attempt_that_times_out_and_exits_on_sigterm_is_retried(scene: NewScene) -> None:
    here = scene("timeout")
    here.create("one-pod.yaml", program(None, 0, at_sigterm=143))
    done = here.team.wait_for("jobs", "train", is_complete)
    first, second = here.team.pods_of("train", lambda pods: len(pods) == 2)
    assert (first["status"]["reason"], exit_codes(first)) == ("DeadlineExceeded", {"main": 143})
    assert noted(second)["attempt"] == "1"
    assert done["status"]["failed"] == 1


def test_an_attempt_that_times_out_and_must_be_killed_fails_the_job(scene: NewScene) -> None:
    here = scene("timeout")
    here.create("one-pod.yaml", program())
    failed = here.team.wait_for("jobs", "train", failed_for)
    assert failed_for(failed) == "PodFailurePolicy"
    assert account(here.team.wait_for("jobs", "train", lambda found: ended(found, 1)))["cost"] == {"fatal": 1}
