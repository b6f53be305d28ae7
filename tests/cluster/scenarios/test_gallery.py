"""The recipes in docs/gallery: each manifest under its own policy does what its page says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.disruptions import NODES
from tests.cluster.installation import GALLERY
from tests.cluster.kueue_controller import MANAGED
from tests.cluster.objects import account, ended, is_running, last, noted
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_jobs import failed_for, is_complete, pool
from tests.cluster.test_retry_pipeline_runs import succeeded_is
from tests.documents import document_of, documents_of
from webhook.systems.tekton.rerun import TASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace
    from tests.cluster.scenarios.conftest import NewScene, Scene

GPUS = {"status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}}


def recipe(name: str) -> str:
    """Return the absolute path of a manifest in the gallery."""
    return str(GALLERY / name)


def with_gpus(scene: NewScene) -> Scene:
    """Return a scene with a spot node and an on-demand node of eight GPUs each."""
    here = scene("gpu-training", spot=1, on_demand=1)
    for node in here.nodes.nodes:
        here.team.api.patch(f"{NODES}/{node}/status", GPUS)
    return here


def next_pod(here: Scene, job: str, before: Object | None = None) -> Object:
    (found,) = here.team.running(job, 1, but=before)
    return found


@pytest.mark.first
def test_gpu_training_on_spot_is_disrupted_twice_at_no_cost_and_goes_on_on_demand(scene: NewScene) -> None:
    here = with_gpus(scene)
    here.create(recipe("gpu-training-on-spot/train.yaml"), program(at_sigterm=143))
    first = next_pod(here, "train")
    here.evict(first)
    second = next_pod(here, "train", first)
    here.evict(second)
    third = next_pod(here, "train", second)
    assert [pool(pod) for pod in (first, second, third)] == ["spot", "spot", "on-demand"]
    here.team.ends(third, 0)
    done = here.team.wait_for("jobs", "train", is_complete)
    assert account(done)["cost"] == {"disruption": 2}
    assert done["status"].get("failed", 0) == 0


def test_a_bug_in_gpu_training_fails_at_once(scene: NewScene) -> None:
    here = with_gpus(scene)
    here.create(recipe("gpu-training-on-spot/train.yaml"), program(1))
    failed = here.team.wait_for("jobs", "train", failed_for)
    assert (failed_for(failed), failed["status"]["failed"]) == ("PodFailurePolicy", 1)


def tonight(here: Scene, *exits: int) -> None:
    """Start a Job of the CronJob now, whose program ends with these codes, one for each attempt."""
    here.create(recipe("nightly-etl/nightly.yaml"), program(*exits))
    started = here.team.run("create", "job", "tonight", "--from=cronjob/nightly")
    assert started.returncode == 0, started.stderr


@pytest.mark.first
def test_a_nightly_load_is_retried_while_the_database_is_busy_and_its_last_attempt_runs_on_demand(
    scene: NewScene,
) -> None:
    here = scene("nightly-etl")
    tonight(here, 75, 75, 0)
    done = here.team.wait_for("jobs", "tonight", is_complete)
    pods = here.team.pods_of("tonight", lambda pods: len(pods) == 3)
    assert [pool(pod) for pod in pods] == ["spot", "spot", "on-demand"]
    assert done["status"]["failed"] == 2


def test_a_nightly_load_with_a_bug_fails_at_once_and_a_person_may_rerun_it(scene: NewScene) -> None:
    here = scene("nightly-etl")
    tonight(here, 1)
    failed = here.team.wait_for("jobs", "tonight", failed_for)
    assert (failed_for(failed), failed["status"]["failed"]) == ("PodFailurePolicy", 1)
    assert failed["metadata"]["annotations"]["retry-policy.dev/retryable"] == "true"


def attempt_of(team: Namespace, task: str, attempt: str) -> Object:
    """Return the pod of that attempt of a task as soon as it runs."""

    def chosen(pods: list[Object]) -> list[Object]:
        return [pod for pod in pods if is_running(pod) and noted(pod)["attempt"] == attempt]

    (found,) = chosen(team.wait_for_all("pods", chosen, selector=f"{TASK}={task}"))
    return found


@with_operators
def test_a_test_in_ci_has_its_last_attempt_on_demand_and_publishing_runs_on_demand_at_once(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "tekton-ci")
    team.create(document_of((GALLERY / "ci-on-tekton" / "build.yaml").read_text()))
    nodes = []
    for task, attempt, code in (("test", "0", 1), ("test", "1", 1), ("test", "2", 0), ("publish", "0", 0)):
        pod = attempt_of(team, task, attempt)
        nodes.append(pod["spec"]["nodeName"].rpartition("-")[0])
        team.ends(pod, code)
    team.wait_for("pipelineruns", "build", succeeded_is("True"))
    assert {one["spec"]["timeout"] for one in team.get("taskruns")["items"]} == {"30m0s"}
    assert nodes == ["spot", "spot", "on-demand", "on-demand"]


@with_operators
def test_a_test_in_ci_whose_command_is_not_there_is_not_tried_again(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "tekton-ci")
    team.create(document_of((GALLERY / "ci-on-tekton" / "build.yaml").read_text()))
    team.ends(attempt_of(team, "test", "0"), 127)
    team.wait_for("pipelineruns", "build", succeeded_is("False"))
    (task,) = team.get("taskruns")["items"]
    assert task["spec"]["status"] == "TaskRunCancelled"


@with_operators
def test_a_task_in_ci_with_five_retries_is_denied(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "tekton-ci")
    refused = team.refusal(document_of((GALLERY / "ci-on-tekton" / "too-many-retries.yaml").read_text()))
    assert "spec.retries: 5 retries exceed the limit of 2 in profile 'tekton-ci'; set 2 or less" in refused


@pytest.fixture
def queue(scene: NewScene, kubectl: Kubectl) -> Iterator[Scene]:
    """Yield a scene with the queue of the recipe; its objects that are in no namespace are deleted afterwards."""
    here = scene("queued", spot=1, labels={MANAGED: ""})
    objects = documents_of((GALLERY / "kueue-and-spot" / "queue.yaml").read_text())
    for one in objects:
        here.team.apply(one)
    yield here
    for one in objects:
        if one["kind"] != "LocalQueue":
            kubectl.run("delete", one["kind"].lower(), one["metadata"]["name"], "--ignore-not-found", "--wait=false")


@with_operators
@pytest.mark.kueue
def test_a_queued_job_that_kueue_preempts_runs_again_on_spot_at_no_cost_and_a_bug_fails_it(queue: Scene) -> None:
    simulate = recipe("kueue-and-spot/simulate.yaml")
    queue.create(simulate, program(at_sigterm=143))
    first = next_pod(queue, "simulate")
    queue.create(simulate, name="urgent", labels={"kueue.x-k8s.io/priority-class": "urgent"})
    urgent = next_pod(queue, "urgent")
    preempted = queue.team.wait_for("jobs", "simulate", lambda one: one["spec"]["suspend"] and ended(one, 1))
    assert last(preempted) == [("WorkloadEvicted", "Preempted", "none")]
    queue.team.ends(urgent, 0)
    second = next_pod(queue, "simulate", first)
    assert [pool(first), pool(second), noted(second)["attempt"]] == ["spot", "spot", "0"]
    queue.team.ends(second, 1)
    failed = queue.team.wait_for("jobs", "simulate", failed_for)
    assert failed_for(failed) == "PodFailurePolicy"
