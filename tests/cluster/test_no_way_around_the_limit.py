"""Known ways to exceed the limit of ten retries are refused or ended; similar, harmless objects are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.manifests import exits, job, job_set, replicated_job
from tests.cluster.objects import account, condition
from tests.objects import DISRUPTION, exit_codes
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object

UNLIMITED = 2147483647
FREE = "RestartJobSetAndIgnoreMaxRestarts"
INDEXED = {"completionMode": "Indexed", "completions": 100_000, "parallelism": 10, "maxFailedIndexes": 10_000}


def with_rules(*rules: Object, **spec: Any) -> Object:
    return job("train", backoffLimit=3, podFailurePolicy={"rules": list(rules)}, **spec)


def ignoring(kind: str, status: str) -> Object:
    """Return a rule that ignores pods with this condition."""
    return {"action": "Ignore", "onPodConditions": [{"type": kind, "status": status}]}


def restarting(action: str = FREE, **narrowed: Any) -> Object:
    """Return a JobSet whose rule restarts it; `narrowed` are further fields of the rule."""
    rules = [{"name": "again", "action": action, **narrowed}]
    part = replicated_job("main", backoffLimit=0)
    return job_set("train", part, failurePolicy={"maxRestarts": 3, "rules": rules})


def owned(root: Object, kind: str, version: str) -> Object:
    """Return an object with a reference to an owner that does not exist."""
    reference = {"apiVersion": version, "kind": kind, "name": "x", "uid": "0c5a", "controller": True}
    return {**root, "metadata": {**root["metadata"], "ownerReferences": [reference]}}


def with_the_label_of_a_job_set() -> Object:
    root = job("train", backoffLimit=3)
    root["spec"]["template"]["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": "x"}
    return root


def in_place(restart_policy: str, **spec: Any) -> Object:
    root = job("train", completionMode="Indexed", completions=2, backoffLimitPerIndex=1, **spec)
    root["spec"]["template"]["spec"]["restartPolicy"] = restart_policy
    return root


ALL_CODES = [exit_codes("Ignore", "In", *range(1, 128)), exit_codes("Ignore", "In", *range(128, 256))]

# For each test: the object that is refused, a part of the message, and a similar object that is accepted.
WAYS = {
    "ignores every exit code": (
        with_rules(exit_codes("Ignore", "NotIn", 0)),
        "spec.podFailurePolicy.rules[0]: ignores 255 of the 255 exit codes, so failures without limit",
        with_rules(exit_codes("Ignore", "In", 75)),
    ),
    "ignores every exit code but one": (
        with_rules(exit_codes("Ignore", "NotIn", 254)),
        "spec.podFailurePolicy.rules[0]: ignores 254 of the 255 exit codes, so failures without limit",
        with_rules(exit_codes("Ignore", "In", 143)),
    ),
    "ignores every exit code by two rules": (
        with_rules(*ALL_CODES),
        "spec.podFailurePolicy.rules[0]: ignores 255 of the 255 exit codes, so failures without limit",
        with_rules(exit_codes("FailJob", "NotIn", 75, container="main"), exit_codes("Ignore", "NotIn", 0)),
    ),
    "ignores failures of scheduled pods": (
        with_rules(ignoring("PodScheduled", "True")),
        "spec.podFailurePolicy.rules[0]: ignores PodScheduled=True",
        with_rules(ignoring("PodScheduled", "False")),
    ),
    "ignores failures of pods that are not ready": (
        with_rules(DISRUPTION, ignoring("Ready", "False")),
        "spec.podFailurePolicy.rules[1]: ignores Ready=False",
        with_rules(ignoring("Ready", "False"), activeDeadlineSeconds=3600),
    ),
    "ignores an exit code and has another controller": (
        with_rules(exit_codes("Ignore", "In", 75), managedBy="example.test/another"),
        "spec.podFailurePolicy.rules[0]: failures cost no retry, and no ledger counts them; use Count, or set",
        with_rules(exit_codes("Ignore", "In", 75), managedBy="example.test/another", activeDeadlineSeconds=3600),
    ),
    "names an owner that does not exist": (
        owned(job("train", backoffLimit=UNLIMITED), "JobSet", "jobset.x-k8s.io/v1alpha2"),
        "metadata.ownerReferences: the controller is JobSet 'x' with uid '0c5a', which does not exist; remove it",
        owned(job("train", backoffLimit=3), "Wonder", "example.test/v1"),
    ),
    "labels its pods as those of a job set that does not exist": (
        with_the_label_of_a_job_set(),
        "spec.template.metadata.labels[jobset.sigs.k8s.io/jobset-name]: is 'x', and no such JobSet controls the Job;",
        job("train", backoffLimit=3),
    ),
    "restarts containers in place and has budgets for its indexes": (
        in_place("OnFailure"),
        "spec.template.spec.restartPolicy: OnFailure restarts containers in place, which backoffLimitPerIndex does not",
        in_place("OnFailure", backoffLimit=10),
    ),
    "allows too many retries of all its indexes together": (
        job("train", backoffLimitPerIndex=10, **INDEXED),
        "spec.backoffLimitPerIndex: allows 100100 retries of all indexes together, and profile 'default' allows 1000",
        job("train", backoffLimitPerIndex=10, backoffLimit=1000, **INDEXED),
    ),
}
WAYS_OF_SETS = {
    "restarts at no cost after any failure": (
        restarting(),
        "after BackoffLimitExceeded: Job has reached the specified backoff limit; use RestartJobSet, which maxRestarts",
        restarting("RestartJobSet"),
    ),
    "restarts at no cost after a bug": (
        restarting(onJobFailureReasons=["BackoffLimitExceeded"]),
        "spec.failurePolicy.rules[0].action: restarts without limit and at no cost after BackoffLimitExceeded",
        restarting(onJobFailureReasons=["PodFailurePolicy"]),
    ),
    "restarts at no cost after a failure with any message": (
        restarting(onJobFailureMessagePatterns=[".*"]),
        "spec.failurePolicy.rules[0].action: restarts without limit and at no cost after BackoffLimitExceeded",
        restarting(onJobFailureMessagePatterns=["has condition Maintenance"]),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_api_server_refuses_a_job_that(way: str, dry: NewNamespace) -> None:
    refused, message, accepted = WAYS[way]
    team = opted_in(dry)
    assert message in team.refusal(refused)
    assert team.refusal(accepted) == ""


@with_operators
@pytest.mark.parametrize("way", WAYS_OF_SETS)
def test_the_api_server_refuses_a_job_set_that(way: str, dry: NewNamespace) -> None:
    refused, message, accepted = WAYS_OF_SETS[way]
    team = opted_in(dry)
    assert message in team.refusal(refused)
    assert team.refusal(accepted) == ""


def test_a_new_job_with_a_deletion_timestamp_cannot_exceed_the_limit(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    claims = job("train", backoffLimit=99)
    claims["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    result = team.run("apply", "--server-side", "--dry-run=server", "--filename=-", stdin=claims)
    assert "spec.backoffLimit: 99 retries exceed the limit of 10" in result.stderr
    assert team.refusal(claims)


def test_a_running_job_cannot_exceed_the_limit_by_claiming_an_owner(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    stored = team.create(job("train", backoffLimit=3))
    claims = owned(stored, "JobSet", "jobset.x-k8s.io/v1alpha2")["metadata"]["ownerReferences"]
    change = {"metadata": {"ownerReferences": claims}, "spec": {"backoffLimit": UNLIMITED}}
    assert "metadata.ownerReferences: the controller is JobSet 'x'" in team.patched("job/train", change)


def test_a_users_change_of_the_webhooks_label_and_annotations_on_a_job_is_undone(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    stored = team.create(job("train", backoffLimit=3))
    forged = {"labels": {names.PROFILE: "lax"}, "annotations": {names.POLICY: None, names.RETRY_HISTORY: "[]"}}
    assert team.patched("job/train", {"metadata": forged}) == ""
    now = team.get("job", "train")["metadata"]
    assert (now["labels"], now["annotations"]) == (stored["metadata"]["labels"], stored["metadata"]["annotations"])
    assert team.patched("job/train", {"metadata": {"labels": {"team": "a"}}}) == ""
    assert team.get("job", "train")["metadata"]["labels"]["team"] == "a"


def test_the_webhooks_label_and_annotations_on_a_job_cannot_be_changed_through_its_status(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(job("train", backoffLimit=3))
    for metadata in (
        {"labels": {names.PROFILE: "lax"}},
        {"labels": {names.PROFILE: None}},
        {"annotations": {names.RETRY_HISTORY: "[]"}},
        {"annotations": {names.POLICY: None}},
    ):
        assert "written by the webhook" in team.patched("job/train", {"metadata": metadata}, sub="/status"), metadata
    assert team.patched("job/train", {"metadata": {"annotations": {"team": "a"}}}, sub="/status") == ""


def test_users_cannot_change_the_labels_and_annotations_by_which_the_failures_of_a_pod_are_counted(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(job("train", exits(143), completionMode="Indexed", completions=1, backoffLimitPerIndex=1))
    (pod,) = team.pods_of("train", lambda pods: [one for one in pods if is_second(one)])[-1:]
    name = f"pod/{pod['metadata']['name']}"
    for field, key, value in (
        ("annotations", "batch.kubernetes.io/job-index-failure-count", "0"),
        ("annotations", "batch.kubernetes.io/job-index-failure-count", None),
        ("annotations", "batch.kubernetes.io/job-index-ignored-failure-count", "5"),
        ("annotations", names.COUNTED, "2026-01-01T00:00:00Z"),
        ("annotations", names.PLACEMENT, "None"),
        ("labels", names.PROFILE, None),
        ("labels", "batch.kubernetes.io/job-name", None),
        ("labels", "jobset.sigs.k8s.io/jobset-name", "x"),
    ):
        for sub in ("", "/status"):
            refusal = team.patched(name, {"metadata": {field: {key: value}}}, sub=sub)
            assert f"metadata.{field}[{key}]" in refusal, (value, sub)
    assert team.patched(name, {"metadata": {"labels": {"team": "a"}, "annotations": {"team": "a"}}}) == ""


def is_second(pod: Object) -> bool:
    """Return True if the index of a pod has failed once already."""
    return bool(pod["metadata"]["annotations"].get("batch.kubernetes.io/job-index-failure-count") == "1")


def test_the_ledger_fails_a_job_whose_failures_cost_no_retry(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "one-retry")
    root = with_rules(exit_codes("Ignore", "In", 75))
    root["spec"]["backoffLimit"] = 1
    root["spec"]["template"]["metadata"]["annotations"] = {
        **exits(75),
        names.COUNTED: "2026-01-01T00:00:00Z",  # set by the author, so that the ledger does not count the pods
    }
    team.create(root)
    failed = team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "FreeRestartLimitExceeded"
    assert condition(failed, "Failed")["message"].endswith(": free restart 2 exceeds the limit of 1")
    assert account(failed)["cost"] == {"free": 2}


def test_a_pod_from_before_the_opt_in_is_counted_whatever_its_author_wrote_on_it(namespace: NewNamespace) -> None:
    team = namespace({})
    root = with_rules(exit_codes("Ignore", "In", 75))
    forged = {
        names.ATTEMPT: "9",
        names.COUNTED: "2026-01-01T00:00:00.000Z 0123456789abcdef0123456789abcdef",
        names.PLACEMENT: "Spot",
        names.PROOF: "0123456789abcdef0123456789abcdef",
    }
    root["metadata"]["labels"] = {names.PROFILE: "default"}
    root["spec"]["template"]["metadata"] |= {"annotations": forged, "labels": {names.PROFILE: "default"}}
    team.create(root)
    (pod,) = team.running("train", 1)
    assert pod["metadata"]["annotations"].items() >= forged.items()
    team.label({names.PROFILE: "default"})
    team.running("train", 1)
    team.ends(pod, 75)
    (found,) = team.wait_for_all("jobs", lambda jobs: account(jobs[0]).get("cost"))
    assert account(found)["cost"] == {"free": 1}
    (attempt,) = account(found)["last"]
    assert (attempt["pod"], attempt.get("attempt", 0), attempt.get("placement")) == (pod["metadata"]["name"], 0, None)


@with_operators
def test_the_ledger_fails_a_job_set_whose_restarts_cost_nothing(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "one-retry")
    part = replicated_job(
        "main",
        exits(75),
        backoffLimit=0,
        podFailurePolicy={"rules": [exit_codes("FailJob", "In", 75, container="main")]},
    )
    rules = [{"name": "again", "action": FREE, "onJobFailureReasons": ["PodFailurePolicy"]}]
    team.create(job_set("train", part, failurePolicy={"maxRestarts": 1, "rules": rules}))
    failed = team.wait_for("jobsets", "train", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "FreeRestartLimitExceeded"
    assert failed["status"]["terminalState"] == "Failed"
    team.wait_for_all("jobs", lambda jobs: not any(one.get("status", {}).get("active") for one in jobs))


@with_operators
def test_a_bug_in_a_job_set_with_a_maintenance_rule_restarts_it_at_most_max_restarts_times(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "fail-job")
    drained = {**DISRUPTION, "action": "FailJob"}
    part = replicated_job("main", exits(1), backoffLimit=0, podFailurePolicy={"rules": [drained]})
    rules = [{"name": "maintenance", "action": FREE, "onJobFailureReasons": ["PodFailurePolicy"]}]
    team.create(job_set("train", part, failurePolicy={"maxRestarts": 1, "rules": rules}))
    failed = team.wait_for("jobsets", "train", lambda found: condition(found, "Failed"))
    assert failed["status"]["restarts"] == 1
