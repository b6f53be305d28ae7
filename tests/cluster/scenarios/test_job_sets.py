"""JobSets during host maintenance, and JobSets whose pods depend on each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.conftest import with_operators
from tests.cluster.manifests import DELETION_SECONDS
from tests.cluster.objects import condition, noted, restarts
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_disruptions import maintain_node
from tests.cluster.scenarios.test_jobs import failed_for
from webhook.systems.job_set.spec import REPLICATED_JOB

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene

pytestmark = with_operators
SAVES_ITS_STATE = program(at_sigterm=143, after=4)  # in these seconds the other pods crash


def started(here: Scene, restart: int) -> list[Object]:
    """Return the pods of a restart of the JobSet as soon as all run."""
    return here.team.pods_of_set("llm", restart, 4)


def test_host_maintenance_restarts_the_whole_job_set_and_a_bug_fails_it(scene: NewScene) -> None:
    here = scene("fail-job", spot=1)
    here.create("training-set.yaml")
    maintain_node(here, started(here, 0))
    pods = started(here, 1)
    assert restarts(here.team.get("jobset", "llm")) == (1, 0)
    here.team.ends(pods[0], 1)
    failed = here.team.wait_for("jobsets", "llm", failed_for)
    assert failed_for(failed) == "FailJobSetFailurePolicyAction"
    assert restarts(failed) == (1, 0)


def test_with_restart_pod_host_maintenance_replaces_only_the_pods(scene: NewScene) -> None:
    here = scene("restart-pod", spot=1)
    here.create("training-set.yaml")
    before = started(here, 0)
    maintain_node(here, before)
    old_uids = {pod["metadata"]["uid"] for pod in before}
    pods = here.team.wait_for_all("pods", lambda found: len(found) == 4 and all(map(ready, found)))
    assert not old_uids & {pod["metadata"]["uid"] for pod in pods}
    assert restarts(here.team.get("jobset", "llm")) == (0, 0)
    here.team.ends(pods[0], 1)
    failed = here.team.wait_for("jobsets", "llm", failed_for)
    assert failed_for(failed) == "FailJobSetFailurePolicyAction"


def ready(pod: Object) -> bool:
    return bool(condition(pod, "Ready"))


def test_with_coupled_fail_job_a_crash_beside_an_evicted_pod_fails_the_job_set(scene: NewScene) -> None:
    """The Job controller must see the crash alone: had both ended by then, it could as well restart the set."""
    here = scene("fail-job")
    here.create("training-set.yaml", program(at_sigterm=143, after=3600))
    first, peer, *others = started(here, 0)
    here.team.evict(first["metadata"]["name"])
    here.team.ends(peer, 1)
    here.team.wait_for_all("jobs", lambda found: any(condition(job, "FailureTarget") for job in found))
    for pod in (first, *others):  # the Job controller deletes the others
        here.team.annotate(f"pod/{pod['metadata']['name']}", {DELETION_SECONDS: "0"})
    failed = here.team.wait_for("jobsets", "llm", failed_for)
    assert failed_for(failed) == "FailJobSetFailurePolicyAction"


@pytest.mark.parametrize("profile", ["retry", "settle-late"])
def test_with_coupled_retry_or_settle_crashes_beside_an_evicted_pod_restart_the_job_set(
    scene: NewScene, profile: str
) -> None:
    here = scene(profile)
    here.create("training-set.yaml", SAVES_ITS_STATE)
    first, *peers = started(here, 0)
    here.team.evict(first["metadata"]["name"])
    here.team.all_end(peers, 1)
    started(here, 1)
    assert restarts(here.team.get("jobset", "llm")) == (1, 0)


def test_with_coupled_retry_a_bug_is_retried(scene: NewScene) -> None:
    here = scene("retry")
    here.create("training-set.yaml")
    first, *_ = started(here, 0)
    here.team.ends(first, 1)
    (job,) = here.team.get("jobs")["items"]
    here.team.running(job["metadata"]["name"], 4, but=first)
    assert restarts(here.team.get("jobset", "llm")) == (0, 0)


def test_the_coordinator_of_a_job_set_runs_on_demand_and_its_workers_on_spot(scene: NewScene) -> None:
    here = scene("next-on-demand", spot=1, on_demand=1)
    here.create("coordinated-set.yaml")
    pods = here.team.pods_of_set("llm", 0, 3)
    placements = sorted((pod["metadata"]["labels"][REPLICATED_JOB], noted(pod)["placement"]) for pod in pods)
    assert placements == [("leader", "OnDemand"), ("workers", "Spot"), ("workers", "Spot")]
