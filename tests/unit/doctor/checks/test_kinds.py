"""What the doctor finds about the kinds of the cluster."""

from tests.unit.doctor.healthy import healthy, told, wrong
from webhook.doctor.checks.configurations import kinds
from webhook.objects.problem import Json

JOB_SETS = ("jobset.x-k8s.io", "jobsets")


def crd(*fields: str) -> Json:
    """Return the CRD of JobSets whose rules have these fields."""
    schema: Json = {"properties": {key: {} for key in fields}}
    for name in ("rules", "failurePolicy", "spec"):
        inner = {"items": schema} if name == "rules" else schema
        schema = {"properties": {name: inner}}
    version = {"name": "v1alpha2", "served": True, "schema": {"openAPIV3Schema": schema}}
    return {"metadata": {"name": "jobsets.jobset.x-k8s.io"}, "spec": {"versions": [version]}}


def test_the_kinds_that_are_handled_are_listed() -> None:
    (found,) = kinds(healthy())
    assert (found.status, found.what) == ("ok", "handled in this cluster: Job, CronJob")


def test_a_kind_of_which_no_known_version_is_served_is_a_problem() -> None:
    status, text, fix = told(kinds, healthy(kinds={JOB_SETS: ["v1alpha1"]}))
    assert status == "problem"
    assert "jobsets.jobset.x-k8s.io: is served only as v1alpha1, and the webhook knows v1alpha2" in text
    assert fix == "kubectl get crd jobsets.jobset.x-k8s.io -o yaml"


def test_a_newer_version_beside_a_known_one_is_right() -> None:
    assert wrong(kinds, healthy(kinds={JOB_SETS: ["v1beta1", "v1alpha2"]})) == []


def test_job_sets_without_message_patterns_are_a_warning() -> None:
    served = {JOB_SETS: ["v1alpha2"]}
    status, text, _ = told(kinds, healthy(kinds=served, job_set_crd=[crd("name")]))
    assert status == "warning"
    assert "a disruption replaces only the pod" in text
    assert wrong(kinds, healthy(kinds=served, job_set_crd=[crd("onJobFailureMessagePatterns")])) == []


def test_kinds_that_could_not_be_read_are_not_judged() -> None:
    assert list(kinds(healthy(kinds=None))) == []
