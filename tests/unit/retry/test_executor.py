"""The steps of a requested retry: their order, the answers before them, and the continuation after an interruption."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from tests import virtual_time
from tests.objects import job_spec
from tests.unit.retry.server import (
    CREATED,
    DELETED,
    DELETING,
    PLACEHOLDER,
    RELEASED,
    STEPS_OF_A_JOB,
    TRAIN,
    Server,
    api_of,
)
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.retry import executor, record
from webhook.retry.reading import RefusedError, StuckError
from webhook.systems import core, kueue
from webhook.systems.job import rerun as of_job
from webhook.systems.job import spec as batch
from webhook.systems.job_set import rerun as of_job_set
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.tekton import rerun as of_pipeline_run
from webhook.systems.tekton import spec as tekton
from webhook.systems.volcano import rerun as of_volcano_job
from webhook.systems.volcano import spec as volcano

WHEN = "2026-11-22T08:30:00+00:00"
ENDED = "2026-11-22T08:00:00Z"
FAILED: Json = {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": ENDED}]}
SET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets/train"
RUN = "/apis/tekton.dev/v1/namespaces/ml/pipelineruns/train"
TASK_RUNS = "/apis/tekton.dev/v1/namespaces/ml/taskruns"
MANY = 10
WRITES = {"POST", "PUT", "PATCH", "DELETE"}
CONFLICT, FORBIDDEN, UNAVAILABLE = (ApiError(status, "no") for status in (409, 403, 503))


def metadata(**more: Any) -> Json:
    own = {"name": "train", "namespace": "ml", "uid": "uid-1", "resourceVersion": "1", "labels": {}}
    return {**own, "annotations": {names.RETRYABLE: "true"}, **more}


def job(status: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": metadata(labels=labels or {}),
        "spec": job_spec(backoffLimit=0, **spec),
        "status": {**FAILED, **(status or {})},
    }


def job_set() -> Json:
    jobs = [{"name": "workers", "template": {"spec": job_spec()}}]
    return {"metadata": metadata(), "spec": {"replicatedJobs": jobs}, "status": {**FAILED, "restarts": 2}}


class World(Server):
    """An API server, and other actors in the cluster: `then` is called after each write with verb and path.

    `stops_at`: the number of the write whose answer is lost; `stops_before`: that of the write that never arrives.
    `finalizers`: paths of the objects that a deletion only marks.
    """

    stops_at = 0
    stops_before = 0

    def __init__(self, *items: Any) -> None:
        super().__init__(*items)
        self.then: Callable[[str, str], None] = lambda _verb, _path: None
        self.finalizers: set[str] = set()

    def store(self, path: str, root: Json) -> Json:
        return super().store(path, {"status": {}, **root})  # like the API server

    async def call(self, verb: str) -> None:
        if verb in WRITES and len(self.writes) == self.stops_before:
            raise ConnectionResetError
        await super().call(verb)

    async def answered(self, verb: str, found: Json) -> Json:
        answer = await super().answered(verb, found)
        if verb in WRITES:
            self.then(*self.writes[-1])
            if len(self.writes) == self.stops_at:
                raise ConnectionResetError
        return answer

    async def delete(self, path: str, uid: str, *, after: bool = False) -> None:
        if path not in self.finalizers:
            await super().delete(path, uid, after=after)
            return
        self.writes.append(("DELETE", path))
        assert self.writes.count(("DELETE", path)) < MANY, "deletes without a pause"
        self.items[path]["metadata"]["deletionTimestamp"] = ENDED


def server_with_failed_job(**how: Any) -> World:
    return World((batch.JOB, job(**how)))


def rerun(server: Server, adapter: Any, path: str, by: str = "alice", **how: Any) -> Coroutine[Any, Any, object]:
    return executor.rerun(api_of(server), adapter, server.items[path], by, WHEN, **how)


def rerun_job(server: Server, by: str = "alice", **how: Any) -> Coroutine[Any, Any, object]:
    """Rerun a Job, or continue with its placeholder if there is one, like the leader and the command."""
    path = PLACEHOLDER if PLACEHOLDER in server.items else TRAIN
    return rerun(server, of_job.ADAPTER, path, by, **how)


def refused(work: Coroutine[Any, Any, object]) -> str:
    with pytest.raises(RefusedError) as caught:
        virtual_time.run(work)
    return str(caught.value)


def stuck(work: Coroutine[Any, Any, object]) -> str:
    with pytest.raises(StuckError) as caught:
        virtual_time.run(work)
    return str(caught.value)


def recorded_requests(root: Json) -> list[tuple[str, str]]:
    return [(one.by, one.of) for one in record.read(root)]


def test_the_manifest_of_a_job_is_stored_at_every_step() -> None:
    server = server_with_failed_job()
    kept: list[set[str]] = []
    server.then = lambda _verb, _path: kept.append({TRAIN, PLACEHOLDER} & server.items.keys())
    virtual_time.run(rerun_job(server))
    assert server.writes == STEPS_OF_A_JOB, "a new step: add its write to STEPS_OF_A_JOB in tests/unit/retry/server.py"
    assert all(kept)


@pytest.mark.parametrize("status", [409, 422])
def test_a_retry_whose_stage_is_refused_deletes_neither_the_job_nor_its_manifest(status: int) -> None:
    server = interrupted(DELETING - 1)
    server.faults["PATCH"] = [ApiError(status, "no")]
    with pytest.raises(ApiError):
        virtual_time.run(rerun_job(server))
    assert server.writes == [STEPS_OF_A_JOB[DELETING - 1]]
    assert {TRAIN, PLACEHOLDER} <= server.items.keys()


def is_rerun_once(server: World) -> bool:
    """Return True if the Job was created again exactly once, with its original manifest."""
    successor = server.items[TRAIN]
    is_new = successor["metadata"]["uid"] != "uid-1"
    return is_new and recorded_requests(successor) == [("alice", "uid-1")] and successor["spec"]["suspend"] is False


@pytest.mark.parametrize("number", range(1, len(STEPS_OF_A_JOB)))
@pytest.mark.parametrize("point", ["stops_at", "stops_before"])
def test_a_retry_interrupted_at_any_step_can_be_continued_by_another_user_and_names_the_first(
    number: int, point: str
) -> None:
    server = server_with_failed_job()
    setattr(server, point, number)
    with pytest.raises(ConnectionResetError):
        virtual_time.run(rerun_job(server))
    assert len(server.writes) == number
    server.stops_at = server.stops_before = 0
    first_step_is_lost = (point, number) == ("stops_before", 1)
    virtual_time.run(rerun_job(server, "alice" if first_step_is_lost else "bob"))
    assert is_rerun_once(server)
    assert PLACEHOLDER not in server.items
    created = [write for write in server.writes if write == ("POST", TRAIN)]
    assert len(created) == (2 if (point, number) == ("stops_before", CREATED) else 1)


def test_a_placeholder_that_was_not_deleted_is_deleted_without_any_other_write() -> None:
    server = server_with_failed_job()
    server.stops_before = len(STEPS_OF_A_JOB)
    with pytest.raises(ConnectionResetError):
        virtual_time.run(rerun_job(server))
    server.stops_before = 0
    virtual_time.run(rerun_job(server, "bob"))
    assert server.writes == [*STEPS_OF_A_JOB, ("DELETE", PLACEHOLDER)]
    assert is_rerun_once(server)


def test_two_simultaneous_requests_create_one_job() -> None:
    async def work() -> None:
        server = server_with_failed_job()
        await asyncio.gather(*(rerun_job(server, by) for by in ("alice", "bob")), return_exceptions=True)
        assert [write for write in server.writes if write == ("POST", TRAIN)] != []
        assert recorded_requests(server.items[TRAIN]) == [("alice", "uid-1")]
        assert server.items.keys() == {TRAIN}
        assert server.items[TRAIN]["spec"]["suspend"] is False

    virtual_time.run(work())


def test_the_succeeded_indexes_are_written_before_the_job_is_released() -> None:
    server = server_with_failed_job(
        status={"completedIndexes": "0-2", "succeeded": 3}, completions=5, parallelism=5, completionMode="Indexed"
    )
    suspended: list[bool] = []

    def note(_verb: str, path: str) -> None:
        if path == f"{TRAIN}/status":
            suspended.append(server.items[TRAIN]["spec"]["suspend"])

    server.then = note
    virtual_time.run(rerun_job(server))
    assert suspended == [True]
    assert server.items[TRAIN]["status"] == {"completedIndexes": "0-2", "succeeded": 3}
    assert server.items[TRAIN]["spec"]["suspend"] is False


def test_a_job_that_was_suspended_stays_suspended() -> None:
    server = server_with_failed_job(suspend=True)
    virtual_time.run(rerun_job(server))
    assert server.items[TRAIN]["spec"]["suspend"] is True
    assert names.STAYS_SUSPENDED not in server.items[TRAIN]["metadata"]["annotations"]


def test_a_dry_run_writes_nothing_before_and_during_a_retry() -> None:
    server = server_with_failed_job()
    virtual_time.run(rerun_job(server, dry_run=True))
    assert server.writes == []
    server.stops_at = 1
    with pytest.raises(ConnectionResetError):
        virtual_time.run(rerun_job(server))
    virtual_time.run(rerun_job(server, "bob", dry_run=True))
    virtual_time.run(rerun(server, of_job.ADAPTER, TRAIN, "bob", dry_run=True))
    assert server.writes == STEPS_OF_A_JOB[:1]


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (None, "Job ml/train no longer exists; create it again"),
        (job() | {"metadata": metadata(uid="uid-2")}, "Job ml/train no longer exists; create it again"),
        (job() | {"status": {}}, "Job ml/train has not ended; request the retry again once it has failed"),
        (job() | {"metadata": metadata(annotations={})}, "Job ml/train does not say that it may run twice; if it may:"),
    ],
)
def test_a_job_that_has_changed_since_it_was_read_is_refused_and_nothing_is_written(now: Json | None, why: str) -> None:
    server = server_with_failed_job()
    read = server.items[TRAIN]
    del server.items[TRAIN]
    if now is not None:
        server.items[TRAIN] = now
    assert refused(executor.rerun(api_of(server), of_job.ADAPTER, read, "alice", WHEN)).startswith(why)
    assert server.writes == []


class Rejecting(World):
    """Rejects a dry run, like another webhook or the API server's validation."""

    answer_to_trial: Any = None

    async def create(self, path: str, root: Json, *, dry_run: bool = False) -> Json:
        if dry_run and isinstance(self.answer_to_trial, ApiError):
            raise self.answer_to_trial
        return {**await super().create(path, root, dry_run=dry_run), **(self.answer_to_trial or {} if dry_run else {})}


