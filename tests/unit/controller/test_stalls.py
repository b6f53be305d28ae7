"""What the leader does to pods that run and tell no progress. All times are virtual."""

import asyncio
import random
from typing import Any, Final

import pytest
from msgspec.structs import replace

from tests.metrics import counted
from tests.unit.accounts.pods import RULES, running_pod
from tests.unit.controller.leader import JOB_PATH, Answer, FakeApi, events_of, new_ledger
from tests.unit.controller.test_elsewhere import RUN, see_root, workflow
from tests.unit.controller.test_systems_that_restart import PATH as TRAINING_PATH
from tests.unit.controller.test_systems_that_restart import PYTORCH, failures, training_job, worker, written
from tests.unit.controller.test_waiting import (
    BEGIN,
    POD_PATH,
    STATUS_PATH,
    act,
    at,
    ledger,
    see,
    stored,
    stored_job,
    take,
)
from tests.virtual_time import now, run
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.pods import pods as read_pods
from webhook.pods.pods import Condition
from webhook.policy.model import Duration, Profile
from webhook.systems.job.rules.failure_policy import stall_rule
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kubeflow.spec import MPI_JOB
from webhook.systems.tekton.spec import PIPELINE_RUN
from webhook.tracking.nodes import NODES

TIMEOUT: Final = 60  # seconds
PROFILE: Final = Profile(stall_timeout=Duration(TIMEOUT))
REPORTS: Final = replace(PROFILE, actions="Report")
COUNTS: Final[Json] = {"podFailurePolicy": {"rules": [stall_rule(), *RULES]}}
MARK: Final[Json] = {"type": names.STALLED, "status": "True"}


def telling(progress: str | None, *conditions: Json, **spec: Any) -> Json:
    """Return a running pod that tells its progress."""
    root = stored({"nodeName": "spot-1", **spec}, [*conditions], phase="Running", startTime=at(0))
    if progress is not None:
        root["metadata"]["annotations"][names.PROGRESS] = progress
    return root


def watching(api: FakeApi, root: Json, profile: Profile = PROFILE, spec: Json = COUNTS, **ready: str) -> Ledger:
    """Return a leader that has seen one running pod; `ready`: fields of the condition Ready of its node."""
    found = ledger(api, profile, spec=spec)
    api.objects[JOB_PATH] = stored_job(**spec)
    condition = {"type": "Ready", "status": "True", **ready}
    api.objects[NODES] = {"items": [{"status": {"conditions": [condition]}}]}
    take(found, api, root)
    return found


def watched(
    root: Json, seconds: float, profile: Profile = PROFILE, *, ready: str = "True", spec: Json = COUNTS
) -> tuple[FakeApi, list[tuple[str, str]]]:
    """Return what the leader wrote and told in some seconds with one running pod; `ready`: what its node says."""

    async def work() -> list[tuple[str, str]]:
        found = watching(api, root, profile, spec, status=ready)
        await act(found, seconds)
        return events_of(found)

    api = FakeApi()
    return api, run(work())


def test_a_pod_that_tells_no_progress_in_time_is_marked_and_ended_by_its_kubelet() -> None:
    api, _ = watched(telling("0.42"), TIMEOUT + 5)
    mark, end = api.writes
    assert (mark.path, end.path) == (STATUS_PATH, POD_PATH)
    assert mark.at >= TIMEOUT
    (condition,) = mark.operations[-1]["value"]
    assert (condition["type"], condition["status"]) == (names.STALLED, "True")
    assert condition["message"] == "no progress beyond 42.0% in 60 s; find out where the program hangs"
    assert end.operations[-1]["path"] == "/spec/activeDeadlineSeconds"
    assert TIMEOUT <= end.operations[-1]["value"] <= TIMEOUT + 5


