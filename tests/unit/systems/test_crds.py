"""Which optional fields are read from the CRDs of JobSets and TrainJobs."""

import pytest

from webhook.objects.problem import Json
from webhook.systems.job_set.spec import JobSetFeatures, features_of
from webhook.systems.trainer.spec import has_runtime_patches


def crd(version: str, *path: str, fields: Json) -> Json:
    """Return a CRD with one version that has fields at a path of its schema."""
    schema = fields
    for step in reversed(path):
        schema = {"items": schema} if step == "items" else {"properties": {step: schema}}
    return {"spec": {"versions": [{"name": version, "schema": {"openAPIV3Schema": schema}}]}}


def job_set_crd(version: str = "v1alpha2", **fields: Json) -> Json:
    return crd(version, "spec", "failurePolicy", "rules", "items", fields={"properties": fields})


@pytest.mark.parametrize(
    ("found", "features"),
    [
        (job_set_crd(onJobFailureMessagePatterns={}), JobSetFeatures(message_patterns=True, restart_job=False)),
        (job_set_crd(action={"enum": ["RestartJob"]}), JobSetFeatures(message_patterns=False, restart_job=True)),
        (job_set_crd("v9", onJobFailureMessagePatterns={}), JobSetFeatures(message_patterns=False, restart_job=False)),
    ],
)
def test_job_set_features_are_read_from_the_version_that_admission_receives(
    found: Json, features: JobSetFeatures
) -> None:
    assert features_of(found) == features


def test_train_jobs_have_runtime_patches_if_their_crd_has_the_field() -> None:
    assert has_runtime_patches(crd("v1alpha1", "spec", fields={"properties": {"runtimePatches": {}}}))
    assert not has_runtime_patches(crd("v1alpha1", "spec", fields={"properties": {"suspend": {}}}))
