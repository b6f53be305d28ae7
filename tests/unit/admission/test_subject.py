"""The requests that rules judge, their subjects, and the owners to look up."""

from typing import Any

import msgspec
import pytest

from tests.admission import review_of
from tests.objects import cron_job, job, job_spec, pod
from webhook.admission import review, subject
from webhook.admission.subject import Subject, request_to_create, subject_of
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.problem import Json
from webhook.systems import core
from webhook.systems.job.spec import CRON_JOB, JOB
from webhook.systems.kind_spec import OwnerReference

DELETED = "2026-11-22T08:00:00Z"


def subject_in(root: Any, **request: Any) -> Subject | None:
    """Return the subject of a request as the server decodes it."""
    body = review_of(root, **request)
    return subject_of(subject.read(body), body=body)


def required(found: Subject | None) -> Subject:
    assert found is not None
    return found


def test_the_subject_of_a_known_kind_has_its_kind_spec() -> None:
    assert required(subject_in(job())).kind is JOB
    assert required(subject_in(cron_job())).kind is CRON_JOB
    assert required(subject_in(job())).root == job()


@pytest.mark.parametrize(
    ("root", "request_"),
    [
        ({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}, {}),
        ({"apiVersion": "x.test/v1", "kind": "Job", "metadata": {"name": "train"}}, {}),
        (job(), {"operation": "DELETE"}),
        (job(), {"operation": "CONNECT"}),
        (pod(), {"operation": "UPDATE", "old": pod()}),
    ],
)
def test_other_requests_have_no_subject(root: Json, request_: Json) -> None:
    assert subject_in(root, **request_) is None


def test_a_request_for_a_subresource_has_no_subject() -> None:
    request = msgspec.structs.replace(subject.read(review_of(job())), sub_resource="status")
    assert subject_of(request) is None


def test_the_subject_of_an_update_has_the_old_object() -> None:
    old = job(job_spec(backoffLimit=3))
    assert required(subject_in(job(), operation="UPDATE", old=old)).old == old
    assert required(subject_in(job())).old is None


def test_an_update_of_an_object_that_is_being_deleted_has_no_subject() -> None:
    going = job(deletionTimestamp=DELETED, finalizers=["x.test/a"])
    assert subject_in(going, operation="UPDATE", old=going) is None
    assert subject_in(going) is not None  # a new object cannot be one that is being deleted


def test_a_wrong_type_is_a_problem_with_its_path_in_the_object_or_the_old_object() -> None:
    wrong = job(job_spec(backoffLimit="3"))
    (problem,) = required(subject_in(wrong)).malformed
    assert str(problem) == "spec.backoffLimit: is a string; must be an integer"
    (problem,) = required(subject_in(job(), operation="UPDATE", old=wrong)).malformed
    assert str(problem) == "oldObject.spec.backoffLimit: is a string; must be an integer"


@pytest.mark.parametrize("root", [[], "text", 5])
def test_a_value_that_is_no_object_is_malformed(root: Any) -> None:
    request = msgspec.structs.replace(request_to_create(job()), object=msgspec.Raw(msgspec.json.encode(root)))
    (problem,) = required(subject_of(request)).malformed
    assert str(problem).endswith("must be an object")


def test_a_list_with_too_many_entries_is_one_problem() -> None:
    containers = [{"name": f"c{number}"} for number in range(bounds.MOST_ENTRIES + 1)]
    root = job(job_spec(containers=tuple(containers)))
    (problem,) = required(subject_in(root)).malformed
    assert "spec.template.spec.containers" in str(problem)
    assert subject_in(root, operation="UPDATE", old=root) is None  # the stored object has as many already


def job_set(number: int) -> Json:
    jobs = [{"name": f"j{index}", "template": {"spec": {}}} for index in range(number)]
    metadata = {"name": "train", "namespace": "ml"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": jobs},
    }


def test_a_job_set_with_too_many_jobs_is_one_problem() -> None:
    assert required(subject_in(job_set(bounds.MOST_JOBS))).malformed == []
    (problem,) = required(subject_in(job_set(bounds.MOST_JOBS + 1))).malformed
    assert "is one of more than 1000 Jobs" in str(problem)


