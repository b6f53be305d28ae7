"""Where Kubeflow Trainer's runtimes have their retries and JobSpecs, and a TrainJob the annotations of its pods."""

from typing import Any

import pytest

from tests.objects import job_spec
from tests.unit.systems.reading import places, retries, root_of, wrong
from webhook.objects.problem import Json, field
from webhook.systems.kind_spec import KindSpec
from webhook.systems.trainer.spec import CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, TRAINING_RUNTIME

RUNTIMES = [TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME]


def runtime(kind: KindSpec, nodes: int = 1, ml_policy: Json | None = None, **job_set_spec: Any) -> Json:
    """Return a runtime as Trainer ships it: one replicated Job with the ancestor label `trainer`."""
    metadata = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    jobs = [{"name": "node", "template": {"metadata": metadata, "spec": job_spec(parallelism=nodes)}}]
    template = {"spec": {"replicatedJobs": jobs, **job_set_spec}}
    return root_of(kind, {"mlPolicy": ml_policy or {"numNodes": 1, "torch": {}}, "template": template})


@pytest.mark.parametrize("kind", RUNTIMES)
def test_a_runtime_has_the_restarts_of_its_job_set_and_none_by_default(kind: KindSpec) -> None:
    path = "spec.template.spec.failurePolicy.maxRestarts"
    assert retries(kind, runtime(kind)) == {path: 0}
    assert retries(kind, runtime(kind, failurePolicy={"maxRestarts": 3})) == {path: 3}


def test_torchruns_restarts_are_a_separate_field() -> None:
    elastic = {"torch": {"elasticPolicy": {"maxRestarts": 5, "minNodes": 1}}}
    found = retries(TRAINING_RUNTIME, runtime(TRAINING_RUNTIME, ml_policy=elastic))
    assert found["spec.mlPolicy.torch.elasticPolicy.maxRestarts"] == 5
    silent = {"torch": {"elasticPolicy": {"minNodes": 1}}}
    assert len(retries(TRAINING_RUNTIME, runtime(TRAINING_RUNTIME, ml_policy=silent))) == 1


@pytest.mark.parametrize(("nodes", "coupled"), [(1, False), (4, True)])
def test_the_jobs_of_a_runtime_are_those_of_a_job_set(
    nodes: int,
    coupled: bool,  # noqa: FBT001
) -> None:
    (found,) = TRAINING_RUNTIME.jobs(runtime(TRAINING_RUNTIME, nodes))
    assert field(found.path) == "spec.template.spec.replicatedJobs[0].template.spec"
    assert (found.traits.coupled, found.traits.completion_mode) == (coupled, "Indexed")


def test_a_runtime_gets_no_failure_policy_because_its_jobs_get_it_when_they_are_created() -> None:
    assert not any(kind.failure_policy for kind in RUNTIMES)


def test_a_cluster_runtime_is_cluster_scoped() -> None:
    assert TRAINING_RUNTIME.namespaced
    assert not CLUSTER_TRAINING_RUNTIME.namespaced


def train_job(**spec: Any) -> Json:
    return root_of(TRAIN_JOB, {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}, **spec})


def test_a_train_job_has_no_retries() -> None:
    assert retries(TRAIN_JOB, train_job()) == {}


def test_the_pods_of_a_train_job_have_annotations_in_pod_template_overrides() -> None:
    overrides = [{"targetJobs": [{"name": name}]} for name in ("node", "launcher")]
    assert places(TRAIN_JOB.pod_annotations, train_job(podTemplateOverrides=overrides)) == [
        f"spec.podTemplateOverrides[{index}].metadata.annotations" for index in range(2)
    ]


def test_patches_of_the_runtime_can_have_annotations_of_job_set_job_and_pod() -> None:
    pod = {"metadata": {"annotations": {"a": "b"}}}
    job = {"metadata": {"annotations": {"a": "b"}}, "spec": {"template": pod}}
    template = {
        "metadata": {"annotations": {"a": "b"}},
        "spec": {"replicatedJobs": [{"name": "node", "template": job}]},
    }
    root = train_job(runtimePatches=[{"manager": "acme.test/a", "trainingRuntimeSpec": {"template": template}}])
    assert wrong(TRAIN_JOB, root) == []
    patched = "spec.runtimePatches[0].trainingRuntimeSpec.template"
    assert places(TRAIN_JOB.judged_annotations, root) == [
        "spec.annotations",
        f"{patched}.metadata.annotations",
        f"{patched}.spec.replicatedJobs[0].template.metadata.annotations",
        f"{patched}.spec.replicatedJobs[0].template.spec.template.metadata.annotations",
    ]
