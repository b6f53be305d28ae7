"""A client of the port that is not the API server learns nothing new, and causes few calls of the API."""

import asyncio
from typing import Any

import pytest

from tests.admission import Answer, answer_of, review_of
from tests.objects import STATE_KEY, job, job_spec, pod, stored_job
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.policy.parse import load_default
from webhook.retry import record
from webhook.retry.admission import RetryAdmission
from webhook.serving.endpoints import Endpoints
from webhook.systems.job import rerun as of_job
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource

JOBS = "/apis/batch/v1/namespaces/ml/jobs"
JOB = f"{JOBS}/train"
SPARK = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/ml/sparkapplications/pi"
POLICY = ("retry-policy-system", "retry-policy")
UID = "1b2c3d4e-0000-4000-8000-000000000000"
WHEN = "2026-11-21T12:00:00Z"
FAILED = {"failed": 2, "conditions": [{"type": "Failed", "status": "True"}]}
TRAIN: Json = {
    **stored_job(job_spec(backoffLimit=7), FAILED),
    "metadata": {
        "name": "train",
        "namespace": "ml",
        "uid": UID,
        "resourceVersion": "1",
        "labels": {names.PROFILE: "default"},
        "annotations": {names.RETRYABLE: "true"},
    },
}
PI = {
    "metadata": {"name": "pi", "namespace": "ml", "uid": "pi-uid"},
    "spec": {"restartPolicy": {"type": "OnFailure", "onFailureRetries": 8}},
    "status": {"executionAttempts": 3, "submissionID": "submission-3"},
}
USER = {"username": "alice", "groups": ["system:authenticated"]}


class Stored:
    """An API server with objects, which records requests: GET of objects, POST of access reviews, which it denies."""

    def __init__(self, objects: dict[str, Json]) -> None:
        self.objects = objects
        self.asked: list[str] = []
        self.rights = 0

    async def get(self, path: str, *_: object, **__: object) -> Json:
        self.asked.append(path)
        if path not in self.objects:
            raise ApiError(404, "not found")
        return self.objects[path]

    async def find(self, path: str) -> Json | None:
        self.asked.append(path)
        return self.objects.get(path)

    async def create(self, path: str, _: Json) -> Json:
        self.asked.append(path)
        self.rights += 1
        return {"status": {"allowed": False}}


class Port:
    """The admission port of a server that caches the opted-in namespace `ml`, and calls the API for the rest."""

    def __init__(self, objects: dict[str, Json]) -> None:
        self.stored = Stored(objects)
        api: Any = self.stored
        cluster = Cluster(api)
        cluster.state_key.key = STATE_KEY.key
        cluster.namespaces.items["", "ml"] = cluster.namespaces.items["", "secret-team"] = ("default", None)
        cluster.namespaces.live = True
        policy = PolicySource(load_default(), POLICY)
        policy.uid = "policy-uid"
        retry_requests = RetryAdmission(api, cluster, controller="leader")
        self.routes = Endpoints(policy, cluster, retry_requests=retry_requests).admission()

    def asks(self, path: str, root: Json, **request: Any) -> Answer:
        """Return the answer to a review."""
        body = review_of(root, **request)
        answer = asyncio.run(self.routes.by_path[path][1](body))
        assert answer.status == 200, answer.body
        return answer_of(answer.body, root)

    def retries(self, root: Json, old: Json | None = None) -> Answer:
        """Return the answer to an update that requests a retry, or changes fields of one."""
        return self.asks("/retry", root, old=old, name=root["metadata"]["name"], userInfo=USER)


def answer_to(path: str, root: Json, objects: dict[str, Json], **request: Any) -> Answer:
    return Port(objects).asks(path, root, **request)


def pod_of(uid: str | None, name: str = "train") -> Json:
    root = pod()
    root["metadata"]["ownerReferences"][0] |= {"name": name, "uid": uid}
    return root


def executor(submission: str | None) -> Json:
    labels = {"app-name": "pi", "launched-by-spark-operator": "true", "submission-id": submission}
    said = {f"sparkoperator.k8s.io/{key}": value for key, value in labels.items() if value is not None}
    return pod(owner="Pod", labels=said)


@pytest.mark.parametrize("uid", ["another", "", None])
def test_the_answer_for_a_pod_without_its_jobs_uid_does_not_depend_on_the_job(uid: str | None) -> None:
    with_it, without = (answer_to("/mutate", pod_of(uid), objects) for objects in ({JOB: TRAIN}, {}))
    assert with_it == without
    assert with_it.object["metadata"]["annotations"][f"{names.PREFIX}attempt-source"] == "Unknown"


def test_a_pod_of_a_job_that_is_not_cached_gets_its_attempt() -> None:
    annotations = answer_to("/mutate", pod_of(UID), {JOB: TRAIN}).object["metadata"]["annotations"]
    assert (annotations[names.ATTEMPT], annotations[names.MAX_RETRIES]) == ("2", "7")


@pytest.mark.parametrize("submission", ["another", "", None])
def test_the_answer_for_an_executor_without_the_submission_id_does_not_depend_on_the_application(
    submission: str | None,
) -> None:
    with_it, without = (answer_to("/mutate", executor(submission), objects) for objects in ({SPARK: PI}, {}))
    assert with_it == without


def test_an_executor_of_the_current_submission_gets_its_attempt() -> None:
    annotations = answer_to("/mutate", executor("submission-3"), {SPARK: PI}).object["metadata"]["annotations"]
    assert (annotations[names.ATTEMPT], annotations[names.MAX_RETRIES]) == ("2", "8")


