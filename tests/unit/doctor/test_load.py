"""What the doctor reads, its bounds, and what it notes about things that it may not read."""

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest

from tests.unit.doctor.answers import Answer, Answers
from tests.unit.doctor.healthy import (
    LEAF,
    NOW,
    POLICY_TEXT,
    VERSION,
    base64_of,
    configuration,
    deployment,
    namespace,
    stored_job,
)
from webhook.doctor import load as module
from webhook.doctor.load import Question, load
from webhook.doctor.shipped import MUTATING, NAMESPACE, VALIDATING
from webhook.doctor.snapshot import Snapshot, Stored
from webhook.kube.client import Api, ApiError
from webhook.objects.problem import Json
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set.spec import JOB_SET

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WITHIN = f"/namespaces/{NAMESPACE}"
LEASE = f"/apis/coordination.k8s.io/v1{WITHIN}/leases/retry-policy-webhook-ledger"
SECRET = f"/api/v1{WITHIN}/secrets/retry-policy-webhook-certificates"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
NAMESPACES = "/api/v1/namespaces"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
DISCOVERED = {
    "items": [
        {"metadata": {"name": "batch"}, "versions": [{"version": "v1", "resources": [{"resource": "jobs"}]}]},
        {
            "metadata": {"name": "jobset.x-k8s.io"},
            "versions": [{"version": "v1alpha2", "resources": [{"resource": "jobsets"}]}],
        },
    ]
}


def renewed(seconds: float) -> Json:
    """Return a Lease that was renewed so many seconds ago."""
    return {"spec": {"holderIdentity": "a", "renewTime": (NOW - timedelta(seconds=seconds)).isoformat()}}


RELEASED: Json = {"spec": {"holderIdentity": "", "renewTime": renewed(1)["spec"]["renewTime"]}}


def cluster(**changes: Answer) -> dict[str, Answer]:
    """Return the answers of a cluster with an installation; changes are by the last part of a path."""
    paths: dict[str, Answer] = {
        f"{ADMISSION}/mutatingwebhookconfigurations": [configuration(MUTATING)],
        f"{ADMISSION}/validatingwebhookconfigurations": [configuration(VALIDATING)],
        "/apis/apps/v1/deployments": [deployment()],
        "/apis": DISCOVERED,
        "/version": {"gitVersion": "v1.36.3"},
        f"/api/v1{WITHIN}/services/retry-policy-webhook": {"metadata": {}},
        SECRET: {"metadata": {}, "data": {"tls.crt": base64_of(LEAF), "tls.key": "secret"}},
        LEASE: renewed(1),
        f"/api/v1{WITHIN}/configmaps/retry-policy": {"metadata": {}, "data": {"policy.yaml": POLICY_TEXT}},
        REVIEWS: {"status": {"allowed": True}},
        NAMESPACES: [namespace(profile="default")],
        JOBS: stored_job(profile="default"),
    }
    by_end = {path.rpartition("/")[2].replace("-", "_"): path for path in paths}
    return {**paths, **{by_end.get(name, name): answer for name, answer in changes.items()}}


def read(paths: dict[str, Answer], question: Question | None = None, otherwise: ApiError | None = None) -> Snapshot:
    api = cast("Api", Answers(paths, otherwise))
    return asyncio.run(load(api, question or Question(), VERSION, []))


def test_everything_of_an_installation_is_read() -> None:
    found = read(cluster())
    assert found.unread == []
    assert found.installed.namespace == NAMESPACE
    assert found.kinds == {("batch", "jobs"): ["v1"], ("jobset.x-k8s.io", "jobsets"): ["v1alpha2"]}
    assert found.policy is not None
    assert set(found.policy.profiles) == {"default", "gpu"}
    assert found.missing_rights == []
    assert found.probe is not None
    assert found.probe.namespace == "ml"


def test_the_private_key_beside_the_certificate_is_dropped() -> None:
    assert read(cluster()).certificates == [{"metadata": {}, "data": {"tls.crt": base64_of(LEAF)}}]


def test_what_the_user_may_not_read_is_noted_with_the_missing_right() -> None:
    found = read(cluster(retry_policy_webhook_certificates=ApiError(403, "forbidden")))
    (unread,) = found.unread
    assert found.certificates is None
    assert unread.section == "Certificate"
    assert unread.right == "get secrets/retry-policy-webhook-certificates in namespace retry-policy-system"


