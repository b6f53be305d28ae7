"""Jobs that Kueue admits, preempts and admits again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import disruptions
from tests.cluster.conftest import with_operators
from tests.cluster.kueue_controller import MANAGED
from tests.cluster.objects import account, condition, ended, last, noted, restarts
from tests.cluster.scenarios.conftest import MANIFESTS, program
from tests.cluster.scenarios.test_jobs import is_complete
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry import run_retry
from tests.cluster.test_retry_requests import request_retry
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene

pytestmark = [with_operators, pytest.mark.kueue]
PRIORITY = "kueue.x-k8s.io/priority-class"


def with_a_queue(scene: NewScene, profile: str = "default", *, spot: int = 2) -> Scene:
    """Return a scene with a Kueue queue for 20 CPUs, and a high WorkloadPriorityClass with the same name."""
    here = scene(profile, spot=spot, labels={MANAGED: ""})
    queues = (MANIFESTS / "queues.yaml").read_text().replace("NAME", here.team.name)
    assert here.team.run("create", "--filename=-", stdin=queues).returncode == 0
    return here


def preempt(here: Scene, kind: str, name: str, pods: int, *, by: str = "urgent") -> None:
    """Let Kueue preempt a workload, of which this number of pods fails, for an urgent Job; then end the urgent Job."""
    here.create("queued.yaml", name=by, labels={PRIORITY: here.team.name})
    (urgent,) = here.team.running(by, 1)
    here.team.wait_for(kind, name, lambda found: found["spec"].get("suspend") and ended(found, pods))
    here.team.ends(urgent, 0)


def workload_of(here: Scene, name: str) -> Object:
    """Return Kueue's Workload for a Job."""
    (found,) = [
        one for one in here.team.get("workloads")["items"] if one["metadata"]["ownerReferences"][0]["name"] == name
    ]
    return dict(found)


def test_a_job_that_kueue_preempts_waits_and_runs_again_at_no_cost(scene: NewScene) -> None:
    here = with_a_queue(scene)
    here.create("queued.yaml")
    (first,) = here.team.running("train", 1)

    here.create("queued.yaml", name="urgent", labels={PRIORITY: here.team.name})
    (urgent,) = here.team.running("urgent", 1)
    preempted = here.team.wait_for("jobs", "train", lambda found: found["spec"]["suspend"] and ended(found, 1))
    assert last(preempted) == [("WorkloadEvicted", "Preempted", "none")]

    here.team.ends(urgent, 0)
    (second,) = here.team.running("train", 1, but=first)
    assert noted(second)["attempt"] == "0"
    here.team.ends(second, 0)
    done = here.team.wait_for("jobs", "train", is_complete)
    assert done["status"].get("failed", 0) == 0
    assert account(done)["cost"] == {"none": 1}


def test_a_preemption_by_kueue_does_not_reset_the_retries_of_an_indexed_job(scene: NewScene) -> None:
    here = with_a_queue(scene)
    here.create("queued-indexes.yaml")
    first = here.team.running("train", 2)
    here.team.ends(first[0], 143)
    here.team.wait_for("jobs", "train", lambda found: ended(found, 1))
    before = here.team.running("train", 2)

    here.create("queued.yaml", name="urgent", labels={PRIORITY: here.team.name})
    (urgent,) = here.team.running("urgent", 1)
    here.team.wait_for("jobs", "train", lambda found: found["spec"]["suspend"] and ended(found, 3))
    here.team.ends(urgent, 0)

    again = here.team.running("train", 2)
    assert not {one["metadata"]["uid"] for one in again} & {one["metadata"]["uid"] for one in before}
    here.team.ends(again[0], 143)
    failed = here.team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "BackoffLimitExceeded"


@pytest.mark.parametrize("code", [0, 1, 130, 137, 143])
def test_a_job_that_kueue_preempts_runs_again_whatever_its_exit_code(scene: NewScene, code: int) -> None:
    here = with_a_queue(scene)
    here.create("queued.yaml", program(at_sigterm=code))
    (first,) = here.team.running("train", 1)
    preempt(here, "jobs", "train", 0 if code == 0 else 1)
    (second,) = here.team.running("train", 1, but=first)
    here.team.ends(second, 0)
    here.team.wait_for("jobs", "train", is_complete)


def evicted(found: Object) -> dict[str, int]:
    """Return how often Kueue has evicted a workload, by reason, according to its account."""
    return dict(account(found).get("evictions", {}).get("reasons", {}))