def test_a_job_whose_successor_would_be_rejected_is_not_deleted() -> None:
    server = Rejecting((batch.JOB, job()))
    server.answer_to_trial = ApiError(403, "exceeded policy")
    assert refused(rerun_job(server)).startswith("Job ml/train would not be accepted if it were created now: ")
    assert server.writes == []


def test_a_job_that_another_webhook_would_put_into_a_queue_is_not_deleted() -> None:
    server = Rejecting((batch.JOB, job()))
    server.answer_to_trial = {"metadata": {"name": "x", "labels": {kueue.QUEUE_NAME: "gpus"}}}
    assert refused(rerun_job(server)) == (
        "Job ml/train would be put into a Kueue queue, which it was not in before; create it again"
    )
    assert server.writes == []


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_a_temporary_error_is_not_a_refusal(status: int) -> None:
    server = Rejecting((batch.JOB, job()))
    server.answer_to_trial = ApiError(status, "later")
    with pytest.raises(ApiError):
        virtual_time.run(rerun_job(server))
    assert server.items.keys() == {TRAIN}


def test_another_users_job_with_the_placeholders_name_is_not_changed() -> None:
    other = {**job(), "metadata": metadata(name="train-retry-uid-1", uid="uid-9")}
    server = World((batch.JOB, job()), (batch.JOB, other))
    assert refused(rerun(server, of_job.ADAPTER, TRAIN)).startswith("Job ml/train would not be accepted")
    assert server.items[PLACEHOLDER]["metadata"]["uid"] == "uid-9"
    assert TRAIN in server.items