@pytest.mark.parametrize(
    ("root", "profile"),
    [
        (telling("0.42"), Profile()),
        (telling(None), PROFILE),
        (telling("1"), PROFILE),
        (telling("much"), PROFILE),
    ],
    ids=["no timeout", "never told", "all done", "no number"],
)
def test_a_pod_of_which_nothing_is_expected_is_left_alone(root: Json, profile: Profile) -> None:
    assert watched(root, 50 * TIMEOUT, profile)[0].writes == []


def test_five_hundred_slow_programs_that_get_on_are_left_alone() -> None:
    async def work() -> None:
        found = ledger(api, PROFILE, spec=COUNTS)
        drawn = random.Random(7)  # noqa: S311 - no secret

        async def tells(number: int) -> None:
            for step in range(20):
                see(found, running_pod(number, progress=step / 1000))
                await asyncio.sleep(drawn.uniform(0.5, 0.99) * TIMEOUT)
            see(found, running_pod(number, phase="Succeeded"))

        async with asyncio.TaskGroup() as group:
            group.create_task(act(found, 20 * TIMEOUT))
            for number in range(500):
                group.create_task(tells(number))

    api = FakeApi()
    run(work())
    assert api.writes == []


def test_the_time_begins_anew_after_a_gap_in_the_watch() -> None:
    async def work() -> None:
        found = watching(api, telling("0.42"))
        await act(found, TIMEOUT - 10)
        found.trackers.pods.live = False
        await act(found, TIMEOUT)
        found.trackers.pods.live = True
        await act(found, TIMEOUT - 10)
        assert api.writes == []
        await act(found, 20)

    api = FakeApi()
    run(work())
    assert [write.path for write in api.writes] == [STATUS_PATH, POD_PATH]


def test_a_pod_on_a_node_that_does_not_report_may_have_told_what_nobody_heard() -> None:
    assert watched(telling("0.42"), 3 * TIMEOUT, ready="Unknown")[0].writes == []


def test_a_pod_is_left_alone_whose_job_would_fail_by_the_exit_code_of_its_end() -> None:
    assert watched(telling("0.42"), 3 * TIMEOUT, spec={"podFailurePolicy": {"rules": RULES}})[0].writes == []


def test_what_the_watch_has_not_delivered_yet_counts() -> None:
    async def work() -> None:
        found = watching(api, telling("0.42"))
        api.objects[POD_PATH] = telling("0.43")
        await act(found, 2 * TIMEOUT)

    api = FakeApi()
    run(work())
    assert api.writes == []


def test_another_leader_ends_a_pod_that_is_marked_already() -> None:
    api, _ = watched(telling("0.42", MARK), TIMEOUT + 5)
    (write,) = api.writes
    assert (write.path, write.operations[-1]["path"]) == (POD_PATH, "/spec/activeDeadlineSeconds")
    before = counted("retry_policy_leader_actions_total", action="evict", result="taken")
    assert watched(telling("0.42", MARK, activeDeadlineSeconds=1), 10 * TIMEOUT)[0].writes == []
    assert counted("retry_policy_leader_actions_total", action="evict", result="taken") == before


def test_a_mark_alone_ends_nothing_that_the_profile_only_reports() -> None:
    assert watched(telling("0.42", MARK), 2 * TIMEOUT, REPORTS)[0].writes == []


def test_a_program_that_goes_on_after_it_was_marked_is_not_ended() -> None:
    async def work() -> None:
        found = watching(api, telling("0.42"))
        await act(found, TIMEOUT + 3)
        take(found, api, telling("0.43", MARK))
        await act(found, TIMEOUT - 10)

    api = FakeApi(Answer(), Answer(error=ApiError(500, "busy")))
    run(work())
    assert [write.path for write in api.writes].count(POD_PATH) == 1  # the one that failed


def test_the_time_in_which_its_node_did_not_report_does_not_count() -> None:
    async def work() -> None:
        found = watching(api, telling("0.42"), lastTransitionTime=at(TIMEOUT - 10))
        await act(found, 2 * TIMEOUT - 15)
        assert api.writes == []
        await act(found, 20)

    api = FakeApi()
    run(work())
    assert [write.path for write in api.writes] == [STATUS_PATH, POD_PATH]


