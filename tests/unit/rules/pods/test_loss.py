"""Pods that would lose their work at the first disruption never run on spot nodes."""

from typing import Any, Final

import pytest

from tests.objects import DISRUPTION, exit_codes, job_spec, pod, stored_job
from tests.unit.systems.argo import test_pods as test_argo
from tests.unit.systems.flyte import test_pods as test_flyte
from tests.unit.systems.job_set.test_pods import job_set, pod_at
from tests.unit.systems.pods import NOT_SPOT, evidence, made, off_spot, on_spot, owned, place
from tests.unit.systems.ray import test_pods as test_ray
from tests.unit.systems.spark import test_pods as test_spark
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Placement, Profile
from webhook.policy.settings import Settings
from webhook.rules.pods import loss, placement
from webhook.systems.pod_source import Level

COUNTED: Final[Json] = {**DISRUPTION, "action": "Count"}
FAILS: Final[Json] = {**DISRUPTION, "action": "FailJob"}
FAILS_INDEX: Final[Json] = {**DISRUPTION, "action": "FailIndex"}
PER_INDEX: Final[Json] = {"completions": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
OF_SET: Final = owned("jobset.x-k8s.io/v1alpha2", "JobSet", "train")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (job_spec(backoffLimit=0), off_spot("JobStatus", 0, 0)),
        (job_spec(backoffLimit=0, rules=[COUNTED]), off_spot("JobStatus", 0, 0)),
        (job_spec(backoffLimit=0, rules=[exit_codes("Ignore", "In", 75)]), off_spot("JobStatus", 0, 0)),
        (job_spec(backoffLimit=0, restart_policy="OnFailure"), off_spot("JobStatus", 0, 0)),
        (job_spec(backoffLimit=3, rules=[FAILS]), off_spot("JobStatus", 0, 3)),
        (job_spec(backoffLimit=3, rules=[FAILS, DISRUPTION]), off_spot("JobStatus", 0, 3)),
        (job_spec(backoffLimit=0, rules=[DISRUPTION]), on_spot("JobStatus", 0, 0)),
        (job_spec(backoffLimit=1, rules=[COUNTED]), on_spot("JobStatus", 0, 1)),
        (job_spec(backoffLimit=1), on_spot("JobStatus", 0, 1)),
        (job_spec(), on_spot("JobStatus", 0, 6)),
        (job_spec(**PER_INDEX), off_spot("JobStatus", 0, 0)),
        (job_spec(**PER_INDEX, rules=[DISRUPTION]), on_spot("JobStatus", 0, 0)),
        (job_spec(**{**PER_INDEX, "backoffLimitPerIndex": 2}, rules=[FAILS_INDEX]), off_spot("JobStatus", 0, 2)),
    ],
    ids=[
        "runs once",
        "runs once and counts disruptions",
        "runs once and ignores one exit code",
        "runs once and restarts in place",
        "fails on disruptions",
        "fails on disruptions before it ignores them",
        "runs once but for disruptions",
        "one retry and counts disruptions",
        "one retry",
        "says nothing",
        "each index runs once",
        "each index runs once but for disruptions",
        "an index fails on disruptions",
    ],
)
def test_a_job_that_a_disruption_ends_never_runs_on_spot(spec: Json, expected: object) -> None:
    assert place(pod(), stored_job(spec)) == expected


def rule(action: str, **more: Any) -> Json:
    return {"action": action, **more}


FREE: Final = rule("RestartJobSetAndIgnoreMaxRestarts", onJobFailureReasons=["PodFailurePolicy"])


@pytest.mark.parametrize(
    ("spec", "max_restarts", "rules", "lost"),
    [
        (job_spec(backoffLimit=0), None, [], True),
        (job_spec(backoffLimit=0), 0, [], True),
        (job_spec(backoffLimit=0), 2, [], False),
        (job_spec(backoffLimit=0), 2, [rule("FailJobSet")], True),
        (job_spec(backoffLimit=0), 2, [rule("FailJobSet", targetReplicatedJobs=["driver"])], False),
        (job_spec(backoffLimit=0), 0, [rule("RestartJobSet")], True),
        (job_spec(backoffLimit=0), 0, [rule("RestartJobSetAndIgnoreMaxRestarts")], False),
        (job_spec(backoffLimit=0), 0, [FREE], True),
        (job_spec(backoffLimit=6, rules=[FAILS]), 0, [FREE], False),
        (
            job_spec(backoffLimit=6, rules=[FAILS]),
            0,
            [{**FREE, "action": "FailJobSet"}],
            True,
        ),
        (job_spec(backoffLimit=6), None, [], False),
        (job_spec(backoffLimit=0, rules=[DISRUPTION]), None, [], False),
        (
            job_spec(**PER_INDEX),
            0,
            [{**FREE, "onJobFailureReasons": ["FailedIndexes"]}],
            False,
        ),
    ],
)
def test_a_job_of_a_job_set_never_runs_on_spot_if_a_disruption_ends_the_job_set(
    spec: Json,
    max_restarts: int | None,
    rules: list[Json],
    lost: bool,  # noqa: FBT001
) -> None:
    above = job_set(max_restarts=max_restarts)
    if rules:
        above["spec"].setdefault("failurePolicy", {})["rules"] = rules
    found = place(pod_at("0"), stored_job(spec, ownerReferences=[OF_SET]), above)
    assert found.placement == ("OnDemand" if lost else "Spot")