def interrupted(stops_at: int = 1) -> World:
    """Return a server with a retry that was interrupted after this number of steps."""
    server = server_with_failed_job()
    server.stops_at = stops_at
    with pytest.raises(ConnectionResetError):
        virtual_time.run(rerun_job(server))
    server.stops_at = 0
    server.writes.clear()
    return server


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (
            job() | {"status": {}},
            "has changed since the request; nothing was changed: look at it, and request the retry again if needed",
        ),
        (
            job() | {"metadata": metadata(uid="uid-2")},
            "has changed since the request; nothing was changed: look at it, and request the retry again if needed",
        ),
        (
            job() | {"metadata": metadata(uid="uid-2", annotations={names.RETRY_OF: "uid-1"})},
            (
                "runs again already, as another user requested; "
                "nothing was changed: look at it, and request the retry again if needed"
            ),
        ),
    ],
)
def test_a_job_that_another_user_replaced_stays_and_its_placeholder_is_deleted(now: Json, why: str) -> None:
    server = interrupted()
    server.items[TRAIN] = now
    assert refused(rerun_job(server)) == f"Job ml/train {why}"
    assert server.writes == [("DELETE", PLACEHOLDER)]
    assert server.items[TRAIN] == now


def test_a_job_that_another_user_deleted_is_not_created_and_its_placeholder_stays() -> None:
    server = interrupted()
    del server.items[TRAIN]
    assert stuck(rerun_job(server)) == (
        "Job ml/train was deleted by another user; create it again: Job ml/train-retry-uid-1 has its manifest"
    )
    assert server.items.keys() == {PLACEHOLDER}


