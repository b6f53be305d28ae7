"""TrainJobs, run by the Trainer itself: it makes a JobSet from a runtime, which has the limits and the account."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.awaiting import until
from tests.cluster import train_job_crd
from tests.cluster.command_line import run
from tests.cluster.objects import account, condition, ended, has_failed, is_running, last, noted
from tests.cluster.scenarios.conftest import BY_SCHEDULER_AND_EVICTION, program
from tests.cluster.scenarios.test_progress import stalled
from tests.cluster.test_ledger import explained
from webhook.objects.times import written
from webhook.systems.trainer.progress import SERVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene

pytestmark = pytest.mark.systems

TRAIN_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "train"},
    "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "torch"}},
}


def create(here: Scene, does: dict[str, str] | None = None) -> None:
    here.create("training-runtime.yaml", does)
    here.team.create(TRAIN_JOB)


def running(here: Scene, *, but: Object | None = None) -> Object:
    """Return the running pod as soon as there is one, which is not the known pod `but`."""
    (found,) = here.team.running_with("jobset.sigs.k8s.io/jobset-name=train", 1, but=but)
    return found


def test_a_bug_fails_the_train_job_at_once(scene: NewScene) -> None:
    here = scene()
    create(here, program(1))
    root = here.team.wait_for("trainjobs", "train", has_failed)
    assert condition(root, "Failed")["reason"]
    job_set = here.team.wait_for("jobsets", "train", lambda found: ended(found, 1))
    assert last(job_set) == [("ExitCode", "node 1", "fatal")]
    assert len(here.team.get("pods")["items"]) == 1


@BY_SCHEDULER_AND_EVICTION
def test_a_disruption_costs_no_retry(scene: NewScene, disrupt: Callable[[Scene, Object], None], reason: str) -> None:
    here = scene()
    create(here)
    first = running(here)
    disrupt(here, first)
    assert noted(running(here, but=first))["attempt"] == "0"
    job_set = here.team.wait_for("jobsets", "train", lambda found: ended(found, 1))
    assert last(job_set) == [("Disruption", reason, "disruption")]
    assert not has_failed(here.team.get("trainjob", "train"))


def test_the_last_attempt_runs_on_demand(scene: NewScene) -> None:
    here = scene()
    create(here)
    seen = []
    before: Object | None = None
    for _ in range(3):
        before = running(here, but=before)
        seen.append(noted(before))
        here.team.ends(before, 143)
    assert [(one["attempt"], one["placement"]) for one in seen] == [("0", "Spot"), ("1", "Spot"), ("2", "OnDemand")]
    here.team.wait_for("trainjobs", "train", has_failed)


def test_the_limit_on_disruptions_fails_the_train_job(scene: NewScene) -> None:
    here = scene("fail")
    create(here)
    before: Object | None = None
    for _ in range(2):
        before = running(here, but=before)
        here.evict(before)
    here.team.wait_for("trainjobs", "train", has_failed)
    job_set = here.team.wait_for("jobsets", "train", lambda found: ended(found, 2))
    assert "exceeds the limit of 1" in condition(job_set, "Failed")["message"]


def test_explain_sends_from_the_train_job_to_its_job_set(scene: NewScene) -> None:
    here = scene()
    create(here)
    first = running(here)
    here.evict(first)
    here.team.wait_for("jobsets", "train", lambda found: ended(found, 1))
    said = run("explain", f"{here.team.name}/trainjob/train", f"--kubeconfig={here.team.kubeconfig}")
    assert "explain a JobSet that is made from it" in said.stderr
    rows = explained(here.team, "jobset/train")["rows"]
    assert [row["cost"] for row in rows][:1] == ["disruption"]


def test_beyond_the_limit_of_disruptions_the_leader_does_not_suspend_what_the_trainer_would_resume(
    scene: NewScene,
) -> None:
    here = scene("suspend")
    create(here)
    before: Object | None = None
    for _ in range(2):
        before = running(here, but=before)
        here.evict(before)
    running(here, but=before)
    job_set = here.team.wait_for("jobsets", "train", lambda found: ended(found, 2))
    assert not {"suspended", "grants"} & set(account(job_set))  # it has grants once it was resumed
    here.team.patch("jobset/train", {"spec": {"suspend": True}})
    asked = job_set["metadata"]["generation"] + 1
    resumed = here.team.wait_for("jobsets", "train", lambda found: found["metadata"]["generation"] > asked)
    assert resumed["spec"]["suspend"] is False


def test_a_person_suspends_and_resumes_a_train_job_at_no_cost(scene: NewScene) -> None:
    here = scene()
    create(here, program(at_sigterm=143))
    first = running(here)
    before = here.team.get("jobset", "train")["spec"]
    here.team.patch("trainjob/train", {"spec": {"suspend": True}})
    here.team.wait_for("jobsets", "train", lambda found: found["spec"]["suspend"])
    here.team.wait_for("trainjobs", "train", lambda found: condition(found, "Suspended"))
    here.team.wait_for_all("pods", lambda pods: not any(map(is_running, pods)))
    here.team.patch("trainjob/train", {"spec": {"suspend": False}})
    assert noted(running(here, but=first))["attempt"] == "0"
    job_set = here.team.wait_for("jobsets", "train", lambda found: ended(found, 1))
    assert last(job_set) == [("Other", "Stopped", "none")]
    assert job_set["spec"] == before  # the Trainer has written it again, and the webhook its rules


def tells(here: Scene) -> None:
    """Let the Trainer write that the training is where it was, as of now."""
    status = {"trainerStatus": {"progressPercentage": 42, "lastUpdatedTime": written(time.time())}}
    patch = json.dumps({"status": status})
    done = here.team.run("patch", "trainjob", "train", "--subresource=status", "--type=merge", f"--patch={patch}")
    assert done.returncode == 0, done.stderr


def test_a_training_whose_status_says_nothing_new_is_ended_and_one_that_says_a_new_time_is_not(scene: NewScene) -> None:
    """The Trainer of these tests writes no trainerStatus; the CRD of the next one has it."""
    here = scene("progress")
    with train_job_crd.newer(here.kubectl):
        here.create("training-runtime.yaml")
        container = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0"
        patch = json.dumps(
            [{"op": "add", "path": f"{container}/env", "value": [{"name": SERVER, "value": "https://x"}]}]
        )
        assert here.team.run("patch", "trainingruntime", "torch", "--type=json", f"--patch={patch}").returncode == 0
        here.team.create(TRAIN_JOB)
        first = running(here)
        begin = time.monotonic()

        def is_over() -> bool:
            tells(here)
            return time.monotonic() > begin + 40  # twice the timeout

        until(is_over)
        name = first["metadata"]["name"]
        assert not stalled(here.team.get("pod", name))
        here.team.wait_for("pods", name, stalled)
        here.team.ends(first, 137)
        running(here, but=first)
        job_set = here.team.wait_for("jobsets", "train", lambda found: ended(found, 1))
        assert last(job_set) == [("Stalled", "", "retry")]
