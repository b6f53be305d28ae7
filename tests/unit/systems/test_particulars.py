"""Behaviour that only some kinds have."""

from typing import Any

import pytest

from tests.admission import mutate, policy, validate
from tests.objects import job, job_spec
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import FailurePolicy, Profile, Retries
from webhook.rules.facts import Facts

CLAMPING = policy(default=Profile(retries=Retries(on_exceed="Clamp")))
LIMITS_ALONE = policy(default=Profile(failure_policy=FailurePolicy(inject="Never")))


def root_of(api_version: str, kind: str, spec: Json, **annotations: str) -> Json:
    said = {"annotations": {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one", **said}, "spec": spec}


def spark(restart_policy: Json, **annotations: str) -> Json:
    return root_of("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"restartPolicy": restart_policy}, **annotations)


def apache_spark(restart_config: Json, **annotations: str) -> Json:
    spec = {"applicationTolerations": {"restartConfig": restart_config}}
    return root_of("spark.apache.org/v1", "SparkApplication", spec, **annotations)


def restart_config_of(root: Json) -> Any:
    return root["spec"]["applicationTolerations"]["restartConfig"]


def ray(spec: Json, **annotations: str) -> Json:
    return root_of("ray.io/v1", "RayJob", spec, **annotations)


def workflow(spec: Json, **annotations: str) -> Json:
    return root_of("argoproj.io/v1alpha1", "Workflow", spec, **annotations)


def test_a_spark_application_with_always_has_unlimited_retries_whatever_its_number() -> None:
    root = spark({"type": "Always", "onFailureRetries": 2})
    assert validate(root).message == (
        "spec.restartPolicy.type: allows unlimited retries; set OnFailure, and onFailureRetries 10 or less"
    )
    clamped = mutate(root, under=CLAMPING)
    assert clamped.object["spec"]["restartPolicy"] == {"type": "OnFailure", "onFailureRetries": 10}
    assert len(clamped.warnings) == 1


def test_max_retries_sets_on_failure_of_a_spark_application_too() -> None:
    root = spark({"type": "Never"}, max_retries="2")
    assert mutate(root).object["spec"]["restartPolicy"] == {"type": "OnFailure", "onFailureRetries": 2}


@pytest.mark.parametrize("restart_policy", [{"type": "Never"}, {"type": "OnFailure"}, {}])
def test_a_spark_application_without_a_number_has_no_retries_and_is_not_edited(restart_policy: Json) -> None:
    root = spark(restart_policy)
    assert mutate(root).patch == []
    assert validate(root).allowed


@pytest.mark.parametrize("kind", ["Always", "OnFailure", "OnInfrastructureFailure"])
def test_restarts_are_unlimited_if_their_counter_is_reset(kind: str) -> None:
    root = apache_spark({"restartPolicy": kind, "maxRestartAttempts": 2, "restartCounterResetMillis": 60000})
    path = "spec.applicationTolerations.restartConfig.restartCounterResetMillis"
    assert validate(root).message == (f"{path}: allows unlimited retries; set -1, and maxRestartAttempts 10 or less")
    clamped = mutate(root, under=CLAMPING).object
    assert restart_config_of(clamped) == {
        "restartPolicy": kind,
        "maxRestartAttempts": 10,
        "restartCounterResetMillis": -1,
    }
    assert validate(clamped).allowed


@pytest.mark.parametrize("policy", [{}, {"restartPolicy": "Never"}])
@pytest.mark.parametrize("rest", [{}, {"maxRestartAttempts": 99}, {"restartCounterResetMillis": 0}])
def test_an_application_that_never_restarts_is_not_edited(policy: Json, rest: Json) -> None:
    root = apache_spark({**policy, **rest})
    assert mutate(root, under=CLAMPING).patch == []
    assert validate(root).allowed


def test_the_operators_default_of_three_restarts_is_lowered_to_the_limit() -> None:
    two = policy(default=Profile(retries=Retries(limit=2, default=2)))
    assert not validate(apache_spark({"restartPolicy": "Always"}), under=two).allowed
    assert validate(apache_spark({}), under=two).allowed


def test_max_retries_makes_a_spark_application_restart_after_failures_and_keeps_another_policy() -> None:
    made = mutate(root_of("spark.apache.org/v1", "SparkApplication", {}, max_retries="2")).object
    assert restart_config_of(made) == {"restartPolicy": "OnFailure", "maxRestartAttempts": 2}
    made = mutate(apache_spark({"restartPolicy": "OnInfrastructureFailure"}, max_retries="2")).object
    assert restart_config_of(made) == {"restartPolicy": "OnInfrastructureFailure", "maxRestartAttempts": 2}


@pytest.mark.parametrize(
    ("spec", "may_raise"),
    [
        ({"clusterSelector": {"a": "b"}}, False),
        ({"submissionMode": "InteractiveMode"}, False),
        ({"clusterSelector": {}}, True),
        ({"submissionMode": "HTTPMode"}, True),
    ],
)
def test_a_ray_job_in_a_shared_cluster_gets_no_retries_with_a_warning(spec: Json, *, may_raise: bool) -> None:
    answer = mutate(ray({**spec, "backoffLimit": 0}, max_retries="2"))
    assert answer.object["spec"]["backoffLimit"] == (2 if may_raise else 0)
    assert [warning.partition(":")[0] for warning in answer.warnings] == ([] if may_raise else ["spec.backoffLimit"])


def test_the_retries_of_a_ray_job_in_a_shared_cluster_may_be_lowered() -> None:
    root = ray({"clusterSelector": {"a": "b"}, "backoffLimit": 5}, max_retries="2")
    assert mutate(root).object["spec"]["backoffLimit"] == 2


def controlled_by(api_version: str, kind: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": "one", "uid": "u", "controller": True}


def actions_of(controller: Json, **failure_policy: Any) -> list[str]:
    under = policy(default=Profile(failure_policy=FailurePolicy(**failure_policy)))
    answer = mutate(job(job_spec(backoffLimit=2), ownerReferences=[controller]), under=under)
    assert answer.object["spec"]["backoffLimit"] == 2
    return [rule["action"] for rule in answer.object["spec"]["podFailurePolicy"]["rules"]]


@pytest.mark.parametrize("coupled", ["FailJob", "Settle"])
@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("kubeflow.org/v2beta1", "MPIJob"),
        ("ray.io/v1", "RayJob"),
        ("ray.io/v1", "RayCluster"),
        ("flinkoperator.k8s.io/v1beta1", "FlinkCluster"),
        ("spark.stackable.tech/v1alpha1", "SparkApplication"),
        ("x.test/v1", "Wonder"),
    ],
)
def test_a_job_of_an_operator_with_other_pods_gets_no_exit_code_rule(api_version: str, kind: str, coupled: str) -> None:
    assert actions_of(controlled_by(api_version, kind), coupled=coupled) == ["Ignore"]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("batch/v1", "CronJob"),
        ("keda.sh/v1alpha1", "ScaledJob"),
        ("kubeflow.org/v1beta1", "Trial"),
        ("argoproj.io/v1alpha1", "AnalysisRun"),
    ],
)
def test_a_job_that_is_its_controllers_only_object_fails_at_once_on_a_bug(api_version: str, kind: str) -> None:
    assert actions_of(controlled_by(api_version, kind)) == ["Ignore", "FailJob"]