def test_a_job_that_another_user_created_with_the_same_name_is_not_changed() -> None:
    server = interrupted(DELETED)
    server.items[TRAIN] = {**job(), "metadata": metadata(uid="uid-2")}
    assert stuck(rerun_job(server)) == (
        "another user has created a Job ml/train in the meantime; "
        "request the retry again to continue: Job ml/train-retry-uid-1 has its manifest"
    )
    assert server.items[TRAIN]["metadata"]["uid"] == "uid-2"


def test_a_retry_whose_successor_is_rejected_can_be_continued() -> None:
    server = interrupted(DELETED)
    server.faults["POST"] = [FORBIDDEN]
    assert stuck(rerun_job(server)).startswith("Job ml/train is rejected by the API server: ")
    virtual_time.run(rerun_job(server))
    assert is_rerun_once(server)


def test_a_retry_whose_job_cannot_be_released_can_be_continued() -> None:
    server = interrupted(RELEASED - 1)
    server.faults["PATCH"] = [FORBIDDEN]
    assert stuck(rerun_job(server)).startswith("Job ml/train exists again, suspended, and cannot be resumed: ")
    virtual_time.run(rerun_job(server))
    assert is_rerun_once(server)


def test_the_deletion_of_a_job_with_a_finalizer_is_awaited_for_a_minute() -> None:
    server = interrupted()
    server.finalizers = {TRAIN}

    async def work() -> float:
        with pytest.raises(
            StuckError,
            match=r"Job ml/train is being deleted, but a finalizer holds it; request the retry again to continue",
        ):
            await rerun_job(server)
        return virtual_time.now()

    assert virtual_time.run(work()) == pytest.approx(executor.DELETED_WITHIN, abs=1)
    assert server.writes.count(("DELETE", TRAIN)) == 1
    del server.items[TRAIN]
    virtual_time.run(rerun_job(server, "bob"))
    assert is_rerun_once(server)