def test_the_account_of_a_job_that_was_preempted_twice_says_so_and_its_budgets_are_untouched(scene: NewScene) -> None:
    here = with_a_queue(scene)
    here.create("queued.yaml")
    (pod,) = here.team.running("train", 1)
    for time in (1, 2):
        preempt(here, "jobs", "train", time, by=f"urgent-{time}")
        (pod,) = here.team.running("train", 1, but=pod)
        assert noted(pod)["attempt"] == "0"
    here.team.ends(pod, 0)
    done = here.team.wait_for("jobs", "train", lambda found: is_complete(found) and evicted(found))
    assert evicted(done) == {"Preempted": 2}
    assert last(done) == [("WorkloadEvicted", "Preempted", "none")] * 2
    assert (account(done)["cost"], account(done)["left"]) == ({"none": 2}, {"retries": 3, "disruptions": 20})
    told = explained(here.team, "train")
    assert "evicted by Kueue 2 times (2 Preempted)" in told["budgets"]
    assert [row["ended"] for row in told["rows"]][:2] == ["evicted by Kueue (Preempted)"] * 2


def test_a_person_who_suspends_a_queued_job_by_hand_has_not_evicted_it(scene: NewScene) -> None:
    here = with_a_queue(scene)
    here.create("queued.yaml")
    (first,) = here.team.running("train", 1)
    here.team.patch("job/train", {"spec": {"suspend": True}})
    stopped = here.team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert last(stopped) == [("Other", "Stopped", "none")]
    assert not evicted(stopped)
    here.team.running("train", 1, but=first)  # Kueue resumes it, because its Workload is admitted


def test_a_job_that_kueue_evicts_more_often_than_allowed_is_deactivated_until_a_person_activates_it(
    scene: NewScene,
) -> None:
    here = with_a_queue(scene, "evictions-deactivate")
    here.create("queued.yaml")
    (pod,) = here.team.running("train", 1)
    name = workload_of(here, "train")["metadata"]["name"]
    preempt(here, "jobs", "train", 1, by="urgent-1")
    here.team.running("train", 1, but=pod)
    preempt(here, "jobs", "train", 2, by="urgent-2")
    here.team.wait_for("jobs", "train", lambda found: account(found)["evictions"].get("deactivated"))
    assert here.team.get("workload", name)["spec"]["active"] is False
    (message,) = here.team.told("train", "EvictionLimitExceeded")
    assert message.startswith("deactivated: evicted by Kueue 2 times (2 Preempted), more than the limit of 1; to allow")
    (line,) = [line for line in explained(here.team, "train")["budgets"] if "Kueue" in line]
    assert line == "evicted by Kueue 2 times (2 Preempted); 0 left"

    here.team.patch(f"workload/{name}", {"spec": {"active": True}})
    (third,) = here.team.running("train", 1)
    preempt(here, "jobs", "train", 3, by="urgent-3")
    (fourth,) = here.team.running("train", 1, but=third)
    here.team.ends(fourth, 0)
    done = here.team.wait_for("jobs", "train", is_complete)
    assert evicted(done)["Preempted"] == 3


def test_a_job_that_kueue_evicts_more_often_than_allowed_fails_if_the_profile_says_so(scene: NewScene) -> None:
    here = with_a_queue(scene, "evictions-fail")
    here.create("queued.yaml")
    (first,) = here.team.running("train", 1)
    preempt(here, "jobs", "train", 1, by="urgent-1")
    here.team.running("train", 1, but=first)
    here.create("queued.yaml", name="urgent-2", labels={PRIORITY: here.team.name})
    failed = here.team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert failed_by_evictions(failed)
    assert account(failed)["cost"] == {"none": 2}


def test_a_job_set_that_kueue_evicts_more_often_than_allowed_fails_if_the_profile_says_so(scene: NewScene) -> None:
    here = with_a_queue(scene, "evictions-fail")
    here.create("queued-set.yaml")
    here.team.pods_of_set("llm", 0, 4)
    preempt(here, "jobsets", "llm", 4, by="urgent-1")
    here.team.pods_of_set("llm", 0, 4)
    here.create("queued.yaml", name="urgent-2", labels={PRIORITY: here.team.name})
    assert failed_by_evictions(here.team.wait_for("jobsets", "llm", lambda found: condition(found, "Failed")))


def failed_by_evictions(found: Object) -> bool:
    """Return True if a workload has failed because Kueue has evicted it twice, as its account says."""
    failed = condition(found, "Failed")
    assert failed["message"] == "evicted by Kueue 2 times (2 Preempted), more than the limit of 1"
    assert evicted(found) == {"Preempted": 2}
    return bool(failed["reason"] == "EvictionLimitExceeded")


def test_deactivating_and_activating_the_workload_of_a_job_costs_nothing(scene: NewScene) -> None:
    here = with_a_queue(scene)
    here.create("queued.yaml")
    (first,) = here.team.running("train", 1)
    name = workload_of(here, "train")["metadata"]["name"]
    here.team.patch(f"workload/{name}", {"spec": {"active": False}})
    held = here.team.wait_for("jobs", "train", lambda found: found["spec"]["suspend"] and ended(found, 1))
    assert last(held) == [("WorkloadEvicted", "Deactivated", "none")]
    here.team.patch(f"workload/{name}", {"spec": {"active": True}})
    (second,) = here.team.running("train", 1, but=first)
    here.team.ends(second, 0)
    assert account(here.team.wait_for("jobs", "train", is_complete))["cost"] == {"none": 1}


