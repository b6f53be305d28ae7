"""What the ledger has counted for the replicas of the training operator's jobs."""

from functools import partial
from typing import Any

import pytest

from tests.unit.systems.pods import made, owned, place, read
from webhook.objects.problem import Json
from webhook.systems.kubeflow import pods as kubeflow
from webhook.systems.kubeflow.spec import MOST_REPLICA_TYPES, REPLICA_SPECS
from webhook.systems.pod_source import Level

ask = partial(read, of=kubeflow.levels)


def worker(kind: str = "PyTorchJob") -> Json:
    """Return a pod as training-operator 1.9 writes it."""
    labels = {"job-name": "train", "operator-name": "o", "replica-type": "worker", "replica-index": "0"}
    both = {f"training.kubeflow.org/{key}": value for key, value in labels.items()}
    return made(owned("kubeflow.org/v1", kind, "train"), name="train-worker-0", labels=both)


def job(restart_policy: str | None, backoff_limit: int | None = 2, kind: str = "PyTorchJob") -> Json:
    replica = {} if restart_policy is None else {"restartPolicy": restart_policy}
    run_policy = {} if backoff_limit is None else {"backoffLimit": backoff_limit}
    return {
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {
            "runPolicy": run_policy,
            REPLICA_SPECS[kind]: {"Master": {"restartPolicy": "Always"}, "Worker": replica},
        },
    }


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_the_attempt_is_what_the_ledger_has_counted(failures: int) -> None:
    assert ask(worker(), job("ExitCode"), failures=failures) == ([Level("Kubeflow", failures, 2)], [])


def test_without_a_count_it_is_a_first_attempt_and_without_a_limit_it_has_the_default_of_the_profile() -> None:
    assert ask(worker(), job("OnFailure", None)) == ([Level("Kubeflow", 0, 3)], [])
    assert ask(worker(), None) == ([], [])


@pytest.mark.parametrize(
    ("kind", "restart_policy", "budget"),
    [
        ("PyTorchJob", "Never", 0),
        ("PyTorchJob", None, 2),
        ("PaddleJob", None, 2),
        ("TFJob", None, 0),
        ("TFJob", "OnFailure", 2),
        ("XGBoostJob", None, 0),
        ("JAXJob", None, 0),
    ],
)
def test_a_replica_that_the_operator_does_not_replace_has_no_retries(
    kind: str, restart_policy: str | None, budget: int
) -> None:
    assert ask(worker(kind), job(restart_policy, kind=kind)) == ([Level("Kubeflow", 0, budget)], [])


@pytest.mark.parametrize(("restart_policy", "placement"), [("Never", "OnDemand"), ("ExitCode", "Spot")])
def test_a_replica_that_a_preemption_would_end_for_good_starts_on_demand(restart_policy: str, placement: str) -> None:
    assert place(worker(), job(restart_policy)).placement == placement


@pytest.mark.parametrize(
    "damaged", [{}, {"spec": None}, {"spec": {"pytorchReplicaSpecs": []}}, {"spec": {"runPolicy": 1}}]
)
def test_a_job_of_another_form_gives_the_default(damaged: Any) -> None:
    assert ask(worker(), {"kind": "PyTorchJob", "metadata": {}, **damaged}) == ([Level("Kubeflow", 0, 3)], [])


def test_only_a_few_replica_types_are_looked_at() -> None:
    root = job("Never")
    specs = root["spec"]["pytorchReplicaSpecs"]
    others = {f"Other{number}": {"restartPolicy": "OnFailure"} for number in range(MOST_REPLICA_TYPES)}
    assert ask(worker(), root)[0][0].budget == 0
    assert (
        ask(worker(), {**root, "spec": {**root["spec"], "pytorchReplicaSpecs": {**others, **specs}}})[0][0].budget == 2
    )