def test_a_job_of_an_unknown_job_set_counts_as_restarted() -> None:
    assert place(pod_at("0"), stored_job(job_spec(backoffLimit=0), ownerReferences=[OF_SET])).placement == "Spot"


def test_without_retries_the_head_of_a_ray_job_is_lost_and_a_worker_is_replaced() -> None:
    above = test_ray.ray_job(backoff_limit=0)
    owner = test_ray.cluster(test_ray.OF_RAY_JOB)
    assert place(test_ray.head(), owner, above) == off_spot("RayJob", 0, 0)
    assert place(test_ray.worker(), owner, above) == on_spot("RayJob", 0, 0)


@pytest.mark.parametrize(("failed_retries", "placement"), [(0, "OnDemand"), (2, "Spot")])
def test_a_submitter_that_runs_once_is_lost_unless_its_ray_job_is_retried(failed_retries: int, placement: str) -> None:
    job = stored_job(job_spec(backoffLimit=0), ownerReferences=[test_ray.OF_RAY_JOB])
    assert place(test_ray.submitter(), job, test_ray.ray_job(0, failed_retries)).placement == placement


def test_without_retries_the_driver_of_a_spark_application_is_lost_and_an_executor_is_replaced() -> None:
    never = test_spark.application(None, "", kind=None)
    assert place(test_spark.driver("run-0"), never) == off_spot("Spark", 0, 0)
    assert place(test_spark.executor("run-0"), never) == on_spot("Spark", 0, 0)


def test_a_spark_application_that_always_restarts_is_not_lost() -> None:
    assert place(test_spark.driver("run-0"), test_spark.application(None, "", kind="Always")).placement == "Spot"


def test_a_flyte_pod_runs_on_spot_even_with_0_retries() -> None:
    for node in (test_flyte.pod_at("0"), test_flyte.pod_of_flyte_2(0)):
        node["metadata"]["annotations"] = {names.MAX_RETRIES: "0"}
        assert place(node).placement == "Spot"


def test_a_pod_whose_retries_are_unknown_counts_as_retried() -> None:
    worker = made(owned("kubeflow.org/v1", "PyTorchJob", "train"), name="train-worker-0")
    assert place(worker) == on_spot("Unknown", 0, 3)


@pytest.mark.parametrize(
    ("annotations", "lost"),
    [
        ({names.INTERRUPTIBLE: "true"}, False),
        ({names.INTERRUPTIBLE: "true", names.ATTEMPT: "0", names.MAX_RETRIES: "0"}, False),
        ({names.ATTEMPT: "0"}, False),
        ({names.ATTEMPT: "0", names.MAX_RETRIES: "0"}, True),
    ],
)
def test_a_bare_pod_is_lost_if_its_annotations_say_that_it_is_not_retried(
    annotations: Json,
    lost: bool,  # noqa: FBT001
) -> None:
    assert place(pod(owner=None, annotations=annotations)).placement == ("OnDemand" if lost else "Spot")


def test_a_job_annotated_as_interruptible_runs_on_spot_even_if_it_runs_once() -> None:
    job = stored_job(job_spec(backoffLimit=0), annotations={names.INTERRUPTIBLE: "true"})
    assert place(pod(), job) == on_spot("JobStatus", 0, 0)


def test_an_annotated_attempt_does_not_hide_the_retries_of_a_job_set() -> None:
    root = pod_at("0")
    root["metadata"]["annotations"][names.ATTEMPT] = "0"
    job = stored_job(job_spec(backoffLimit=0), ownerReferences=[OF_SET])
    assert place(root, job, job_set(max_restarts=2)).placement == "Spot"
    assert place(root, job, job_set(max_restarts=0)).placement == "OnDemand"


def test_an_annotated_attempt_does_not_hide_the_retries_of_a_workflow_template() -> None:
    root = test_argo.pod_at("w(0)[0].s(0)", test_argo.template(3))
    root["metadata"]["annotations"][names.ATTEMPT] = "0"
    assert place(root, test_argo.workflow(0)) == on_spot("Annotation", 0, 0)


def test_a_pod_whose_nodes_kueue_chooses_only_prefers_to_leave_spot() -> None:
    gated = pod({"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]})
    found = place(gated, stored_job(job_spec(backoffLimit=0)))
    assert (found.placement, found.required, found.preferred) == ("OnDemand", (), (NOT_SPOT,))


def test_a_threshold_of_0_keeps_a_pod_on_spot_even_if_a_disruption_would_lose_its_work() -> None:
    for threshold, off in ((0, False), (-1, True), (-3, True), (2, True)):
        profile = Profile(placement=Placement(provider="eks", interruptible_failure_threshold=threshold))
        settings = Settings(profile_name="default", profile=profile)
        assert placement.decide([Level("JobStatus", 0, 0)], settings, lost=True).off_spot is off


def test_disruptions_that_a_pod_may_still_have_are_no_retries() -> None:
    task_run = evidence(made(owned("tekton.dev/v1", "TaskRun", "t")))
    disruptions = Level("Ledger", 0, 20, of_disruptions=True)
    assert loss.is_lost_when_disrupted(task_run, [Level("Tekton", 0, 0), disruptions])
    assert not loss.is_lost_when_disrupted(task_run, [disruptions])
