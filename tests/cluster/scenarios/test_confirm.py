"""Exit codes that nothing explains, with `unknownExit: Confirm`: tried once more, and then a bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.objects import account, condition, ended
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_jobs import failed_for, is_complete

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import NewScene


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
    assert "exit code 3, the second failure that nothing explains; the one before it: main 1" in message


@pytest.mark.first
def test_an_index_has_one_more_try_and_the_other_indexes_go_on(scene: NewScene) -> None:
    here = scene("confirm")
    here.create("shards.yaml", program(1, 0))
    done = here.team.wait_for("jobs", "shards", is_complete)
    assert (done["status"]["succeeded"], done["status"]["failed"]) == (12, 12)