def test_an_error_that_is_not_about_rights_is_noted_with_its_message() -> None:
    (unread,) = read(cluster(namespaces=ApiError(500, "etcd is slow"))).unread
    assert (unread.right, unread.why) == ("", "500 etcd is slow")


def test_a_user_whom_the_api_server_does_not_know_gets_no_answer() -> None:
    with pytest.raises(ApiError, match="401"):
        read({}, otherwise=ApiError(401, "unauthorized"))


def test_a_user_who_may_read_nothing_gets_every_missing_right() -> None:
    found = read({}, otherwise=ApiError(403, "forbidden"))
    assert found.nothing_read
    assert {one.section for one in found.unread} >= {"Installation", "Webhooks", "Certificate", "Namespaces", "Leader"}


def test_a_user_who_may_not_list_namespaces_can_ask_about_one() -> None:
    paths = cluster(namespaces=ApiError(403, "forbidden"))
    paths[f"{NAMESPACES}/ml"] = namespace(profile="default")
    found = read(paths, Question("ml"))
    assert found.namespaces == [namespace(profile="default")]
    assert found.probe is not None
    assert read(paths, Question("web")).namespaces == []


def test_a_list_that_is_too_long_is_cut_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMESPACES", 2)
    found = read(cluster(namespaces=[namespace(str(number)) for number in range(5)]))
    assert found.namespaces is not None
    assert len(found.namespaces) == 2
    assert found.cut == {"Namespaces": "only the first 2 namespaces were looked at"}


def test_the_object_that_the_user_asks_about_is_read() -> None:
    paths = cluster()
    paths[f"{JOBS}/train"] = {"metadata": {"name": "train"}}
    (found,) = read(paths, Question("ml", [batch.JOB], "train")).stored
    assert found.name == "ml/job/train"
    assert found.root == {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
    (gone,) = read(paths, Question("ml", [batch.JOB], "gone")).stored
    assert gone.root is None


def test_without_a_kind_every_object_of_the_name_is_read() -> None:
    paths = cluster()
    rows = [batch.JOB, JOB_SET, CRON_JOB]
    for path in (f"{JOBS}/train", JOB_SET.path("ml", "train"), CRON_JOB.path("ml", "train")):
        paths[path] = {"metadata": {"name": "train"}}
    found = read(paths, Question("ml", rows, "train")).stored
    assert [one.name for one in found] == ["ml/job/train", "ml/jobset/train"]  # the cluster serves no CronJobs
    assert read(paths, Question("ml", rows, "gone")).stored == [Stored(None, "ml/gone", None)]


def test_an_object_that_the_user_may_not_read_is_not_said_to_be_absent() -> None:
    paths = cluster()
    paths[JOB_SET.path("ml", "train")] = ApiError(403, "forbidden")
    found = read(paths, Question("ml", [batch.JOB, JOB_SET], "train"))
    assert found.stored == []
    assert [one.right for one in found.unread] == ["get jobsets.jobset.x-k8s.io in namespace ml"]


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        pass

    monkeypatch.setattr(asyncio, "sleep", at_once)


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [(renewed(1), None), (renewed(60), False), (RELEASED, False), (ApiError(404, "not found"), None)],
)
def test_a_lease_that_is_not_fresh_is_awaited(answer: Answer, expected: Any) -> None:
    (seen,) = read(cluster(retry_policy_webhook_ledger=answer)).leases or []
    assert seen.renewed is expected
    assert (seen.lease is None) == isinstance(answer, ApiError)


@pytest.mark.parametrize(("age", "expected"), [(5, 45.0), (300, 5.0)])
def test_replicas_that_have_just_started_may_wait_for_the_end_of_the_last_lease(
    age: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def noted(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    created = (NOW - timedelta(seconds=age)).isoformat()
    paths = cluster(retry_policy_webhook_ledger=renewed(60))
    paths[f"/api/v1{WITHIN}/pods"] = [{"metadata": {"name": "pod-0", "creationTimestamp": created}}]
    read(paths)
    assert sum(waited) == expected
