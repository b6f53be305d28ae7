"""restartPolicy ExitCode in jobs of Kubeflow's training operator: merged with the author's, and undone."""

from copy import deepcopy
from typing import Any, Literal

import pytest

from tests.admission import OPTED_IN, mutate, policy, validate
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.model import FailurePolicy, Profile
from webhook.rules.facts import Facts
from webhook.systems.kubeflow import rules as kubeflow
from webhook.systems.kubeflow.spec import MPI_JOB, REPLICA_SPECS, TRAINING

WITHOUT_LEADER = Facts(profile_name="default", ledger=False)
Inject = Literal["Merge", "IfAbsent", "Never"]
Choice = Literal["Keep", "Never"]


def replica(restart_policy: str | None = None, replicas: int | None = None) -> Json:
    said = {"restartPolicy": restart_policy, "replicas": replicas}
    template = {"spec": {"containers": [{"name": "pytorch", "image": "example.test/train"}]}}
    return {**{key: value for key, value in said.items() if value is not None}, "template": template}


def job(*replicas: Json, kind: str = "PyTorchJob", **run_policy: Any) -> Json:
    """Return a job; its first replica type is Master, the second one Worker."""
    specs = dict(zip(("Master", "Worker"), replicas, strict=False))
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {"runPolicy": {"backoffLimit": 2, **run_policy}, REPLICA_SPECS.get(kind, "mpiReplicaSpecs"): specs},
    }


def profile(**failure_policy: Any) -> Any:
    return policy(default=Profile(failure_policy=FailurePolicy(**failure_policy)))


def restart_policies(root: Json) -> list[str | None]:
    specs = at(root, ("spec", REPLICA_SPECS.get(root["kind"], "mpiReplicaSpecs")))
    return [one.get("restartPolicy") for one in specs.values()]


@pytest.mark.parametrize(
    ("said", "on_failure", "absent", "inject", "stored"),
    [
        (None, "Keep", "Never", "Merge", "ExitCode"),
        (None, "Keep", "Never", "IfAbsent", "ExitCode"),
        (None, "Keep", "Keep", "Merge", None),
        (None, "Never", "Never", "Never", None),
        ("OnFailure", "Keep", "Never", "Merge", "OnFailure"),
        ("OnFailure", "Never", "Never", "Merge", "ExitCode"),
        ("OnFailure", "Never", "Never", "IfAbsent", "OnFailure"),
        ("OnFailure", "Never", "Never", "Never", "OnFailure"),
        ("ExitCode", "Never", "Never", "Merge", "ExitCode"),
        ("Never", "Never", "Never", "Merge", "Never"),
        ("Always", "Never", "Never", "Merge", "Always"),
    ],
)
def test_the_restart_policy_is_merged_with_the_authors(
    said: str | None, on_failure: Choice, absent: Choice, inject: Inject, stored: str | None
) -> None:
    under = profile(on_failure_restart_policy=on_failure, absent_restart_policy=absent, inject=inject)
    made = mutate(job(replica(said)), OPTED_IN, under).object
    assert restart_policies(made) == [stored]
    again = mutate(deepcopy(made), OPTED_IN, under, old=made)
    assert again.patch == []


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("PyTorchJob", "ExitCode"),
        ("PaddleJob", "ExitCode"),
        ("TFJob", None),
        ("XGBoostJob", None),
        ("JAXJob", None),
        ("MPIJob", None),
    ],
)
def test_a_job_whose_operator_would_not_restart_it_stays_as_it_is(kind: str, stored: str | None) -> None:
    assert restart_policies(mutate(job(replica(), kind=kind)).object) == [stored]


def test_without_a_leader_that_bounds_the_retries_nothing_is_set_and_an_authors_exit_code_brings_a_warning() -> None:
    made = mutate(job(replica()), WITHOUT_LEADER)
    assert restart_policies(made.object) == [None]
    own = mutate(job(replica("ExitCode")), WITHOUT_LEADER).object
    assert at(own, ("spec", "runPolicy", "cleanPodPolicy")) is None
    (warning,) = validate(own, WITHOUT_LEADER).warnings
    assert "ExitCode restarts pods without limit" in warning
    assert validate(own, OPTED_IN).warnings == []


@pytest.mark.parametrize("under", [policy(default=Profile(actions="Report")), profile(inject="Never")])
def test_a_leader_that_may_not_end_the_job_bounds_nothing(under: Any) -> None:
    assert restart_policies(mutate(job(replica()), OPTED_IN, under).object) == [None]
    (warning,) = validate(job(replica("ExitCode")), OPTED_IN, under).warnings
    assert "ExitCode restarts pods without limit" in warning


def test_a_skipped_job_stays_as_it_is() -> None:
    skipped = job(replica())
    skipped["metadata"]["annotations"] = {names.SKIP: "true"}
    assert restart_policies(mutate(skipped).object) == [None]


@pytest.mark.parametrize(("codes", "stored"), [((143,), "ExitCode"), ((), "ExitCode"), ((42, 143), None)])
def test_codes_below_128_that_the_policy_retries_rule_it_out(codes: tuple[int, ...], stored: str | None) -> None:
    made = mutate(job(replica()), OPTED_IN, profile(retriable_exit_codes=codes)).object
    assert restart_policies(made) == [stored]


@pytest.mark.parametrize(
    ("coupled", "stored"), [("Settle", [None, None]), ("Retry", [None, None]), ("FailJob", ["ExitCode", "ExitCode"])]
)
def test_where_a_crash_may_follow_from_a_disruption_the_operator_may_not_judge_it(
    coupled: Literal["FailJob", "Retry", "Settle"], stored: list[str | None]
) -> None:
    made = mutate(job(replica(), replica(replicas=3)), OPTED_IN, profile(coupled=coupled)).object
    assert restart_policies(made) == stored


def test_a_job_that_is_deleted_after_its_end_stays_as_it_is_because_the_operator_could_not_delete_it_then() -> None:
    assert restart_policies(mutate(job(replica(), ttlSecondsAfterFinished=60)).object) == [None]


@pytest.mark.parametrize(("said", "stored"), [(None, "Running"), ("None", "None"), ("All", "All")])
@pytest.mark.parametrize("restart_policy", [None, "ExitCode"])
def test_pods_that_still_run_are_cleaned_up_unless_the_author_says_otherwise(
    restart_policy: str | None, said: str | None, stored: str
) -> None:
    made = mutate(job(replica(restart_policy), **({"cleanPodPolicy": said} if said else {}))).object
    assert at(made, ("spec", "runPolicy", "cleanPodPolicy")) == stored


def test_a_job_that_runs_already_is_not_changed() -> None:
    stored = job(replica())
    made = mutate(deepcopy(stored), old=stored)
    assert (restart_policies(made.object), made.object["spec"]["runPolicy"]) == ([None], {"backoffLimit": 2})


def test_it_is_undone_when_the_author_writes_a_restart_policy() -> None:
    stored = mutate(job(replica())).object
    changed = deepcopy(stored)
    changed["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = "Never"
    made = mutate(changed, old=stored).object
    assert restart_policies(made) == ["Never"]
    assert at(made, ("spec", "runPolicy", "cleanPodPolicy")) is None


def test_the_rule_writes_in_the_kinds_of_the_training_operator_alone() -> None:
    assert all(kubeflow.writes(kind) for kind in TRAINING.values())
    assert kubeflow.writes(MPI_JOB) == ()
