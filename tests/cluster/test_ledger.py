"""The ledger with real disruptions: accounts, Events and `explain`."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import command_line
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.devices import OLDEST_WITH_TAINTS, minor_version, own_device
from tests.cluster.disruptions import on, own_nodes, preempt, taint
from tests.cluster.manifests import DELETION_EXIT_CODE, exits, job, job_set, replicated_job
from tests.cluster.namespace import JSON_PATCH
from tests.cluster.objects import account, condition, disruptions, ended, last, noted, restarts
from webhook.accounts.account import MOST_RECENT, id_of_uid
from webhook.kube import names
from webhook.systems.kueue import QUEUE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

EVICTED = ("Disruption", "EvictionByEvictionAPI")
EIGHT = {"completions": 8, "parallelism": 8}
INDEXED = {**EIGHT, "completionMode": "Indexed"}
SHAPES = {"one pod": {}, "eight pods": EIGHT, "eight indexes": INDEXED}


def explained(team: Namespace, name: str) -> Object:
    """Return the output of `retry-policy explain` for an object."""
    answer = command_line.run("explain", f"{team.name}/{name}", f"--kubeconfig={team.kubeconfig}", "-o", "json")
    assert answer.exit_code == 0, answer.stderr
    parsed: Object = json.loads(answer.stdout)
    return parsed


def test_a_retriable_failure_costs_a_retry_and_a_bug_fails_the_job(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("train", exits(143, 1), backoffLimit=3))
    found = team.wait_for("jobs", "train", lambda found: ended(found, 2) and condition(found, "Failed"))
    assert last(found) == [("ExitCode", "main 143", "retry"), ("ExitCode", "main 1", "fatal")]
    assert account(found)["cost"] == {"retry": 1, "fatal": 1}
    assert found["status"]["failed"] == 2
    expected = (
        "attempt 0 (max-retries 3), ended: container main exit code 143; cost 1 retry; left: 2 retries, 20 disruptions"
    )
    team.told("train", text=expected)


@pytest.mark.first
def test_after_opt_out_no_account_is_written_until_the_namespace_is_opted_in_again(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(job("train", backoffLimit=3))
    (first,) = team.running("train", 1)
    team.label({names.PROFILE: None})
    team.ends(first, 143)
    team.running("train", 1, but=first)
    assert not account(team.get("job", "train"))
    team.label({names.PROFILE: "default"})
    found = team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert last(found) == [("ExitCode", "main 143", "retry")]


def test_an_eviction_costs_a_disruption_and_at_the_limit_the_next_pod_runs_on_demand(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "limited")
    team.create(job("train", backoffLimit=3))
    (first,) = team.running("train", 1)
    team.evict(first["metadata"]["name"])
    (second,) = team.running("train", 1, but=first)
    assert noted(first)["placement"] == "Spot"
    assert noted(second) == {"placement": "OnDemand", "attempt": "0", "max-retries": "3", "attempt-source": "JobStatus"}
    assert disruptions(second) == "1"
    found = team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert last(found) == [(*EVICTED, "disruption")]
    assert account(found)["left"] == {"retries": 3, "disruptions": 0}
    rows = explained(team, "train")["rows"]
    assert [(row["ended"], row["cost"], row["placement"]) for row in rows] == [
        ("disruption EvictionByEvictionAPI", "disruption", "spot"),
        ("running", "", "on-demand"),
    ]


def test_the_next_pod_is_created_when_the_back_off_that_explain_shows_ends(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("train", backoffLimit=3))
    (first,) = team.running("train", 1)
    team.evict(first["metadata"]["name"])
    team.wait_for("jobs", "train", lambda found: ended(found, 1))
    waits_until = explained(team, "train")["waits_until"]
    (second,) = team.running("train", 1, but=first)
    created = datetime.fromisoformat(second["metadata"]["creationTimestamp"])
    assert -2 <= (created - datetime.fromisoformat(waits_until)).total_seconds() <= 8


def test_explain_shows_a_pending_verdict_until_the_crash_is_settled(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "settle")
    team.create(job("train", **{**INDEXED, "completions": 3, "parallelism": 3, "backoffLimit": 3}))
    pod = team.running("train", 3)[0]
    team.ends(pod, 1)
    team.wait_for("jobs", "train", lambda found: ended(found, 1))
    found = explained(team, "train")
    assert [one["pod"] for one in found["verdicts"]] == [pod["metadata"]["name"]]
    team.told("train", text="it is a bug, which ends the Job, if no other pod")
    team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert explained(team, "train")["verdicts"] == []


def test_with_action_count_an_eviction_fails_a_job_without_retries(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "count")
    team.create(job("train", backoffLimit=0))
    (first,) = team.running("train", 1)
    team.evict(first["metadata"]["name"])
    found = team.wait_for("jobs", "train", lambda found: ended(found, 1) and condition(found, "Failed"))
    assert last(found) == [(*EVICTED, "fatal")]
    assert condition(found, "Failed")["reason"] == "BackoffLimitExceeded"


def test_a_preemption_and_a_taint_are_counted_with_their_reasons(namespace: NewNamespace, kubectl: Kubectl) -> None:
    team = opted_in(namespace)
    with own_nodes(kubectl, spot=1) as nodes, own_nodes(kubectl, spot=1) as others:
        team.create(on(nodes, job("preempted", backoffLimit=3), cpu="40"))
        team.create(on(others, job("tainted", backoffLimit=3)))
        (pod,) = team.running("preempted", 1)
        team.running("tainted", 1)
        taint(kubectl, others.nodes[0])
        preempt(kubectl, team, pod)
        found = team.wait_for("jobs", "preempted", lambda found: ended(found, 1))
        assert last(found) == [("Disruption", "PreemptionByScheduler", "disruption")]
        found = team.wait_for("jobs", "tainted", lambda found: ended(found, 1))
        assert last(found) == [("Disruption", "DeletionByTaintManager", "disruption")]


def test_a_pod_whose_device_is_tainted_costs_a_disruption(namespace: NewNamespace, kubectl: Kubectl) -> None:
    if minor_version(kubectl) < OLDEST_WITH_TAINTS:
        pytest.skip("devices have no taints there")
    team = opted_in(namespace)
    with own_nodes(kubectl, spot=1) as nodes, own_device(kubectl, nodes.nodes[0]) as device:
        team.create(device.claimed_by(team, on(nodes, job("train", backoffLimit=3))))
        team.running("train", 1)
        device.break_down()
        found = team.wait_for("jobs", "train", lambda found: ended(found, 1))
        assert last(found) == [("Disruption", "DeletionByDeviceTaintManager", "disruption")]


@pytest.mark.first
def test_each_pod_is_counted_once_even_if_the_account_cannot_name_them_all(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    indexes = {"completions": MOST_RECENT + 10, "parallelism": MOST_RECENT + 10, "completionMode": "Indexed"}
    team.create(job("train", exits(143), backoffLimitPerIndex=0, **indexes))
    found = team.wait_for("jobs", "train", lambda found: condition(found, "Failed") and ended(found, MOST_RECENT + 10))
    assert account(found)["cost"] == {"fatal": MOST_RECENT + 10}
    assert len(account(found)["recent"]) <= MOST_RECENT
    unnamed = [
        pod for pod in team.get("pods")["items"] if id_of_uid(pod["metadata"]["uid"]) not in account(found)["recent"]
    ]
    assert all(names.COUNTED in pod["metadata"]["annotations"] for pod in unnamed)


def test_suspending_a_job_costs_nothing(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("train", suspend=True, backoffLimit=3))
    suspend(team, suspended=False)
    team.running("train", 1)
    suspend(team)
    found = team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert last(found) == [("Other", "Stopped", "none")]


def queued(*exit_codes: int, at_sigterm: int = 143, **spec: Any) -> Object:
    """Return a Job with a queue name but without Kueue, so that a test can suspend and scale it as Kueue does."""
    found = job("train", {**(exits(*exit_codes) if exit_codes else {}), DELETION_EXIT_CODE: str(at_sigterm)}, **spec)
    found["metadata"]["labels"] = {QUEUE_NAME: "team"}
    return found


def suspend(team: Namespace, *, suspended: bool = True) -> None:
    team.patch("job/train", {"spec": {"suspend": suspended}})


@contextmanager
def held(team: Namespace, *pods: Object) -> Iterator[None]:
    """Keep deleted pods by a finalizer, as a kubelet does for seconds: the Job controller then sees how they end."""
    finalizer = [{"op": "add", "path": "/metadata/finalizers/-", "value": "retry-policy-test/held"}]
    for pod in pods:
        team.patch(f"pod/{pod['metadata']['name']}", finalizer, kind=JSON_PATCH)
    try:
        yield
    finally:
        for pod in pods:
            team.patched(f"pod/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("code", [1, 137])
def test_a_queued_job_can_be_suspended_and_resumed_whatever_the_exit_code_of_its_pod(
    namespace: NewNamespace, code: int
) -> None:
    team = opted_in(namespace)
    team.create(queued(at_sigterm=code))
    (first,) = team.running("train", 1)
    with held(team, first):
        suspend(team)
        found = team.wait_for("jobs", "train", lambda found: ended(found, 1))
        assert last(found) == [("Other", "Stopped", "none")]
        suspend(team, suspended=False)
        (second,) = team.running("train", 1, but=first)
    team.ends(second, 0)
    assert not team.wait_for("jobs", "train", lambda found: condition(found, "Complete"))["status"].get("failed")


@pytest.mark.parametrize(
    "index", [{}, {"completionMode": "Indexed"}, {"completionMode": "Indexed", "backoffLimitPerIndex": 1}]
)
def test_a_queued_job_can_be_scaled_down_whatever_the_exit_codes_of_its_pods(
    namespace: NewNamespace, index: Object
) -> None:
    team = opted_in(namespace)
    team.create(queued(at_sigterm=1, completions=3, parallelism=3, **index))
    with held(team, *team.running("train", 3)):
        team.patch("job/train", {"spec": {"parallelism": 1}})
        found = team.wait_for("jobs", "train", lambda found: ended(found, 2))
        assert set(last(found)) == {("Other", "Stopped", "none")}
        (pod,) = team.running("train", 1)
        team.ends(pod, 0)
        found = team.wait_for("jobs", "train", lambda found: found["status"].get("succeeded"))
        assert not condition(found, "FailureTarget")
        assert not found["status"].get("failed")


def test_with_coupled_fail_job_the_exit_code_of_a_suspended_pod_fails_a_queued_job(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "fail-job")
    team.create(queued(at_sigterm=1))
    with held(team, *team.running("train", 1)):
        suspend(team)
        found = team.wait_for("jobs", "train", lambda found: condition(found, "FailureTarget"))
        assert condition(found, "FailureTarget")["reason"] == "PodFailurePolicy"


def test_a_bug_fails_a_queued_job_before_it_is_retried(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(queued(1))
    found = team.wait_for("jobs", "train", lambda found: condition(found, "Failed") and ended(found, 1))
    assert condition(found, "Failed")["reason"] == "PodFailurePolicy"
    assert found["status"]["failed"] == 1
    found = team.wait_for("jobs", "train", lambda found: account(found)["cost"].get("fatal"))
    assert last(found) == [("ExitCode", "main 1", "fatal")]
    (row,) = explained(team, "train")["rows"]
    assert row["rule"] == "the ledger: a bug"


def with_no_disruption_allowed(**spec: Object) -> Object:
    found = job("train", backoffLimit=3, **spec)
    found["metadata"]["annotations"] = {names.MAX_DISRUPTIONS: "0"}
    return found


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
def test_with_on_exceed_fail_a_disruption_beyond_the_limit_fails_the_job(namespace: NewNamespace, spec: Object) -> None:
    team = opted_in(namespace, "fail")
    team.create(with_no_disruption_allowed(**spec))
    pods = team.running("train", spec.get("parallelism", 1))
    team.evict(pods[0]["metadata"]["name"])
    found = team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert condition(found, "Failed")["reason"] == "DisruptionLimitExceeded"
    assert pods[0]["metadata"]["name"] in condition(found, "Failed")["message"]


def test_with_on_exceed_suspend_a_disruption_beyond_the_limit_suspends_the_job_until_it_is_resumed(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "suspend")
    team.create(with_no_disruption_allowed())
    (first,) = team.running("train", 1)
    team.evict(first["metadata"]["name"])
    team.wait_for("jobs", "train", lambda found: found["spec"]["suspend"] and account(found).get("suspended"))
    (message,) = team.told("train", "DisruptionLimitExceeded")
    command = message.partition("kubectl ")[2].replace("'", "").split()
    assert team.run(*command[:2], *command[2:]).returncode == 0
    found = team.wait_for("jobs", "train", lambda found: account(found).get("grants") == 1)
    assert "suspended" not in account(found)
    assert account(found)["cost"] == {"disruption": 1}


def test_with_actions_report_an_event_says_what_the_leader_would_do_and_the_job_goes_on(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "report")
    team.create(with_no_disruption_allowed())
    (first,) = team.running("train", 1)
    team.evict(first["metadata"]["name"])
    (message,) = team.told("train", "ActionNotTaken")
    assert message == (
        f"would fail it: pod {team.name}/{first['metadata']['name']}: disruption 1 exceeds the limit of 0; "
        "actions of this profile are only reported (actions is Report)"
    )
    (second,) = team.running("train", 1, but=first)
    team.ends(second, 0)
    team.wait_for("jobs", "train", lambda found: condition(found, "Complete"))
    assert len(team.event_messages("train", "ActionNotTaken")) == 1


@pytest.mark.parametrize("spec", [EIGHT, INDEXED], ids=["eight pods", "eight indexes"])
def test_with_on_exceed_suspend_a_job_with_other_running_pods_is_not_suspended(
    namespace: NewNamespace, spec: Object
) -> None:
    team = opted_in(namespace, "suspend")
    team.create(with_no_disruption_allowed(**spec))
    pods = team.running("train", 8)
    team.evict(pods[0]["metadata"]["name"])
    found = team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert not found["spec"]["suspend"]


def test_a_crash_beside_a_disruption_costs_a_retry_and_a_crash_alone_is_a_bug(namespace: NewNamespace) -> None:
    teams = {"echo": opted_in(namespace, "settle-late"), "bug": opted_in(namespace, "settle")}
    for name, team in teams.items():
        team.create(job(name, **{**INDEXED, "completions": 3, "parallelism": 3, "backoffLimit": 6}))
    for name, team in teams.items():
        first, second, _ = team.running(name, 3)
        team.ends(first, 1)
        if name == "echo":
            team.evict(second["metadata"]["name"])
    bug = teams["bug"].wait_for("jobs", "bug", lambda found: condition(found, "Failed"))
    assert condition(bug, "Failed")["reason"] == "PodFailurePolicy"
    found = teams["bug"].wait_for("jobs", "bug", lambda found: account(found)["cost"].get("fatal"))
    assert last(found)[0] == ("ExitCode", "main 1", "fatal")
    echo = teams["echo"].wait_for("jobs", "echo", lambda found: ended(found, 2))
    assert not condition(echo, "FailureTarget")
    assert set(last(echo)) == {("ExitCode", "main 1", "retry"), (*EVICTED, "disruption")}


@pytest.mark.parametrize("spec", [EIGHT, INDEXED], ids=["eight pods", "eight indexes"])
def test_the_disruption_limit_applies_to_each_index_or_without_indexes_to_all_pods_together(
    namespace: NewNamespace, spec: Object
) -> None:
    team = opted_in(namespace, "limited")
    team.create(job("train", backoffLimit=3, **spec))
    pods = team.running("train", 8)
    team.evict(pods[0]["metadata"]["name"])
    known = {pod["metadata"]["uid"] for pod in pods}
    (new,) = [pod for pod in team.running("train", 8, but=pods[0]) if pod["metadata"]["uid"] not in known]
    # Limit 1: without indexes it allows eight disruptions of eight pods; with indexes one of this index.
    assert noted(new)["placement"] == ("OnDemand" if "completionMode" in spec else "Spot")


@with_operators
def test_a_job_set_restarts_if_one_pod_is_evicted_and_the_others_crash(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "settle-late")
    workers = replicated_job("workers", parallelism=4, completions=4, completionMode="Indexed", backoffLimit=6)
    team.create(job_set("train", workers, failurePolicy={"maxRestarts": 2}))
    pods = team.pods_of_set("train", 0, 4)
    for pod in pods[1:]:
        team.ends(pod, 1)
    team.evict(pods[0]["metadata"]["name"])
    team.pods_of_set("train", 1)
    found = team.wait_for("jobsets", "train", lambda found: account(found).get("cost", {}).get("disruption"))
    assert restarts(found) == (1, 0)
    assert (*EVICTED, "disruption") in last(found)


@with_operators
def test_a_job_set_fails_if_one_pod_crashes_without_a_disruption(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "settle")
    workers = replicated_job("workers", parallelism=4, completions=4, completionMode="Indexed", backoffLimit=6)
    team.create(job_set("train", workers, failurePolicy={"maxRestarts": 2}))
    team.ends(team.pods_of_set("train", 0, 4)[0], 1)
    found = team.wait_for("jobsets", "train", lambda found: condition(found, "Failed"))
    assert condition(found, "Failed")["reason"] == "FailJobSetFailurePolicyAction"
    assert restarts(found) == (0, 0)


@with_operators
def test_the_jobs_of_a_job_set_with_several_pods_get_no_exit_code_rule(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "settle")
    team.create(job_set("train", replicated_job("driver"), replicated_job("workers")))
    team.pods_of_set("train", 0, 2)
    for found in team.get("jobs")["items"]:
        assert [rule["action"] for rule in found["spec"]["podFailurePolicy"]["rules"]] == ["FailJob"]