def test_a_job_whose_pods_are_not_ready_in_time_waits_and_runs_again_at_no_cost(scene: NewScene) -> None:
    here = with_a_queue(scene, spot=0)
    for node in here.nodes.nodes:
        disruptions.cordon(here.kubectl, node)
    here.create("queued.yaml")
    here.team.wait_for("jobs", "train", lambda found: found["status"].get("active"))
    here.team.wait_for("jobs", "train", lambda found: found["spec"]["suspend"] and found["status"].get("conditions"))
    assert workload_of(here, "train")["status"]["schedulingStats"]["evictions"][0]["reason"] == "PodsReadyTimeout"
    here.nodes.add()
    (pod,) = here.team.running("train", 1)
    assert noted(pod)["attempt"] == "0"
    here.team.ends(pod, 0)
    done = here.team.wait_for("jobs", "train", is_complete)
    assert set(account(done).get("cost", {})) <= {"none"}
    assert evicted(done)["PodsReadyTimeout"] >= 1
    assert set(last(done)) == {("WorkloadEvicted", "PodsReadyTimeout", "none")}
    assert account(done)["evictions"]["requeues"] == evicted(done)["PodsReadyTimeout"]


@pytest.mark.parametrize(
    ("profile", "code"), [("default", 1), ("default", 137), ("retry", 1), ("fail-job", 137), ("restart-pod", 137)]
)
def test_a_job_set_that_kueue_preempts_runs_again_at_no_cost(scene: NewScene, profile: str, code: int) -> None:
    here = with_a_queue(scene, profile)
    here.create("queued-set.yaml", program(at_sigterm=code))
    here.team.pods_of_set("llm", 0, 4)
    preempt(here, "jobsets", "llm", 4)
    pods = here.team.pods_of_set("llm", 0, 4)
    here.team.all_end(pods, 0)
    done = here.team.wait_for("jobsets", "llm", lambda found: condition(found, "Completed"))
    assert restarts(done) == (0, 0)
    assert account(done)["cost"] == {"none": 4}
    assert evicted(done) == {"Preempted": 1}  # one eviction has ended four pods
    assert account(done)["causes"] == {"WorkloadEvicted": {"Preempted": 4}}


@pytest.mark.parametrize("code", [1, 137, 143])
def test_scaling_an_elastic_job_in_its_queue_costs_nothing(scene: NewScene, code: int) -> None:
    here = with_a_queue(scene)
    here.create("queued-elastic.yaml", program(at_sigterm=code))
    here.team.running("elastic", 2)
    here.team.patch("job/elastic", {"spec": {"completions": 4, "parallelism": 4}})
    here.team.running("elastic", 4)
    here.team.patch("job/elastic", {"spec": {"completions": 1, "parallelism": 1}})
    left = here.team.running("elastic", 1)
    here.team.wait_for("jobs", "elastic", lambda found: ended(found, 3))
    here.team.all_end(left, 0)
    done = here.team.wait_for("jobs", "elastic", is_complete)
    assert account(done)["cost"] == {"none": 3}


@pytest.mark.parametrize("how", ["by the command", "by an annotation"])
def test_a_requested_retry_waits_in_the_queue_of_the_job(scene: NewScene, how: str) -> None:
    here = with_a_queue(scene)
    before = here.create("queued.yaml")
    here.team.annotate("job/train", {names.RETRYABLE: "true"})
    here.team.ends(here.team.running("train", 1)[0], 1)
    here.team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    here.create("queued.yaml", name="urgent", labels={PRIORITY: here.team.name})
    (urgent,) = here.team.running("urgent", 1)

    if how == "by the command":
        assert run_retry(here.team, "job/train", "--yes")[::2] == (0, "")
    else:
        assert request_retry(here.team, "job/train").stderr == ""
    waiting = here.team.wait_for("jobs", "train", lambda found: is_released_successor(before, found))
    assert waiting["metadata"]["labels"] == before["metadata"]["labels"]
    assert waiting["spec"]["suspend"]

    here.team.ends(urgent, 0)
    here.team.ends(here.team.running("train", 1)[0], 0)
    here.team.wait_for("jobs", "train", is_complete)


def is_released_successor(before: Object, found: Object) -> bool:
    """Return True if a Job is the successor of another one, and is released."""
    metadata = found["metadata"]
    return metadata["uid"] != before["metadata"]["uid"] and names.RETRY_OF not in metadata["labels"]
