"""JobSets with the real JobSet controller and its webhooks: the stored set, its Jobs and their pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.admission import mutate
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.failing_sets import restarts_alone
from tests.cluster.job_set_controller import LAST
from tests.cluster.manifests import exits, job_set, replicated_job
from tests.cluster.namespace import SERVER_SIDE
from tests.cluster.objects import condition, disruptions, noted, phase, required, restarts
from tests.cluster.test_webhook_jobs import OFF_SPOT, ON_SPOT
from tests.merge_cases import bug
from tests.objects import DISRUPTION
from webhook.kube import names
from webhook.rules.facts import Facts
from webhook.systems.job_set import spec as job_sets

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

pytestmark = with_operators

RESTART = {**DISRUPTION, "action": "FailJob"}
ON_DISRUPTION = {
    "name": "retryPolicyDisruption",
    "action": "RestartJobSetAndIgnoreMaxRestarts",
    "onJobFailureReasons": ["PodFailurePolicy"],
    "onJobFailureMessagePatterns": ["has condition DisruptionTarget matching FailJob"],
}
ON_BUG = {"name": "retryPolicyBug", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
UNLIMITED = 2147483647


def rules_of(found: Object) -> Any:
    return found["spec"]["failurePolicy"]["rules"]


def jobs_of(found: Object) -> list[Object]:
    """Return the JobSpecs of a JobSet."""
    return [one["template"]["spec"] for one in found["spec"]["replicatedJobs"]]


def runs_and_is_not(other: Object, pod: Object) -> bool:
    """Return True if a pod runs and is another one than `other`."""
    return phase(pod) == "Running" and pod["metadata"]["uid"] != other["metadata"]["uid"]


def denial(team: Namespace, manifest: Object) -> str:
    """Return the error for a manifest, which must be refused."""
    error = team.refusal(manifest)
    assert error
    return error


def test_a_job_set_its_jobs_and_their_pods_get_the_rules_the_profile_label_and_the_placement(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "fail-job")
    author = {"name": "tooLong", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}
    parts = replicated_job("driver", backoffLimit=0), replicated_job("workers", parallelism=2, completions=2)
    stored = team.create(job_set("train", *parts, failurePolicy={"maxRestarts": 3, "rules": [author]}))
    assert rules_of(stored) == [ON_DISRUPTION, author, ON_BUG]
    assert [spec["podFailurePolicy"]["rules"] for spec in jobs_of(stored)] == [[RESTART, bug()]] * 2
    assert [spec["backoffLimit"] for spec in jobs_of(stored)] == [0, 3]
    assert stored["metadata"]["labels"][names.PROFILE] == "fail-job"

    pods = team.wait_for_all("pods", lambda pods: len(pods) == 3)
    assert {(noted(pod)["placement"], noted(pod)["attempt"]) for pod in pods} == {("Spot", "0")}
    jobs = team.get("jobs")["items"]
    assert [one["spec"]["podFailurePolicy"]["rules"] for one in jobs] == [[RESTART, bug()]] * 2
    assert {one["metadata"]["labels"][names.PROFILE] for one in jobs} == {"fail-job"}


def test_a_bug_fails_the_whole_job_set_at_once(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "fail-job")
    parts = replicated_job("driver"), replicated_job("workers", exits(1), backoffLimit=3)
    team.create(job_set("train", *parts, failurePolicy={"maxRestarts": 3}))
    failed = team.wait_for("jobsets", "train", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "FailJobSetFailurePolicyAction"
    assert restarts(failed) == (0, 0)


def test_a_job_set_without_failure_policy_restarts_after_a_disruption_and_fails_at_once_on_a_bug(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    assert rules_of(team.create(job_set("train", replicated_job("workers")))) == [ON_DISRUPTION, ON_BUG]
    (first,) = team.pods_of_set("train", 0)
    team.evict(first["metadata"]["name"])
    (second,) = team.pods_of_set("train", 1)
    team.ends(second, 1)
    failed = team.wait_for("jobsets", "train", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "FailJobSetFailurePolicyAction"
    assert restarts(failed) == (1, 0)


def test_an_eviction_restarts_the_job_set_at_no_cost(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    parts = replicated_job("driver"), replicated_job("workers", parallelism=2, completions=2)
    team.create(job_set("train", *parts, failurePolicy={"maxRestarts": 1}))
    before = team.pods_of_set("train", 0)
    team.evict(before[0]["metadata"]["name"])
    found = team.wait_for("jobsets", "train", lambda found: restarts(found)[0])
    assert restarts(found) == (1, 0)
    after = team.pods_of_set("train", 1)
    # The only allowed restart is not spent: otherwise this would be the last attempt, which runs on-demand.
    assert {noted(pod)["placement"] for pod in after} == {"Spot"}
    assert {disruptions(pod) for pod in after} == {"1"}


def test_with_restart_pod_the_job_replaces_the_evicted_pod_and_the_job_set_does_not_restart(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "restart-pod")
    stored = team.create(job_set("train", replicated_job("workers", backoffLimit=0), failurePolicy={"maxRestarts": 1}))
    assert rules_of(stored) == [ON_BUG]
    assert [spec["podFailurePolicy"]["rules"] for spec in jobs_of(stored)] == [[DISRUPTION, bug()]]
    (first,) = team.pods_of_set("train", 0)
    (job,) = team.get("jobs")["items"]
    team.evict(first["metadata"]["name"])
    team.pods_of(job["metadata"]["name"], lambda pods: any(runs_and_is_not(first, pod) for pod in pods))
    assert team.get("jobs")["items"][0]["metadata"]["uid"] == job["metadata"]["uid"]
    assert restarts(team.get("jobset", "train")) == (0, 0)


def test_the_attempt_of_a_pod_is_the_restart_of_its_job_set_and_the_last_one_runs_on_demand(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "require")
    team.create(job_set("train", replicated_job("workers", backoffLimit=0), failurePolicy={"maxRestarts": 2}))
    for attempt in range(3):
        (pod,) = team.pods_of_set("train", attempt)
        last, annotations = attempt == 2, noted(pod)
        assert (annotations["attempt"], annotations["placement"]) == (str(attempt), "OnDemand" if last else "Spot")
        if attempt:  # the first pods are at the first attempt of their Job too
            assert (annotations["attempt-source"], annotations["max-retries"]) == ("JobSet", "2")
        assert required(pod) == [{"matchExpressions": [OFF_SPOT if last else ON_SPOT]}]
        assert pod["spec"]["nodeName"].startswith("on-demand" if last else "spot")
        team.ends(pod, 143)  # no rule matches it: the set restarts and counts the restart
    failed = team.wait_for("jobsets", "train", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "ReachedMaxRestarts"
    assert restarts(failed) == (2, 2)


def test_an_invalid_template_is_denied_with_its_own_path(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    good = replicated_job("driver")
    path = "spec.replicatedJobs[1].template.spec"
    too_many = denial(team, job_set("train", good, replicated_job("workers", backoffLimit=11)))
    assert f"{path}.backoffLimit: 11 retries exceed the limit of 10" in too_many
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}
    invalid = denial(team, job_set("train", good, replicated_job("workers", podFailurePolicy={"rules": [rule]})))
    assert f"{path}.podFailurePolicy.rules[0].onExitCodes.values[0]" in invalid
    assert "replicatedJobs[0]" not in too_many + invalid


def test_11_restarts_are_denied(namespace: NewNamespace) -> None:
    manifest = job_set("train", replicated_job("workers"), failurePolicy={"maxRestarts": 11})
    assert "spec.failurePolicy.maxRestarts: 11 retries exceed the limit of 10" in denial(opted_in(namespace), manifest)


ORDERS = pytest.mark.parametrize("labels", [{}, {LAST: ""}], ids=["after JobSet's webhook", "before JobSet's webhook"])
RESTART_POLICY = "template.spec.template.spec.restartPolicy"


def without_restart_policy(name: str, **spec: Any) -> Object:
    part = replicated_job(name, **spec)
    del part["template"]["spec"]["template"]["spec"]["restartPolicy"]
    return part


@ORDERS
@pytest.mark.parametrize("flags", [("create",), SERVER_SIDE], ids=["created", "server-side"])
def test_a_missing_restart_policy_becomes_never_with_one_warning_for_the_user(
    namespace: NewNamespace, flags: tuple[str, ...], labels: dict[str, str]
) -> None:
    team = namespace({names.PROFILE: "fail-job", **labels})
    in_place = replicated_job("driver")
    in_place["template"]["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    parts = in_place, without_restart_policy("workers"), without_restart_policy("loaders")
    verb = flags if flags == ("create",) else ("apply", *flags)
    created = team.run(*verb, "--filename=-", stdin=job_set("train", *parts))
    warnings = [line for line in created.stderr.splitlines() if "restartPolicy" in line]
    prefix = f"Warning: JobSet {team.name}/train:"
    assert [line.partition(";")[0] for line in warnings] == [
        f"{prefix} spec.replicatedJobs[0].{RESTART_POLICY}: OnFailure allows no failure policy",
        f"{prefix} spec.replicatedJobs[1].{RESTART_POLICY}: left out, becomes Never, in 2 of the set's Jobs",
    ]
    driver, *others = jobs_of(team.get("jobset", "train"))
    assert driver["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert "podFailurePolicy" not in driver
    for spec in others:
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
        assert spec["podFailurePolicy"]["rules"] == [RESTART, bug()]
    assert {spec["completionMode"] for spec in (driver, *others)} == {"Indexed"}


@ORDERS
def test_a_job_set_without_restart_policy_can_be_applied_again(namespace: NewNamespace, labels: dict[str, str]) -> None:
    team = namespace({names.PROFILE: "default", **labels})
    manifest = job_set("train", without_restart_policy("workers"))
    stored = team.apply(manifest, *SERVER_SIDE)
    again = team.apply(manifest, *SERVER_SIDE)
    assert again["spec"] == stored["spec"]
    assert jobs_of(again)[0]["template"]["spec"]["restartPolicy"] == "Never"


def test_with_an_authors_rule_restart_job_an_eviction_restarts_that_job_alone_at_no_cost(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    rules = [
        {"name": "leader", "action": "RestartJobSet", "targetReplicatedJobs": ["leader"]},
        {"name": "worker", "action": "RestartJob", "targetReplicatedJobs": ["worker"]},
    ]
    parts = replicated_job("leader", backoffLimit=0), replicated_job("worker", backoffLimit=0)
    team.create(job_set("train", *parts, failurePolicy={"maxRestarts": 1, "rules": rules}))
    leader, worker = sorted(team.pods_of_set("train", 0, 2), key=lambda pod: str(pod["metadata"]["name"]))
    team.evict(worker["metadata"]["name"])
    found = team.wait_for("jobsets", "train", restarts_alone)
    assert restarts_alone(found) == {"worker-0": 1}
    assert restarts(found) == (0, 0)
    (second,) = team.pods_of("train-worker-0", lambda pods: any(runs_and_is_not(worker, pod) for pod in pods))
    assert (noted(second)["placement"], disruptions(second)) == ("Spot", "1")
    team.ends(second, 1)  # by the author's rule the Job restarts; this costs the only allowed restart
    found = team.wait_for("jobsets", "train", lambda found: restarts_alone(found) == {"worker-0": 2})
    (third,) = team.pods_of("train-worker-0", lambda pods: any(runs_and_is_not(second, pod) for pod in pods))
    assert noted(third)["placement"] == "OnDemand"
    assert [pod["metadata"]["uid"] for pod in team.running("train-leader-0", 1)] == [leader["metadata"]["uid"]]
    team.ends(third, 1)
    failed = team.wait_for("jobsets", "train", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "ReachedMaxRestarts"


def test_with_on_disruption_restart_job_an_eviction_restarts_that_job_alone(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "restart-job")
    team.create(job_set("train", replicated_job("leader"), replicated_job("worker")))
    pod = team.pods_of_set("train", 0, 2)[0]
    team.evict(pod["metadata"]["name"])
    job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"].removeprefix("train-")
    found = team.wait_for("jobsets", "train", restarts_alone)
    assert (restarts_alone(found), restarts(found)) == ({job: 1}, (0, 0))


@ORDERS
@pytest.mark.parametrize("flags", [(), SERVER_SIDE], ids=["client-side", "server-side"])
def test_an_unchanged_job_set_can_be_applied_again(
    namespace: NewNamespace, flags: tuple[str, ...], labels: dict[str, str]
) -> None:
    team = namespace({names.PROFILE: "default", **labels})
    policy = {"maxRestarts": 3, "rules": [{"name": "own", "action": "FailJobSet", "targetReplicatedJobs": ["driver"]}]}
    parts = [replicated_job(name, completionMode="Indexed") for name in ("driver", "workers")]
    manifest = job_set("train", *parts, failurePolicy=policy)
    stored = team.apply(manifest, *flags)
    again = team.apply(manifest, *flags)
    assert rules_of(again) == rules_of(stored)
    for before, after in zip(jobs_of(stored), jobs_of(again), strict=True):
        assert after["podFailurePolicy"] == before["podFailurePolicy"]
        assert after["backoffLimit"] == before["backoffLimit"] == 3
    for key in ("annotations", "labels"):
        assert again["metadata"][key] == stored["metadata"][key]


def test_a_manifest_that_the_jobset_webhook_refuses_to_apply_again_is_refused_without_ours_too(
    namespace: NewNamespace,
) -> None:
    team = namespace()
    manifest = job_set("train", replicated_job("workers"))
    team.apply(manifest)
    again = team.run("apply", "--filename=-", stdin=manifest)
    assert "spec.replicatedJobs" in again.stderr
    assert "field is immutable" in again.stderr


def test_a_job_set_that_restarts_in_place_keeps_the_unlimited_backoff_limit_that_it_needs(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    spec = {"completions": 2, "parallelism": 2, "backoffLimit": UNLIMITED, "podReplacementPolicy": "Failed"}
    policy = {"maxRestarts": 3, "restartStrategy": "InPlaceRestart"}
    manifest = job_set("train", replicated_job("workers", **spec), failurePolicy=policy)
    stored = team.create(manifest)
    assert [one["backoffLimit"] for one in jobs_of(stored)] == [UNLIMITED]
    jobs = team.wait_for_all("jobs", len)
    assert [one["spec"]["backoffLimit"] for one in jobs] == [UNLIMITED]


def test_if_the_crd_has_no_message_patterns_disruptions_do_not_restart_the_job_set(kubectl: Kubectl) -> None:
    crd = json.loads(kubectl.run("get", "crd", "jobsets.jobset.x-k8s.io", "--output=json").stdout)
    assert job_sets.features_of(crd) == (True, True)
    without = json.loads(json.dumps(crd).replace('"onJobFailureMessagePatterns"', '"unknown"'))
    assert not job_sets.features_of(without).message_patterns
    manifest = job_set("train", replicated_job("workers"), failurePolicy={"maxRestarts": 3})
    made = mutate(manifest, Facts(profile_name="default", message_patterns=False)).object
    assert rules_of(made) == [ON_BUG]
    assert [spec["podFailurePolicy"]["rules"] for spec in jobs_of(made)] == [[DISRUPTION, bug()]]