def owned(root: Json, api_version: str, kind: str, *, controller: bool = True) -> Json:
    reference = {"apiVersion": api_version, "kind": kind, "name": "owner", "uid": "u", "controller": controller}
    return {**root, "metadata": {**root["metadata"], "ownerReferences": [reference]}}


def test_the_subject_of_a_job_names_an_owning_job_set_but_no_cron_job() -> None:
    of_set = required(subject_in(owned(job(), "jobset.x-k8s.io/v1alpha2", "JobSet")))
    assert of_set.owner == OwnerReference("jobset.x-k8s.io", "v1alpha2", "JobSet", "owner", "u")
    assert required(subject_in(owned(job(), "batch/v1", "CronJob"))).owner is None


BARE = pod(owner=None)


@pytest.mark.parametrize(
    ("root", "owner", "takes_part"),
    [
        (owned(BARE, "batch/v1", "Job"), "Job", True),
        (owned(BARE, "tekton.dev/v1", "TaskRun"), "TaskRun", True),
        (owned(BARE, "jobset.x-k8s.io/v1alpha2", "JobSet"), None, False),
        (owned(BARE, "spark.apache.org/v1", "SparkApplication", controller=False), None, False),
        (pod(owner=None, annotations={names.ATTEMPT: "1"}), None, True),
        (pod(owner=None, labels={"try_number": "1", "kubernetes_executor": "True"}), None, True),
    ],
)
def test_the_subject_of_a_pod_names_the_batch_workload_that_owns_it(
    root: Json,
    owner: str | None,
    takes_part: bool,  # noqa: FBT001
) -> None:
    found = subject_in(root)
    assert (found is not None) is takes_part
    if found is not None:
        assert found.kind is core.POD
        assert (None if found.owner is None else found.owner.kind) == owner


@pytest.mark.parametrize("kind", ["ReplicaSet", "DaemonSet", "Wonder"])
def test_a_pod_that_no_batch_workload_owns_has_no_subject(kind: str) -> None:
    assert subject_in(pod(owner=kind)) is None
    assert subject_in(BARE) is None


def test_a_spark_driver_belongs_to_its_owner_and_an_executor_to_the_application_in_its_labels() -> None:
    driver = owned(BARE, "spark.apache.org/v1", "SparkApplication", controller=False)
    driver["metadata"]["labels"] = {"spark.operator/spark-app-name": "pi"}
    executor = owned(BARE, "v1", "Pod")
    executor["metadata"]["labels"] = {
        "sparkoperator.k8s.io/app-name": "pi",
        "sparkoperator.k8s.io/launched-by-spark-operator": "true",
    }
    found = [required(subject_in(root)).owner for root in (driver, executor)]
    assert [None if one is None else (one.group, one.name) for one in found] == [
        ("spark.apache.org", "owner"),
        ("sparkoperator.k8s.io", "pi"),
    ]


def test_a_pod_is_decoded_in_part_for_the_rules_and_whole_if_that_is_asked_for() -> None:
    root = owned(BARE, "batch/v1", "Job")
    found = required(subject_in(root))
    assert "containers" not in found.root["spec"]
    assert found.whole() == root


def test_a_pod_with_a_wrong_type_is_decoded_whole_and_has_a_problem() -> None:
    root = owned(pod({"nodeSelector": {"a": 1}}, owner=None), "batch/v1", "Job")
    found = required(subject_in(root))
    assert [str(one) for one in found.malformed] == ["spec.nodeSelector.a: is an integer; must be a string"]
    assert found.whole() == root


def test_bytes_that_are_no_review_are_rejected() -> None:
    with pytest.raises(review.BadReviewError):
        subject.read(b"{}")


def test_a_document_is_handled_as_a_request_to_create_it() -> None:
    root = job()
    request = request_to_create(root)
    assert (request.kind.group, request.kind.version, request.kind.kind) == ("batch", "v1", "Job")
    assert required(subject_of(request, root)).root is root
