"""Jobs of more pods than run at once: a bug ends one index, and the Job only if all pods seem to have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.objects import account, condition, ended
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_jobs import failed_for, index

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene


def test_a_bug_of_one_index_ends_that_index_and_all_others_finish(scene: NewScene) -> None:
    here = scene("many-pods")
    here.create("shards.yaml")
    done = set[str]()
    while len(done) < 12:
        pod = here.team.running("shards", min(4, 12 - len(done)))[0]
        here.team.ends(pod, 1 if index(pod) == "3" else 0)
        done.add(index(pod))
    failed = here.team.wait_for("jobs", "shards", failed_for)
    assert failed_for(failed) == "FailedIndexes"
    assert (failed["status"]["failedIndexes"], failed["status"]["completedIndexes"]) == ("3", "0-2,4-11")
    counted = here.team.wait_for("jobs", "shards", lambda found: ended(found, 1))
    assert account(counted)["cost"] == {"fatal": 1}


@pytest.mark.first
def test_a_bug_of_all_pods_ends_the_job_after_a_few_of_them(scene: NewScene) -> None:
    def is_over(found: Object) -> bool:
        return bool(failed_for(found))

    here = scene("many-pods")
    here.create("thousand-shards.yaml", program(1))
    failed = here.team.wait_for("jobs", "shards", is_over)
    assert failed_for(failed) == "JobWideFailure"
    assert "indexes have failed, and none has finished" in condition(failed, "Failed")["message"]
    assert failed["status"].get("succeeded", 0) == 0