def config_map(uid: str | None) -> Json:
    text = "{apiVersion: retry-policy.dev/v1alpha1, kind: RetryPolicy, profiles: {gpu: {}}}"
    metadata = {"name": POLICY[1], "namespace": POLICY[0], "uid": uid}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text}}


def test_only_an_update_of_the_stored_policy_is_answered_with_the_namespaces_of_a_profile() -> None:
    about = {"namespace": POLICY[0], "name": POLICY[1]}
    for root, old in ((config_map(None), None), (config_map("forged"), config_map("forged"))):
        message = answer_to("/validate", root, {}, old=old, **about).message
        assert "profiles: lack a profile that a namespace is labelled with" in message
        assert "secret-team" not in message
    stored = config_map("policy-uid")
    message = answer_to("/validate", stored, {}, old=stored, **about).message
    assert "profiles.default: is missing, and in use by ml, secret-team" in message


def with_fields(root: Json, *, uid: str = UID, labels: Json | None = None, **annotations: str) -> Json:
    """Return a Job with another uid, and with labels and annotations of this project."""
    said = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    metadata = root["metadata"]
    old = {**(metadata.get("annotations") or {}), **said}
    marked = {**(metadata.get("labels") or {}), **(labels or {})}
    return {**root, "metadata": {**metadata, "uid": uid, "annotations": old, "labels": marked}}


HISTORY = record.with_new(TRAIN, record.Requested(at=WHEN, by="bob", of=UID))
UPDATES = [
    pytest.param({}, {"retry_requested_at": WHEN}, id="asks"),
    pytest.param({names.RETRY_IN_PROGRESS: "true"}, {}, id="marks"),
    pytest.param({names.RETRY_OF: UID}, {}, id="is made of another"),
    pytest.param({}, {"retry_accepted": "{}"}, id="was accepted"),
    pytest.param({}, {"retry_history": HISTORY}, id="was asked for"),
    pytest.param({}, {"successor": "{}"}, id="has a successor"),
]


@pytest.mark.parametrize(("labels", "said"), UPDATES)
def test_without_the_uid_of_the_stored_object_no_permissions_are_looked_up(labels: Json, said: dict[str, str]) -> None:
    before = with_fields(TRAIN, uid="forged")
    answers = []
    for objects in ({JOB: TRAIN}, {}):
        port = Port(objects)
        answers.append(port.retries(with_fields(before, uid="forged", labels=labels, **said), before))
        assert (port.stored.rights, port.stored.asked) == (0, [JOB])
    assert answers[0] == answers[1]
    what = "metadata.uid: no Job has this name and uid; read it again, and repeat the change"
    assert answers[0].message == f"Job ml/train: {what}"


@pytest.mark.parametrize(("labels", "said"), UPDATES)
def test_with_the_uid_the_denial_lists_the_permissions_that_the_user_lacks(labels: Json, said: dict[str, str]) -> None:
    answer = Port({JOB: TRAIN}).retries(with_fields(TRAIN, labels=labels, **said), with_fields(TRAIN))
    assert "alice may not create jobs, patch jobs, delete jobs" in answer.message


@pytest.mark.parametrize("field", ["namespace", "name"])
def test_a_review_with_another_object_than_its_request_names_is_refused(field: str) -> None:
    other = {**TRAIN, "metadata": {**TRAIN["metadata"], field: "other"}}
    port = Port({JOB: TRAIN})
    about = {"old": other, "name": "train", "userInfo": USER}
    answer = port.asks("/retry", with_fields(other, retry_requested_at=WHEN), **about)
    assert (answer.allowed, port.stored.rights) == (False, 0)


@pytest.mark.parametrize("name", ["", "../../../../secrets/x", "a?b"])
def test_an_invalid_name_does_not_become_a_path(name: str) -> None:
    other = {**TRAIN, "metadata": {**TRAIN["metadata"], "name": name}}
    port = Port({JOB: TRAIN})
    assert not port.retries(with_fields(other, retry_requested_at=WHEN), other).allowed
    assert port.stored.asked == []


def test_a_new_job_without_a_placeholder_loses_the_fields_of_retries_for_any_user() -> None:
    forged = job(name="copy", labels={names.RETRY_OF: "forged"}, annotations={names.RETRY_OF: "forged"})
    port = Port({JOB: TRAIN})
    answer = port.retries(forged)
    assert (answer.allowed, answer.object["metadata"]["labels"], port.stored.rights) == (True, {}, 0)


def test_a_new_placeholder_needs_the_uid_of_its_failed_job() -> None:
    placeholder = of_job.placeholder_for(TRAIN, "alice", WHEN)
    forged = of_job.placeholder_for(with_fields(TRAIN, uid="forged"), "alice", WHEN)
    answers = []
    for objects in ({JOB: TRAIN}, {}):
        port = Port(objects)
        answers.append(port.retries(forged))
        assert (port.stored.rights, port.stored.asked) == (0, [JOB])
    assert answers[0] == answers[1]
    assert "contains the manifest of Job ml/train, which has not failed, or has another uid" in answers[0].message
    assert "alice may not create jobs" in Port({JOB: TRAIN}).retries(placeholder).message


def test_a_new_successor_needs_the_permissions_of_its_user() -> None:
    placeholder = of_job.placeholder_for(TRAIN, "alice", WHEN)
    port = Port({f"{JOBS}/{placeholder['metadata']['name']}": placeholder})
    assert "alice may not create jobs" in port.retries(of_job.successor(placeholder)).message