def mpi_job(version: str, run_policy: Json | None = None) -> Json:
    replicas = {"Launcher": {"template": {"spec": {"containers": [{"name": "mpi"}]}}}}
    run = {} if run_policy is None else {"runPolicy": run_policy}
    return root_of(f"kubeflow.org/{version}", "MPIJob", {**run, "mpiReplicaSpecs": replicas})


@pytest.mark.parametrize("run_policy", [None, {}, {"cleanPodPolicy": "Running"}, {"backoffLimit": 6}])
def test_an_mpi_job_of_the_mpi_operator_keeps_the_default_of_six_retries(run_policy: Json | None) -> None:
    root = mpi_job("v2beta1", run_policy)
    assert mutate(root).patch == []
    assert validate(root).allowed


def test_the_six_retries_of_a_launcher_are_denied_if_the_limit_is_five() -> None:
    under = policy(default=Profile(retries=Retries(limit=5)))
    assert validate(mpi_job("v2beta1"), under=under).message == (
        "spec.runPolicy.backoffLimit: 6 retries exceed the limit of 5 in profile 'default'; set 5 or less"
    )


def test_an_mpi_job_of_the_training_operator_has_unlimited_retries_and_gets_the_default() -> None:
    assert mutate(mpi_job("v1")).object["spec"]["runPolicy"] == {"backoffLimit": 3}


