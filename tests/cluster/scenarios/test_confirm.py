"""Exit codes that nothing explains, with `unknownExit: Confirm`: tried once more, and then a bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.objects import account, condition, ended, last
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_failure_costs import has_failed
from tests.cluster.scenarios.test_jobs import failed_for, is_complete
from tests.cluster.scenarios.test_tekton import task_that
from tests.cluster.test_retry_pipeline_runs import pipeline_run, succeeded_is
from webhook.systems.tekton.rerun import words_of

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.scenarios.conftest import NewScene

OF_BROKEN = "jobset.sigs.k8s.io/jobset-name=broken"
SECOND = "exit code 3, the second failure that nothing explains; the one before it: main 1"


@pytest.mark.first
def test_a_program_that_fails_once_without_a_reason_is_tried_again_and_completes(scene: NewScene) -> None:
    here = scene("confirm")
    here.create("one-pod.yaml", program(1, 0))
    here.team.wait_for("jobs", "train", is_complete)
    counted = here.team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert account(counted)["cost"] == {"retry": 1}


@pytest.mark.first
def test_the_second_failure_fails_the_job_with_retries_left_and_the_message_names_both(scene: NewScene) -> None:
    here = scene("confirm")
    here.create("one-pod.yaml", program(1, 3, 0))
    failed = here.team.wait_for("jobs", "train", failed_for)
    message = condition(failed, "Failed")["message"]
    assert failed_for(failed) == "PodFailurePolicy"
    assert SECOND in message


@pytest.mark.first
def test_an_index_has_one_more_try_and_the_other_indexes_go_on(scene: NewScene) -> None:
    here = scene("confirm")
    here.create("shards.yaml", program(1, 0))
    done = here.team.wait_for("jobs", "shards", is_complete)
    assert (done["status"]["succeeded"], done["status"]["failed"]) == (12, 12)


@with_operators
def test_the_pod_of_a_job_set_is_tried_again_and_its_second_failure_fails_the_set(scene: NewScene) -> None:
    here = scene("confirm")
    here.create("one-pod-set.yaml", program(1, 0), name="flaky")
    here.create("one-pod-set.yaml", program(1, 3, 0), name="broken")
    done = here.team.wait_for("jobsets", "flaky", lambda found: condition(found, "Completed") and ended(found, 1))
    assert account(done)["cost"] == {"retry": 1}
    here.team.wait_for("jobsets", "broken", has_failed)
    (job,) = here.team.api.list(f"apis/batch/v1/namespaces/{here.team.name}/jobs", labelSelector=OF_BROKEN)["items"]
    assert SECOND in condition(job, "Failed")["message"]


@with_operators
def test_a_task_of_tekton_is_tried_again_and_its_second_failure_cancels_it(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "confirm")
    flaky = task_that("flaky", does=program(1, 0), retries=3)
    team.create(pipeline_run(flaky, task_that("broken", "flaky", does=program(1, 3), retries=3)))
    run = team.wait_for("pipelineruns", "build", lambda found: succeeded_is("False")(found) and ended(found, 3))
    # What the last one cost depends on whether Tekton has retried it before the leader cancels.
    assert [reason for _, reason, _ in last(run)][:3] == ["step-main 1", "step-main 1", "step-main 3"]
    assert SECOND.replace("main", "step-main") in words_of(team.get("taskrun", "build-broken"))