def test_after_its_finalizer_is_removed_a_job_is_created_again() -> None:
    server = interrupted()
    server.finalizers = {TRAIN}

    async def work() -> None:
        asyncio.get_running_loop().call_later(20, server.items.pop, TRAIN)
        await rerun_job(server)
        assert 20 <= virtual_time.now() < 21

    virtual_time.run(work())
    assert is_rerun_once(server)


def test_a_retry_that_another_user_has_completed_is_not_repeated() -> None:
    server = interrupted(CREATED)
    placeholder = server.items.pop(PLACEHOLDER)
    before = server.items[TRAIN]
    virtual_time.run(executor.rerun(api_of(server), of_job.ADAPTER, placeholder, "bob", WHEN))
    assert server.items == {TRAIN: before}


def test_the_job_of_an_unreadable_placeholder_is_not_deleted() -> None:
    server = interrupted()
    text = server.items[PLACEHOLDER]["metadata"]["annotations"][names.SUCCESSOR]
    spoilt = {**server.items[PLACEHOLDER]}

    def spoil(verb: str, path: str) -> None:
        if (verb, path) == ("PATCH", PLACEHOLDER):
            server.items[PLACEHOLDER]["metadata"]["annotations"][names.SUCCESSOR] = text[:-10]

    server.then = spoil
    with pytest.raises(StuckError, match=r"its annotation retry-policy.dev/successor cannot be read"):
        virtual_time.run(executor.rerun(api_of(server), of_job.ADAPTER, spoilt, "alice", WHEN))
    assert TRAIN in server.items


@pytest.mark.parametrize(
    ("labels", "now", "seconds"),
    [
        ({}, "2026-11-22T08:00:00+00:00", 0.0),
        ({names.PROFILE: "default"}, "2026-11-22T08:00:00+00:00", 4.0),
        ({names.PROFILE: "default"}, "2026-11-22T08:00:03+00:00", 1.0),
        ({names.PROFILE: "default"}, "2026-11-22T08:00:05+00:00", 0.0),
        ({names.PROFILE: "default"}, "2026-11-22T07:00:00+00:00", 4.0),
    ],
)
def test_the_retry_of_a_job_with_an_account_waits_until_its_last_pods_are_counted(
    labels: Json, now: str, seconds: float
) -> None:
    assert executor.seconds_until_counted(job(labels=labels), datetime.fromisoformat(now).astimezone(UTC)) == seconds


def test_a_job_set_is_restarted_in_place() -> None:
    server = World((JOB_SET, job_set()))
    virtual_time.run(rerun(server, of_job_set.ADAPTER, SET))
    assert server.writes == [("PATCH", SET), ("PUT", f"{SET}/status"), ("PATCH", SET)]
    assert server.items[SET]["status"] == {"conditions": [], "restarts": 3, "restartsCountTowardsMax": 0}
    assert recorded_requests(server.items[SET]) == [("alice", "restart 2")]
    assert names.RETRY_IN_PROGRESS not in server.items[SET]["metadata"]["labels"]


@pytest.mark.parametrize(("point", "number"), [("stops_at", 1), ("stops_before", 2), ("stops_at", 2)])
def test_after_an_interrupted_retry_a_job_set_is_restarted_once_and_names_the_first_user(
    point: str, number: int
) -> None:
    server = World((JOB_SET, job_set()))
    setattr(server, point, number)
    with pytest.raises(ConnectionResetError):
        virtual_time.run(rerun(server, of_job_set.ADAPTER, SET))
    server.stops_at = server.stops_before = 0
    if point == "stops_at" and number == 2:
        assert refused(rerun(server, of_job_set.ADAPTER, SET, "bob")).startswith("JobSet ml/train has not ended")
    else:
        virtual_time.run(rerun(server, of_job_set.ADAPTER, SET, "bob"))
    assert server.items[SET]["status"]["restarts"] == 3
    assert recorded_requests(server.items[SET]) == [("alice", "restart 2")]
    is_finished = names.RETRY_IN_PROGRESS not in server.items[SET]["metadata"]["labels"]
    assert server.writes.count(("PATCH", SET)) == (2 if is_finished else 1)  # the record, and the end


