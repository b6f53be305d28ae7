"""Where the training operator's jobs and MPIJobs have their retries and pod templates, and what no field limits."""

from typing import Any

import pytest

from tests.unit.systems.reading import retries, root_of, templates
from webhook.objects.problem import Json
from webhook.systems.kubeflow import spec as kubeflow

KINDS = {kind.kind: kind for kind in kubeflow.KINDS}
REPLICA_SPECS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
LIMIT = "spec.runPolicy.backoffLimit"


def replica(restart_policy: str | None = "OnFailure") -> Json:
    policy = {} if restart_policy is None else {"restartPolicy": restart_policy}
    return {"replicas": 1, **policy, "template": {"spec": {"containers": [{"name": "main", "image": "torch:2.9"}]}}}


def job(kind: str, version: str | None = None, replicas: Json | None = None, **spec: Any) -> Json:
    """Return a job as in the operator's examples: most have no runPolicy."""
    specs = {"Master": replica(), "Worker": replica()} if replicas is None else replicas
    return root_of(KINDS[kind], {REPLICA_SPECS[kind]: specs, **spec}, version)


@pytest.mark.parametrize("kind", REPLICA_SPECS)
@pytest.mark.parametrize("spec", [{}, {"runPolicy": {}}, {"runPolicy": {"cleanPodPolicy": "None"}}])
def test_a_job_without_a_limit_has_unlimited_retries_which_the_default_may_replace(kind: str, spec: Json) -> None:
    (budget,) = KINDS[kind].budgets(job(kind, **spec))
    assert (budget.retries, budget.replaceable) == (None, True)


@pytest.mark.parametrize("kind", REPLICA_SPECS)
def test_each_kind_has_its_limit_in_its_run_policy_and_a_template_for_each_type_of_replica(kind: str) -> None:
    root = job(kind, runPolicy={"backoffLimit": 3})
    assert retries(KINDS[kind], root) == {LIMIT: 3}
    assert templates(KINDS[kind], root) == [
        f"spec.{REPLICA_SPECS[kind]}.{replica_type}.template" for replica_type in ("Master", "Worker")
    ]


@pytest.mark.parametrize("kind", ["PyTorchJob", "PaddleJob"])
def test_restarts_of_torchrun_have_a_separate_field(kind: str) -> None:
    root = job(kind, runPolicy={"backoffLimit": 1}, elasticPolicy={"rdzvBackend": "c10d", "maxRestarts": 100})
    assert retries(KINDS[kind], root) == {LIMIT: 1, "spec.elasticPolicy.maxRestarts": 100}
    without = job(kind, runPolicy={"backoffLimit": 1}, elasticPolicy={"minReplicas": 1})
    assert retries(KINDS[kind], without) == {LIMIT: 1}


def test_the_mpi_jobs_of_both_operators_are_admitted() -> None:
    assert KINDS["MPIJob"].versions == ("v1", "v2beta1")
