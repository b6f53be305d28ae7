"""A controller exempts a Job from rules only if the controller exists, with this uid, and its kind does so."""

from typing import Any

import pytest

from tests.admission import Answer, validate
from tests.objects import job, job_spec
from webhook.objects.problem import Json
from webhook.rules import owner
from webhook.rules.facts import Facts
from webhook.systems.job.spec import JOB

UNLIMITED = 2147483647
IN_PLACE: Json = {"metadata": {"uid": "u"}, "spec": {"failurePolicy": {"restartStrategy": "InPlaceRestart"}}}
RECREATING: Json = {"metadata": {"uid": "u"}, "spec": {}}


def of(kind: str, version: str = "jobset.x-k8s.io/v1alpha2", **spec: Any) -> Json:
    reference = {"apiVersion": version, "kind": kind, "name": "set", "uid": "u", "controller": True}
    return job(job_spec(**spec), ownerReferences=[reference])


def judged(root: Json, owner: Json | None, old: Json | None = None) -> Answer:
    return validate(root, Facts(profile_name="default", owner=owner, owners_known=True), old=old)


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("JobSet", "jobset.x-k8s.io/v1alpha2"),
        ("RayJob", "ray.io/v1"),
        ("RayCluster", "ray.io/v1"),
        ("MPIJob", "kubeflow.org/v2beta1"),
        ("SparkApplication", "sparkoperator.k8s.io/v1beta2"),
    ],
)
def test_a_job_whose_controller_does_not_exist_is_denied(kind: str, version: str) -> None:
    assert judged(of(kind, version), None).message == (
        f"metadata.ownerReferences: the controller is {kind} 'set' with uid 'u', which does not exist; "
        "remove it: a controller writes it into the Jobs that it creates"
    )


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("CronJob", "batch/v1"),
        ("Workflow", "argoproj.io/v1alpha1"),
        ("AppWrapper", "workload.codeflare.dev/v1beta2"),
        ("Wonder", "x.test/v1"),
        ("JobSet", "x.test/v1"),
    ],
)
def test_a_controller_that_is_unknown_or_exempts_a_job_from_nothing_is_not_looked_up(kind: str, version: str) -> None:
    assert judged(of(kind, version), None).allowed


def test_without_a_cluster_the_controller_in_a_file_is_assumed_to_exist() -> None:
    assert validate(of("JobSet", backoffLimit=UNLIMITED)).allowed


def test_unlimited_retries_are_accepted_if_the_job_set_restarts_in_place() -> None:
    root = of("JobSet", backoffLimit=UNLIMITED)
    root["spec"]["template"]["metadata"] = {"labels": {"jobset.sigs.k8s.io/jobset-name": "set"}}
    assert judged(root, IN_PLACE).allowed


def test_unlimited_retries_are_denied_if_the_pods_do_not_count_for_the_job_set() -> None:
    assert judged(of("JobSet", backoffLimit=UNLIMITED), IN_PLACE).message == (
        "spec.backoffLimit: is unlimited, and its pods do not count for JobSet 'set'; "
        "label them as the JobSet controller does: jobset.sigs.k8s.io/jobset-name"
    )


def test_unlimited_retries_are_denied_if_the_job_set_does_not_restart_in_place() -> None:
    assert judged(of("JobSet", backoffLimit=UNLIMITED), RECREATING).message == (
        "spec.backoffLimit: is unlimited, and JobSet 'set' has no restartStrategy InPlaceRestart; "
        "set as many retries as the JobSet's template"
    )
    assert judged(of("JobSet", backoffLimit=3), RECREATING).allowed


def test_an_update_to_unlimited_retries_is_denied() -> None:
    assert not judged(of("JobSet", backoffLimit=UNLIMITED), RECREATING, old=of("JobSet", backoffLimit=3)).allowed


def test_an_update_that_adds_a_controller_that_does_not_exist_is_denied() -> None:
    stored = job(job_spec(backoffLimit=3))
    assert not judged(of("JobSet", backoffLimit=3), None, old=stored).allowed


def test_a_job_may_still_be_updated_after_its_controller_was_deleted() -> None:
    stored = of("JobSet", backoffLimit=3)
    assert judged({**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}, None, old=stored).allowed


SET_LABEL = "jobset.sigs.k8s.io/jobset-name"


def labelled(root: Json, name: Any) -> Json:
    root["spec"]["template"]["metadata"] = {"labels": {SET_LABEL: name}}
    return root


def test_a_job_with_the_label_of_a_job_set_that_does_not_control_it_is_denied() -> None:
    path = f"spec.template.metadata.labels[{SET_LABEL}]"
    remedy = "remove it: the JobSet controller writes it into the Jobs that it creates"
    for root in (labelled(job(), "set"), labelled(of("CronJob", "batch/v1"), "set"), labelled(of("JobSet"), "other")):
        name = root["spec"]["template"]["metadata"]["labels"][SET_LABEL]
        assert judged(root, RECREATING).message == (
            f"{path}: is {name!r}, and no such JobSet controls the Job; {remedy}"
        )


def test_a_job_of_a_job_set_may_have_the_label_of_that_job_set() -> None:
    assert judged(labelled(of("JobSet"), "set"), RECREATING).allowed


@pytest.mark.parametrize("value", [None, 5, ["set"]])
def test_a_label_that_is_not_a_string_is_left_to_the_api_server(value: Any) -> None:
    (found,) = JOB.jobs(labelled(job(), value))
    assert list(owner.label_problems(found)) == []