def test_a_job_set_that_changes_during_the_retry_is_read_again_a_few_times() -> None:
    server = World((JOB_SET, job_set()))
    server.faults["PUT"] = [CONFLICT] * (executor.TRIES - 1)
    virtual_time.run(rerun(server, of_job_set.ADAPTER, SET))
    assert server.items[SET]["status"]["restarts"] == 3
    server = World((JOB_SET, job_set()))
    server.faults["PUT"] = [CONFLICT] * executor.TRIES
    message = "JobSet ml/train was changed or ended by others each time; request the retry again to continue"
    assert stuck(rerun(server, of_job_set.ADAPTER, SET)) == message


def test_an_error_other_than_a_conflict_is_raised_at_once() -> None:
    server = World((JOB_SET, job_set()))
    server.faults["PUT"] = [UNAVAILABLE]
    with pytest.raises(ApiError):
        virtual_time.run(rerun(server, of_job_set.ADAPTER, SET))
    assert [verb for verb, _ in server.writes] == ["PATCH", "PUT"]


def test_a_dry_run_of_a_job_set_writes_nothing_and_raises_the_refusal() -> None:
    server = World((JOB_SET, job_set()))
    virtual_time.run(rerun(server, of_job_set.ADAPTER, SET, dry_run=True))
    server.items[SET]["status"]["conditions"] = []
    assert refused(rerun(server, of_job_set.ADAPTER, SET, dry_run=True)).startswith("JobSet ml/train has not ended")
    read = server.items.pop(SET)
    work = executor.rerun(api_of(server), of_job_set.ADAPTER, read, "alice", WHEN, dry_run=True)
    assert refused(work) == "JobSet ml/train no longer exists; create it again"
    assert server.writes == []


def task_run(task: str, status: str, uid: str | None = None) -> Json:
    labels = {"tekton.dev/pipelineRun": "train", "tekton.dev/pipelineTask": task}
    return {
        "metadata": {
            **metadata(name=f"train-{task}", uid=uid or f"uid-{task}", labels=labels),
            "ownerReferences": [{"kind": "PipelineRun", "name": "train", "uid": "uid-1"}],
            "creationTimestamp": "2026-11-22T07:50:00Z",
        },
        "spec": {},
        "status": {"conditions": [{"type": "Succeeded", "status": status}]},
    }


ENDED_BADLY: Json = {"conditions": [{"type": "Succeeded", "status": "False"}], "completionTime": ENDED}


def reference_to(task: str) -> Json:
    return {"kind": "TaskRun", "name": f"train-{task}", "pipelineTaskName": task}


def pipeline_run(**spec: Any) -> Json:
    tasks = ("fetch", "build")
    references = [*map(reference_to, tasks)]
    status = {"pipelineSpec": {"tasks": [{"name": task} for task in tasks]}, "childReferences": references}
    return {"metadata": metadata(), "spec": spec, "status": {**ENDED_BADLY, **status}}


class Tekton(World):
    """Creates the missing TaskRuns of a run that was reset, but ends it again after its first `after` restarts."""

    def __init__(self, *, after: int = 1, **spec: Any) -> None:
        children = [(tekton.TASK_RUN, task_run(*one)) for one in (("fetch", "True"), ("build", "False"))]
        super().__init__((tekton.PIPELINE_RUN, pipeline_run(**spec)), *children)
        self.restarts = 0
        self.after = after
        self.then = self.act

    def act(self, verb: str, _path: str) -> None:
        if verb != "PUT":
            return
        self.restarts += 1
        if self.restarts < self.after:  # in its cache the TaskRun still exists, and has failed
            status = self.items[RUN]["status"]
            status |= {**ENDED_BADLY, "completionTime": f"2026-11-22T08:30:{self.restarts:02}Z"}
            status["childReferences"] = [*map(reference_to, ("fetch", "build"))]
        elif self.restarts == self.after:
            self.items[f"{TASK_RUNS}/train-build"] = task_run("build", "Unknown", "uid-new")


