"""Admission of requests for retries, by the time and by the answers of the API server."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import jsonpatch
import msgspec
import pytest

from tests.admission import review_of
from tests.objects import job_spec
from tests.unit.retry.server import Server, api_of, served
from webhook.admission.review import PROBLEM_LENGTH, Response
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.retry import record, requests
from webhook.retry.admission import RetryAdmission
from webhook.retry.record import Requested
from webhook.systems.job import rerun as of_job
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.tracking.cluster import UnavailableError

NOW = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)
REQUESTED_AT = "2026-11-22T08:30:00Z"
ENDED = {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-11-22T08:00:00Z"}]}
USER = {"username": "alice", "groups": ["system:authenticated"]}


def workload(kind: KindSpec, spec: Json, status: Json, **annotations: str) -> Json:
    """Return a workload that may run twice."""
    metadata = {"name": "train", "namespace": "ml", "uid": "uid-1", "resourceVersion": "1"}
    said = {names.RETRYABLE: "true", **annotations}
    api_version = f"{kind.group}/{kind.versions[0]}"
    return {
        "apiVersion": api_version,
        "kind": kind.kind,
        "metadata": {**metadata, "creationTimestamp": "2026-11-22T07:00:00Z", "annotations": said},
        "spec": spec,
        "status": status,
    }


TRAIN = workload(batch.JOB, job_spec(backoffLimit=0), ENDED)
NIGHTLY = workload(CRON_JOB, {"jobTemplate": {"spec": job_spec()}}, {})
SET = workload(JOB_SET, {"replicatedJobs": [{"name": "a", "template": {}}]}, {**ENDED, "restarts": 2})


def with_annotations(root: Json, **annotations: str) -> Json:
    metadata = root["metadata"]
    said = {names.PREFIX + key.replace("_", "-"): text for key, text in annotations.items()}
    return {**root, "metadata": {**metadata, "annotations": {**metadata["annotations"], **said}}}


async def judged(server: Server, root: Json, old: Json, *, seconds: float = 8.0, **more: Any) -> Response | None:
    """Return the answer of admission to an update, `seconds` after `NOW`."""
    about = {"name": root["metadata"]["name"], "userInfo": USER, **more}
    admission = RetryAdmission(api_of(server), served(server), controller="leader", now=lambda: NOW, timeout=seconds)
    return await admission.judge(admission.read(review_of(root, old=old, **about)))


def answer_to_request(server: Server, root: Json, when: str = REQUESTED_AT, **more: Any) -> Response:
    """Return the answer of admission to a request for a retry."""
    found = asyncio.run(judged(server, with_annotations(root, retry_requested_at=when), root, **more))
    assert found is not None
    return found


def problems(found: Response) -> list[str]:
    return [str(problem) for _, problem in found.found]


@pytest.mark.parametrize(("kind", "root", "of"), [(batch.JOB, TRAIN, "uid-1"), (JOB_SET, SET, "restart 2")])
def test_an_accepted_request_records_its_user_its_time_and_its_run(kind: KindSpec, root: Json, of: str) -> None:
    server = Server((kind, root))
    found = answer_to_request(server, root)
    assert (problems(found), found.warnings) == ([], [])
    accepted = jsonpatch.apply_patch(
        with_annotations(root, retry_requested_at=REQUESTED_AT), msgspec.json.decode(found.patch)
    )
    assert requests.accepted(accepted) == Requested(at=REQUESTED_AT, by="alice", of=of)
    assert requests.is_marked(accepted)
    assert server.writes == []


def test_a_request_on_a_cron_job_is_accepted_for_its_last_job() -> None:
    last = workload(batch.JOB, job_spec(), ENDED)
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "train", "uid": "uid-1", "controller": True}
    last["metadata"] |= {"name": "train-1", "uid": "uid-2", "ownerReferences": [owner]}
    found = answer_to_request(Server((CRON_JOB, NIGHTLY), (batch.JOB, last)), NIGHTLY)
    accepted = jsonpatch.apply_patch(
        with_annotations(NIGHTLY, retry_requested_at=REQUESTED_AT), msgspec.json.decode(found.patch)
    )
    assert requests.accepted(accepted) == Requested(at=REQUESTED_AT, by="alice", of="uid-2")


def test_a_request_on_a_cron_job_without_a_job_is_ignored_with_a_warning() -> None:
    found = answer_to_request(Server((CRON_JOB, NIGHTLY)), NIGHTLY)
    assert (found.patch, problems(found)) == (b"", [])
    path = f"metadata.annotations[{names.RETRY_REQUESTED_AT}]"
    what = "it has no Job to retry; wait for its next Job"
    assert len(str(found.warnings[0])) <= PROBLEM_LENGTH
    assert [str(one) for one in found.warnings] == [f"{path}: {what}"]


def test_a_request_on_a_cron_job_during_a_retry_is_ignored_with_a_warning() -> None:
    last = workload(batch.JOB, job_spec(), ENDED)
    last["metadata"] |= {"name": "train-1", "ownerReferences": [{"uid": "uid-1"}]}
    placeholder = of_job.placeholder_for(last, "bob", REQUESTED_AT)
    found = answer_to_request(Server((CRON_JOB, NIGHTLY), (batch.JOB, placeholder)), NIGHTLY)
    assert (found.patch, problems(found)) == (b"", [])
    assert "a retry of its last Job has begun; wait until it has ended" in str(found.warnings[0])[:PROBLEM_LENGTH]


@pytest.mark.parametrize(
    ("when", "what"),
    [
        ("2026-11-22T08:32:00Z", "which is in the future; must be the current time"),
        ("soon", "is 'soon'; must be the current time, RFC 3339"),
    ],
)
def test_a_future_or_malformed_time_is_denied_before_permissions_are_looked_up(when: str, what: str) -> None:
    server = Server((batch.JOB, TRAIN))
    server.is_allowed = False
    (problem,) = problems(answer_to_request(server, TRAIN, when))
    assert what in problem


def test_a_request_with_a_time_before_the_end_of_the_run_is_ignored_with_a_warning() -> None:
    found = answer_to_request(Server((batch.JOB, TRAIN)), TRAIN, "2026-11-22T07:59:59Z")
    assert (found.patch, problems(found)) == (b"", [])
    assert "is earlier than the end of this run" in str(found.warnings[0])


def test_a_workload_that_cannot_run_again_is_denied_with_the_remedy_at_the_annotation() -> None:
    root = workload(batch.JOB, job_spec(), {})
    (problem,) = problems(answer_to_request(Server((batch.JOB, root)), root))
    path = f"metadata.annotations[{names.RETRY_REQUESTED_AT}]"
    assert problem == f"{path}: Job ml/train has not ended; request the retry again once it has failed"


def test_the_denial_of_a_user_without_permissions_names_them_and_no_other_reason() -> None:
    root = workload(batch.JOB, job_spec(), {})
    server = Server((batch.JOB, root))
    server.is_allowed = False
    (problem,) = problems(answer_to_request(server, root))
    assert problem.endswith(
        ": alice may not create jobs, patch jobs, delete jobs; ask for these rights, or a user who has them"
    )


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_in_modes_warn_and_audit_a_request_is_ignored_with_a_warning(mode: str) -> None:
    async def work() -> Response | None:
        server = Server((batch.JOB, TRAIN))
        cluster = served(server)
        cluster.namespaces.items["", "ml"] = ("default", mode)
        admission = RetryAdmission(api_of(server), cluster, controller="leader", now=lambda: NOW)
        root = with_annotations(TRAIN, retry_requested_at=REQUESTED_AT)
        return await admission.judge(admission.read(review_of(root, old=TRAIN, name="train", userInfo=USER)))

    found = asyncio.run(work())
    assert found is not None
    assert (found.patch, problems(found)) == (b"", [])
    assert f"no retries in mode {mode}" in str(found.warnings[0])


@pytest.mark.parametrize("verb", ["GET", "REVIEW"])
@pytest.mark.parametrize("fault", [ApiError(500, "no"), ApiError(403, "no"), ConnectionResetError(), TimeoutError()])
def test_while_the_api_does_not_answer_requests_are_unavailable(verb: str, fault: Exception) -> None:
    server = Server((batch.JOB, TRAIN))
    server.faults[verb] = [fault]
    with pytest.raises(UnavailableError):
        answer_to_request(server, TRAIN)


@pytest.mark.parametrize("verb", ["GET", "REVIEW"])
def test_look_ups_have_a_timeout(verb: str) -> None:
    server = Server((batch.JOB, TRAIN))
    server.late.add(verb)
    with pytest.raises(UnavailableError):
        answer_to_request(server, TRAIN, seconds=0.0)


@pytest.mark.parametrize("verb", ["GET", "REVIEW"])
def test_when_the_client_disconnects_look_ups_are_cancelled(verb: str) -> None:
    async def work() -> None:
        server = Server((batch.JOB, TRAIN))
        server.late.add(verb)
        judging = asyncio.create_task(judged(server, with_annotations(TRAIN, retry_requested_at=REQUESTED_AT), TRAIN))
        await server.is_waited_for()
        judging.cancel()
        await asyncio.wait({judging})
        left = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(left) if left else None
        assert all(one.cancelled() for one in left)

    run(work)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def started() -> None:
        await work()

    asyncio.run(started())


def test_a_request_on_an_object_that_was_deleted_or_replaced_is_denied() -> None:
    anew = {**TRAIN, "metadata": {**TRAIN["metadata"], "uid": "uid-2"}}
    for server in (Server(), Server((batch.JOB, anew))):
        (problem,) = problems(answer_to_request(server, TRAIN))
        assert problem == "metadata.uid: no Job has this name and uid; read it again, and repeat the change"


def test_a_history_that_an_update_removes_is_restored_without_a_call_of_the_api() -> None:
    old = with_annotations(
        TRAIN, retry_history=record.with_new(TRAIN, Requested(at=REQUESTED_AT, by="bob", of="uid-0"))
    )
    server = Server()
    server.faults["GET"] = [ConnectionResetError()]
    found = asyncio.run(judged(server, TRAIN, old))
    assert found is not None
    restored = jsonpatch.apply_patch(TRAIN, msgspec.json.decode(found.patch))
    assert [one.by for one in record.read(restored)] == ["bob"]


def test_only_the_leader_may_name_another_user_as_requester() -> None:
    root = with_annotations(
        TRAIN, retry_history=record.with_new(TRAIN, Requested(at=REQUESTED_AT, by="bob", of="uid-1"))
    )
    server = Server((batch.JOB, TRAIN))
    found = asyncio.run(judged(server, root, TRAIN))
    assert found is not None
    assert "names bob as requester, and you are alice; request the retry in your own name" in problems(found)[0]
    found = asyncio.run(judged(server, root, TRAIN, userInfo={"username": "leader"}))
    assert found is not None
    assert problems(found) == []


def test_an_update_without_a_request_is_not_judged() -> None:
    assert asyncio.run(judged(Server(), with_annotations(TRAIN, note="mine"), TRAIN)) is None
