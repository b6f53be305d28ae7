"""Jobs that Kueue admits, takes back and admits again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.conftest import with_operators
from tests.cluster.kueue_controller import MANAGED
from tests.cluster.objects import account, condition, ended, last, noted
from tests.cluster.scenarios.conftest import MANIFESTS
from tests.cluster.scenarios.test_jobs import is_complete
from tests.cluster.test_retry import asked
from tests.cluster.test_retry_requests import asks
from webhook import names

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene

pytestmark = with_operators
PRIORITY = "kueue.x-k8s.io/priority-class"


def test_a_job_whose_workload_is_evicted_waits_and_runs_again_at_no_cost(scene: NewScene) -> None:
    here = scene(labels={MANAGED: ""})
    queues = (MANIFESTS / "queues.yaml").read_text().replace("NAME", here.team.name)
    assert here.team.run("create", "--filename=-", stdin=queues).returncode == 0
    here.create("queued.yaml")
    (first,) = here.team.running("train", 1)

    here.create("queued.yaml", name="urgent", labels={PRIORITY: here.team.name})
    (urgent,) = here.team.running("urgent", 1)
    taken_back = here.team.wait_for("jobs", "train", lambda found: found["spec"]["suspend"] and ended(found, 1))
    assert last(taken_back) == [("Other", "Stopped", "none")]

    here.team.ends(urgent, 0)
    (second,) = here.team.running("train", 1, but=first)
    assert noted(second)["attempt"] == "0"
    here.team.ends(second, 0)
    done = here.team.wait_for("jobs", "train", is_complete)
    assert done["status"].get("failed", 0) == 0
    assert account(done)["cost"] == {"none": 1}


def test_indexes_that_are_taken_back_keep_what_all_together_have_left(scene: NewScene) -> None:
    here = scene(labels={MANAGED: ""})
    queues = (MANIFESTS / "queues.yaml").read_text().replace("NAME", here.team.name)
    assert here.team.run("create", "--filename=-", stdin=queues).returncode == 0
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


@pytest.mark.parametrize("how", ["by the command", "by an annotation"])
def test_a_job_that_failed_and_is_asked_to_run_again_waits_in_its_queue(scene: NewScene, how: str) -> None:
    here = scene(labels={MANAGED: ""})
    queues = (MANIFESTS / "queues.yaml").read_text().replace("NAME", here.team.name)
    assert here.team.run("create", "--filename=-", stdin=queues).returncode == 0
    before = here.create("queued.yaml")
    here.team.run("annotate", "job/train", f"{names.RETRYABLE}=true")
    here.team.ends(here.team.running("train", 1)[0], 1)
    here.team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    here.create("queued.yaml", name="urgent", labels={PRIORITY: here.team.name})
    (urgent,) = here.team.running("urgent", 1)

    if how == "by the command":
        assert asked(here.team, "job/train", "--yes")[::2] == (0, "")
    else:
        assert asks(here.team, "job/train").stderr == ""
    waiting = here.team.wait_for("jobs", "train", lambda found: runs_in_place_of(before, found))
    assert waiting["metadata"]["labels"] == before["metadata"]["labels"]
    assert waiting["spec"]["suspend"]

    here.team.ends(urgent, 0)
    here.team.ends(here.team.running("train", 1)[0], 0)
    here.team.wait_for("jobs", "train", is_complete)


def runs_in_place_of(before: Object, found: Object) -> bool:
    """Tell whether a Job has been created in place of another, and let go."""
    metadata = found["metadata"]
    return metadata["uid"] != before["metadata"]["uid"] and names.RETRY_OF not in metadata["labels"]
