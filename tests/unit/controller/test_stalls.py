"""What the leader does to pods that run and tell no progress. All times are virtual."""

import asyncio
import random
from typing import Any, Final

import pytest
from msgspec.structs import replace

from tests.metrics import counted
from tests.unit.accounts.pods import RULES, running_pod
from tests.unit.accounts.pods import job_set as job_set_of_pods
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
from tests.unit.systems.trainer.test_progress import train_job
from tests.unit.tracking.test_train_jobs import set_of_train_job, tell
from tests.virtual_time import now, run
from webhook.accounts.cached import trimmed_job_set
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
from webhook.systems.trainer.progress import SERVER
from webhook.systems.trainer.spec import TRAIN_JOB
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


TRAIN_JOB_PATH: Final = TRAIN_JOB.path("ml", "set")
TOLD: Final = {"progressPercentage": 42}
ADDRESS: Final = {"name": SERVER, "value": "https://trainer"}


def training(*, index: str = "0", progress: str | None = None, env: Json = ADDRESS, started: float = 0) -> Json:
    """Return a running pod of the JobSet of a TrainJob."""
    root = telling(progress, containers=[{"name": "main", "env": [env]}])
    metadata = root["metadata"]
    metadata["labels"] = {"jobset.sigs.k8s.io/jobset-name": "set"}
    metadata["annotations"]["batch.kubernetes.io/job-completion-index"] = index
    root["status"]["startTime"] = at(started)
    return root


def say(found: Ledger, api: FakeApi, second: float, **told: Any) -> None:
    """Let the program of a TrainJob tell something at this second, by its clock."""
    root = train_job(**{**TOLD, "lastUpdatedTime": at(second), **told})
    api.objects[TRAIN_JOB_PATH] = root
    tell(found.train_jobs, root)


def watching_training(api: FakeApi, root: Json) -> Ledger:
    """Return a leader that has seen a running pod of the JobSet of a TrainJob."""
    found = watching(api, root)
    found.train_jobs.informer.live = True
    job_set = {"kind": "JobSet", **set_of_train_job()}
    job_set["metadata"]["resourceVersion"] = "7"
    found.cluster.job_sets.items["ml", "set"] = trimmed_job_set(job_set)
    return found


def trained(*told: float, seconds: float = 3 * TIMEOUT, root: Json | None = None, **status: Any) -> list[str]:
    """Return the paths of what the leader writes while a TrainJob says something at these seconds."""

    async def work() -> None:
        found = watching_training(api, root or training())
        for second in told:
            await act(found, second - now())
            say(found, api, second, **status)
        await act(found, seconds - now())

    api = FakeApi()
    run(work())
    return [write.path for write in api.writes]


ENDS: Final = [STATUS_PATH, POD_PATH]


def test_a_training_that_says_nothing_new_in_time_is_ended_by_its_first_pod() -> None:
    assert trained(10, seconds=TIMEOUT + 5) == []
    assert trained(10, seconds=TIMEOUT + 25) == ENDS
    assert trained(10, root=training(index="1")) == []


def test_a_training_that_says_a_new_time_gets_on() -> None:
    assert trained(*range(10, 600, TIMEOUT - 5), seconds=600) == []


@pytest.mark.parametrize(
    ("root", "status"),
    [
        (training(), {"progressPercentage": 100}),
        (training(progress="1"), {}),
        (training(), {"lastUpdatedTime": "soon"}),
        (training(started=30), {}),
        (training(env={"name": "OTHER", "value": "x"}), {}),
    ],
    ids=["all done", "all done as the pod says", "no time", "told by the attempt before it", "not by this pod"],
)
def test_a_training_of_which_nothing_is_expected_is_left_alone(root: Json, status: Json) -> None:
    assert trained(10, seconds=10 * TIMEOUT, root=root, **status) == []


def test_a_training_that_told_nothing_since_its_attempt_began_is_not_expected_to() -> None:
    assert trained(10, seconds=10 * TIMEOUT, root=training(started=20)) == []