def rerun_pipeline(server: Server, by: str = "alice", **how: Any) -> Coroutine[Any, Any, object]:
    return rerun(server, of_pipeline_run.ADAPTER, RUN, by, **how)


def test_failed_task_runs_are_deleted_before_their_pipeline_run_continues() -> None:
    server = Tekton()
    virtual_time.run(rerun_pipeline(server))
    assert server.writes == [
        ("PATCH", RUN),
        ("DELETE", f"{TASK_RUNS}/train-build"),
        ("PUT", f"{RUN}/status"),
        ("PATCH", RUN),
    ]
    assert server.items[f"{TASK_RUNS}/train-fetch"]["metadata"]["uid"] == "uid-fetch"
    assert server.items[RUN]["status"]["conditions"][0]["status"] == "Unknown"
    assert recorded_requests(server.items[RUN]) == [("alice", ENDED)]
    assert names.RETRY_IN_PROGRESS not in server.items[RUN]["metadata"]["labels"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_pipeline_run_whose_retry_was_interrupted_runs_once_and_names_the_first_user(number: int) -> None:
    server = Tekton()
    server.stops_before = number
    with pytest.raises(ConnectionResetError):
        virtual_time.run(rerun_pipeline(server))
    server.stops_before = 0
    virtual_time.run(rerun_pipeline(server, "alice" if number == 1 else "bob"))
    assert recorded_requests(server.items[RUN]) == [("alice", ENDED)]
    assert server.items[f"{TASK_RUNS}/train-build"]["metadata"]["uid"] == "uid-new"


def test_a_run_that_its_controller_ends_because_of_an_old_cache_is_reset_again() -> None:
    server = Tekton(after=3)
    # A TaskRun that stays may be as young as the request.
    server.items[f"{TASK_RUNS}/train-fetch"]["metadata"]["creationTimestamp"] = WHEN
    virtual_time.run(rerun_pipeline(server))
    assert server.restarts == 3
    assert recorded_requests(server.items[RUN]) == [("alice", ENDED)]
    server = Tekton(after=executor.TRIES + 1)
    assert stuck(rerun_pipeline(server)).startswith("PipelineRun ml/train was changed or ended by others")


def test_a_run_without_a_controller_stays_reset_until_the_controller_starts() -> None:
    server = Tekton()
    server.then = lambda _verb, _path: None

    async def work() -> float:
        await rerun_pipeline(server)
        return virtual_time.now()

    assert virtual_time.run(work()) == pytest.approx(executor.RUN_WITHIN, abs=1)
    assert server.items[RUN]["status"]["conditions"][0]["status"] == "Unknown"


def test_a_cancelled_run_runs_again_but_not_if_it_is_cancelled_during_the_retry() -> None:
    server = Tekton(status="Cancelled")
    virtual_time.run(rerun_pipeline(server))
    assert "status" not in server.items[RUN]["spec"]

    server = Tekton(after=2)
    act = server.act

    def cancel(verb: str, path: str) -> None:
        act(verb, path)
        if verb == "PUT":
            server.items[RUN]["spec"]["status"] = "Cancelled"

    server.then = cancel
    assert (
        refused(rerun_pipeline(server))
        == "PipelineRun ml/train was cancelled after the request; request the retry again"
    )


def test_the_deletion_of_a_task_run_with_a_finalizer_is_awaited_for_a_minute_and_the_run_is_not_reset() -> None:
    server = Tekton()
    server.finalizers = {f"{TASK_RUNS}/train-build"}

    async def work() -> float:
        with pytest.raises(StuckError, match=r"a finalizer holds some of train-build, which are being deleted"):
            await rerun_pipeline(server)
        return virtual_time.now()

    assert virtual_time.run(work()) == pytest.approx(executor.DELETED_WITHIN, abs=1)
    assert server.restarts == 0


VOLCANO = "/apis/batch.volcano.sh/v1alpha1/namespaces/ml/jobs/train"
PODS = "/api/v1/namespaces/ml/pods"


def pod_of(number: int, phase: str, uid: str) -> Json:
    labels = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": "main"}
    owners = [{"kind": "Job", "name": "train", "uid": "uid-1", "controller": True}]
    own = metadata(name=f"train-main-{number}", uid=uid, labels=labels, ownerReferences=owners)
    return {"metadata": {**own, "creationTimestamp": "2026-11-22T07:50:00Z"}, "status": {"phase": phase}}


class Volcano(World):
    """Ends a Job again while its cache has the pod that failed, and creates the pod after `after` restarts."""

    def __init__(self, *, after: int = 1, stopped: bool = False) -> None:
        state = {"phase": "Failed", "lastTransitionTime": ENDED}
        root = {
            "metadata": metadata(),
            "spec": {"tasks": [{"name": "main", "replicas": 2}]},
            "status": {"state": state, "retryCount": 3, "version": 4},
        }
        pods = [(core.POD, pod_of(0, "Succeeded", "uid-0")), (core.POD, pod_of(1, "Failed", "uid-10"))]
        super().__init__((volcano.JOB, root), *pods)
        self.restarts = 0
        self.phases: list[str] = []

        def act(verb: str, _path: str) -> None:
            if verb != "PUT":
                return
            self.restarts += 1
            status = self.items[VOLCANO]["status"]
            self.phases.append(status["state"]["phase"])
            if self.restarts < after:
                phase = "Aborted" if stopped else "Failed"
                status["state"] = {"phase": phase, "lastTransitionTime": f"2026-11-22T08:30:{self.restarts:02}Z"}
            else:
                self.items[f"{PODS}/train-main-1"] = pod_of(1, "Pending", "uid-11")

        self.then = act


def rerun_volcano(server: Server) -> Coroutine[Any, Any, object]:
    return rerun(server, of_volcano_job.ADAPTER, VOLCANO)


@pytest.mark.parametrize("after", [1, 3])
def test_only_failed_pods_of_a_volcano_job_are_deleted_and_its_account_names_the_user_once(after: int) -> None:
    server = Volcano(after=after)
    virtual_time.run(rerun_volcano(server))
    assert server.phases == ["Pending"] * after
    assert [path for verb, path in server.writes if verb == "DELETE"] == [f"{PODS}/train-main-1"]
    assert server.items[f"{PODS}/train-main-0"]["metadata"]["uid"] == "uid-0"
    root = server.items[VOLCANO]
    assert "retryCount" not in root["status"]
    assert root["status"]["version"] == 4
    assert recorded_requests(root) == [("alice", ENDED)]
    assert names.RETRY_IN_PROGRESS not in root["metadata"]["labels"]


def test_a_volcano_job_that_is_suspended_during_the_retry_stays_so() -> None:
    why = "Job ml/train was cancelled after the request; request the retry again"
    server = Volcano(after=2, stopped=True)
    assert refused(rerun_volcano(server)) == why
    assert server.restarts == 1


def test_removing_an_absent_label_is_not_an_error_but_a_failed_removal_is() -> None:
    marked = job_set()
    marked["metadata"]["labels"] = {names.RETRY_IN_PROGRESS: "true"}
    for fault in (ApiError(404, "not found"), ApiError(422, "no such path")):
        server = World((JOB_SET, marked))
        server.faults["PATCH"] = [fault]
        virtual_time.run(executor.forget(api_of(server), JOB_SET, marked))
    server = World((JOB_SET, marked))
    server.faults["PATCH"] = [FORBIDDEN]
    with pytest.raises(ApiError):
        virtual_time.run(executor.forget(api_of(server), JOB_SET, marked))


def test_an_object_without_the_label_is_not_written() -> None:
    server = World((JOB_SET, job_set()))
    virtual_time.run(executor.forget(api_of(server), JOB_SET, job_set()))
    assert server.writes == []