def test_a_launcher_keeps_the_six_retries_that_the_api_sets_by_default() -> None:
    launcher = job(job_spec(backoffLimit=6), ownerReferences=[controlled_by("kubeflow.org/v2beta1", "MPIJob")])
    assert mutate(launcher).object["spec"]["backoffLimit"] == 6


def test_a_tekton_task_with_on_error_continue_gets_no_retries() -> None:
    tasks = [{"name": "a", "onError": "continue"}, {"name": "b", "onError": "stopAndFail"}, {"name": "c"}]
    answer = mutate(root_of("tekton.dev/v1", "Pipeline", {"tasks": tasks}, max_retries="2"))
    assert [task.get("retries") for task in answer.object["spec"]["tasks"]] == [None, 2, 2]


@pytest.mark.parametrize("limit", ["{{workflow.parameters.tries}}", "{{=1+1}}", ""])
def test_a_limit_that_is_an_expression_is_admitted_with_a_warning(limit: str) -> None:
    answer = mutate(workflow({"templates": [{"retryStrategy": {"limit": limit}}]}))
    assert answer.object["spec"]["templates"][0]["retryStrategy"]["limit"] == limit
    assert [warning.partition(":")[0] for warning in answer.warnings] == ["spec.templates[0].retryStrategy.limit"]
    assert validate(answer.object).allowed


@pytest.mark.parametrize("limit", ["11", "+11", "011", 11, "99999999999999999999"])
def test_a_limit_above_ten_is_denied_in_every_form_that_argo_accepts(limit: Any) -> None:
    assert not validate(workflow({"templates": [{"retryStrategy": {"limit": limit}}]})).allowed


def test_max_retries_gives_a_workflow_without_retries_a_strategy_for_all_templates() -> None:
    answer = mutate(workflow({"templates": [{"name": "a"}]}, max_retries="2"), under=LIMITS_ALONE)
    assert answer.object["spec"]["retryStrategy"] == {"limit": 2}
    assert answer.object["spec"]["templates"] == [{"name": "a"}]


def test_the_runs_of_a_container_set_are_never_zero() -> None:
    spec = {"templates": [{"containerSet": {"retryStrategy": {"retries": 4}}}]}
    answer = mutate(workflow(spec, max_retries="0"))
    assert answer.object["spec"]["templates"][0]["containerSet"]["retryStrategy"]["retries"] == 1


def test_the_denial_of_a_flyte_node_says_that_its_field_counts_runs() -> None:
    root = root_of("flyte.lyft.com/v1alpha1", "FlyteWorkflow", {"nodes": {"n0": {"retry": {"minAttempts": 12}}}})
    assert validate(root).message == (
        "spec.nodes.n0.retry.minAttempts: 11 retries exceed the limit of 10 in profile 'default' "
        "(the field counts runs: 1 means no retry); set 11 or less"
    )


WITHOUT_LEDGER = Facts(profile_name="default", ledger=False)
KUBEFLOW = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}


@pytest.mark.parametrize("kind", KUBEFLOW)
def test_retries_that_neither_a_field_of_kubeflow_nor_a_ledger_limits_cause_one_warning(kind: str) -> None:
    limited = {"Master": {"restartPolicy": "OnFailure"}, "PS": {"restartPolicy": "Never"}, "Chief": {}}
    replicas = {**limited, "Launcher": {"restartPolicy": "Always"}, "Worker": {"restartPolicy": "ExitCode"}}
    spec = {"runPolicy": {"backoffLimit": 3}, KUBEFLOW[kind]: {**replicas, "Evaluator": {"restartPolicy": "ExitCode"}}}
    root = root_of("kubeflow.org/v1", kind, spec)
    answer = validate(root, WITHOUT_LEDGER)
    assert (answer.allowed, answer.warnings) == (
        True,
        [(f"spec.{KUBEFLOW[kind]}.Worker.restartPolicy: ExitCode restarts pods without limit; use OnFailure")],
    )
    assert mutate(root, WITHOUT_LEDGER).warnings == []
    assert validate(root, WITHOUT_LEDGER, old=root).warnings == []
    assert validate(root).warnings == ([] if kind != "MPIJob" else answer.warnings)