def test_what_an_init_container_has_told_at_its_end_is_not_the_progress_of_a_program_that_runs() -> None:
    ended = {"name": "prepare", "state": {"terminated": {"exitCode": 0, "message": f"{names.PROGRESS}=0.9"}}}
    root = telling("0.42")
    root["status"]["containerStatuses"] = [ended]
    assert read_pods.read(root).progress == 0.42
    root["status"]["phase"] = "Failed"
    assert read_pods.read(root).progress == 0.9


def test_a_pod_is_left_alone_whose_author_judges_the_end_first() -> None:
    bug = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [143]}}
    assert (
        watched(telling("0.42"), 3 * TIMEOUT, spec={"podFailurePolicy": {"rules": [bug, stall_rule()]}})[0].writes == []
    )


def test_with_actions_report_an_event_says_what_would_be_done() -> None:
    api, told = watched(telling("0.42"), TIMEOUT + 5, REPORTS)
    assert api.writes == []
    assert any("no progress beyond 42.0% in 60 s" in message for _, message in told)


REPLICA: Final = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
TASK: Final = {
    "tekton.dev/pipelineRun": "build",
    "tekton.dev/pipelineRunUID": "run-uid",
    "tekton.dev/pipelineTask": "compile",
}
MPI_PATH: Final = "/apis/kubeflow.org/v2beta1/namespaces/ml/mpijobs/train"


def watched_elsewhere(kind: KindSpec, path: str, root: Json, labels: Json, owner: Json) -> list[str]:
    """Return the paths of what the leader writes with a running pod of a workload of another kind that hangs."""

    async def work() -> None:
        found = new_ledger(api, PROFILE)
        found.waiting.clock = lambda: BEGIN.timestamp() + now()
        api.objects[path], api.objects[NODES] = root, {"items": []}
        see_root(found, kind, root)
        pod = telling("0.42")
        pod["metadata"] |= {"labels": labels, "ownerReferences": [{**owner, "controller": True}]}
        take(found, api, pod)
        await act(found, TIMEOUT + 5)

    api = FakeApi()
    run(work())
    return [write.path for write in api.writes]


def training_pod_in(**status: Any) -> list[str]:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "uid": "job-uid"}
    return watched_elsewhere(PYTORCH, TRAINING_PATH, {**training_job(), "status": status}, REPLICA, owner)


def test_a_pod_of_another_kind_that_hangs_is_ended_where_that_costs_a_retry() -> None:
    assert training_pod_in() == [STATUS_PATH, POD_PATH]
    run_uid = workflow("build", "run-uid")
    owner = {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": "build-compile", "uid": "task-run-uid"}
    assert watched_elsewhere(PIPELINE_RUN, RUN, run_uid, TASK, owner) == [STATUS_PATH, POD_PATH]


def test_a_pod_of_another_kind_is_left_alone_if_its_end_would_fail_its_workload() -> None:
    owner = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "train", "uid": "job-uid"}
    mpi_job = {**training_job(), "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}
    assert watched_elsewhere(MPI_JOB, MPI_PATH, mpi_job, REPLICA, owner) == []


def test_a_pod_of_a_workload_that_has_ended_is_left_to_its_controller() -> None:
    assert training_pod_in(conditions=[{"type": "Succeeded", "status": "True"}]) == []


def test_the_end_of_a_pod_that_hung_is_no_bug_and_explains_the_crashes_of_its_peers() -> None:
    mark = (Condition(names.STALLED, "True", "StallTimeout", ""),)
    hung = replace(worker(1, 137), conditions=mark)
    peer = worker(3, replica=1)
    assert failures(written(peer, hung, worker(3, 134, replica=1))) == []
    assert failures(written(peer, worker(1, 143), worker(3, 134, replica=1))) != []
