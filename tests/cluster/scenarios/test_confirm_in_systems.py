"""`unknownExit: Confirm` under the controllers of other systems: where they let a bug be tried again, and where not.

RayJobs and SparkApplications have no way, as launchers have none: docs/reference/workloads.md says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.cluster.objects import account, condition, ended, has_failed, last
from tests.cluster.scenarios import test_argo, test_kubeflow, test_mpi, test_trainer
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_jobs import failed_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene

pytestmark = pytest.mark.systems


class Kind(NamedTuple):
    """A kind whose system starts a pod again after a bug.

    - `kind`: its resource. `succeeded`: the type of its condition. `code`: the exit code of the bug, and of which
      container.
    - `counted`, `ended`: resource and name of what has the account, and of what the leader ends.
    - `start`: creates `train`, whose pod does as the annotations say.
    """

    kind: str
    succeeded: str
    code: int
    container: str
    counted: tuple[str, str]
    ended: tuple[str, str]
    start: Callable[[Scene, dict[str, str]], object]


def start_training_job(here: Scene, does: dict[str, str]) -> object:
    return here.create(test_kubeflow.FILE, does)


# The operator ends a bug below 128 itself.
TRAINING = Kind(
    "pytorchjobs", "Succeeded", 139, "pytorch", ("pytorchjobs", "train"), ("pytorchjobs", "train"), start_training_job
)
TRAIN_JOB = Kind(
    "trainjobs", "Complete", 1, "node", ("jobsets", "train"), ("jobs", "train-node-0"), test_trainer.create
)
KINDS = pytest.mark.parametrize("kind", [TRAINING, TRAIN_JOB], ids=lambda kind: kind.kind)


@KINDS
def test_a_bug_is_tried_again_and_the_workload_completes(scene: NewScene, kind: Kind) -> None:
    here = scene("confirm")
    kind.start(here, program(kind.code, 0))
    here.team.wait_for(kind.kind, "train", lambda found: condition(found, kind.succeeded))
    counted = here.team.wait_for(*kind.counted, lambda found: ended(found, 1))
    assert last(counted)[0] == ("ExitCode", f"{kind.container} {kind.code}", "retry")
    assert "fatal" not in account(counted)["cost"]


@KINDS
def test_the_second_bug_ends_the_workload_with_retries_left_and_the_message_names_both(
    scene: NewScene, kind: Kind
) -> None:
    here = scene("confirm")
    kind.start(here, program(kind.code, kind.code))
    here.team.wait_for(kind.kind, "train", has_failed)
    said = condition(here.team.wait_for(*kind.ended, failed_for), "Failed")["message"]
    assert f"exit code {kind.code}" in said
    assert f"the second failure that nothing explains; the one before it: {kind.container} {kind.code}" in said
    counted = here.team.wait_for(*kind.counted, lambda found: account(found)["cost"].get("fatal"))
    assert account(counted)["cost"]["retry"] == 1


def test_where_the_fields_of_a_training_job_decide_a_bug_ends_it_at_once(scene: NewScene) -> None:
    here = scene("confirm")
    here.create(test_kubeflow.FILE, program(1))
    found = here.team.wait_for(test_kubeflow.JOBS, "train", lambda found: has_failed(found) and ended(found, 1))
    assert last(found) == [("ExitCode", "pytorch 1", "fatal")]


def test_where_the_expression_of_a_workflow_decides_a_bug_ends_its_step_at_once(scene: NewScene) -> None:
    here = scene("confirm")
    test_argo.run(here, test_argo.step("main", {"limit": 3}, program(1)))
    found = test_argo.until(here.team, lambda found: test_argo.phase(found) == "Failed" and ended(found, 1))
    assert last(found) == [("ExitCode", "main 1", "fatal")]


def test_each_failure_of_a_launcher_costs_a_retry_because_its_exit_codes_say_nothing(scene: NewScene) -> None:
    here = scene("confirm")
    here.create(test_mpi.FILE)
    launcher: Object | None = None
    for _ in range(2):
        launcher = test_mpi.launcher_of(here, but=launcher)
        here.team.ends(launcher, 1)
    test_mpi.launcher_of(here, but=launcher)
    job = here.team.wait_for("jobs", test_mpi.LAUNCHER, lambda found: ended(found, 2))
    assert account(job)["cost"] == {"retry": 2}