def test_a_program_that_tells_in_one_of_two_places_gets_on() -> None:
    async def work() -> None:
        found = watching_training(api, training(progress="0.1"))
        for step in range(1, 10):
            await act(found, TIMEOUT - 10)
            if step % 2:
                say(found, api, now())
            else:
                take(found, api, training(progress=f"0.{step}"))
        assert api.writes == []
        await act(found, TIMEOUT + 20)

    api = FakeApi()
    run(work())
    assert [write.path for write in api.writes] == ENDS


def test_a_pod_is_known_whether_it_or_its_job_set_or_the_first_word_of_its_train_job_is_seen_first() -> None:
    async def work(order: str) -> list[str]:
        api = FakeApi()
        found = watching_training(api, {**training(), "status": {"phase": "Pending"}})
        job_set = found.cluster.job_sets.items.pop(("ml", "set"))
        found.cluster.job_sets.synced.clear()
        for step in order:
            await act(found, 5)
            if step == "p":
                take(found, api, training(started=now() - 1))
            elif step == "s":
                found.cluster.job_sets.items["ml", "set"] = job_set
                found.cluster.job_sets.synced.set()
            else:
                say(found, api, now() + 10)
        await act(found, TIMEOUT + 25)
        return [write.path for write in api.writes]

    for order in ("pst", "pts", "spt", "stp", "tps", "tsp"):
        assert run(work(order)) == ENDS, order


def test_the_first_pods_of_other_job_sets_are_not_kept_once_these_are_known() -> None:
    async def work() -> None:
        found = watching_training(api, training())
        job_set = {"kind": "JobSet", **job_set_of_pods()}
        job_set["metadata"]["resourceVersion"] = "7"
        for cached in (job_set, None):
            del found.cluster.job_sets.items["ml", "set"]
            found.cluster.job_sets.synced.clear()
            take(found, api, training())
            await act(found, 15)
            assert len(found.waiting.entries) == 1
            found.cluster.job_sets.items["ml", "set"] = trimmed_job_set(job_set)
            if cached is None:
                found.cluster.job_sets.items.pop(("ml", "set"))
            found.cluster.job_sets.synced.set()
            await act(found, 15)
            assert found.waiting.entries == {}
            found.cluster.job_sets.items["ml", "set"] = trimmed_job_set(job_set)

    api = FakeApi()
    run(work())


def test_what_a_train_job_says_now_counts_though_the_watch_has_not_delivered_it_yet() -> None:
    async def work() -> None:
        found = watching_training(api, training())
        say(found, api, 10)
        await act(found, TIMEOUT - 10)
        api.objects[TRAIN_JOB_PATH] = train_job(**TOLD, lastUpdatedTime=at(TIMEOUT))
        await act(found, TIMEOUT)
        assert api.writes == []
        await act(found, TIMEOUT)

    api = FakeApi()
    run(work())
    assert [write.path for write in api.writes] == ENDS


@pytest.mark.parametrize("told_by_pod", [{}, {"progress": "0.1"}], ids=["the TrainJob alone", "its pod too"])
def test_a_training_that_has_told_something_is_left_alone_while_train_jobs_are_not_watched(told_by_pod: Json) -> None:
    async def work() -> None:
        found = watching_training(api, training(**told_by_pod))
        say(found, api, 10)
        found.train_jobs.informer.live = False
        await act(found, 10 * TIMEOUT)

    api = FakeApi()
    run(work())
    assert api.writes == []


@pytest.mark.parametrize("told", [{"progressPercentage": 42}, {"progressPercentage": "x" * 1000}])
def test_the_mark_says_how_far_a_training_was_if_that_is_known(told: Json) -> None:
    async def work() -> str:
        found = watching_training(api, training())
        say(found, api, 10, **told)
        await act(found, 2 * TIMEOUT)
        message: str = api.writes[0].operations[-1]["value"][-1]["message"]
        return message

    api = FakeApi()
    beyond = " beyond 42.0%" if told["progressPercentage"] == 42 else ""
    assert run(work()) == f"no progress{beyond} in 60 s; find out where the program hangs"
