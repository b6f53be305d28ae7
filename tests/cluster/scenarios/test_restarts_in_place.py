"""Containers that a kubelet restarts in the same pod: each restart is an attempt, and no loop is endless."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.binaries import kubernetes_version
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.manifests import job, job_set, replicated_job
from tests.cluster.objects import account, condition
from tests.cluster.scenarios.conftest import program
from tests.cluster.test_ledger import explained

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object

# On by default: restartPolicyRules since 1.35, RestartAllContainers since 1.36.
with_rules = pytest.mark.skipif(kubernetes_version() < "1.35", reason="the API server drops restartPolicyRules")
with_restart_all = pytest.mark.skipif(kubernetes_version() < "1.36", reason="it does not know RestartAllContainers")


def failed(found: Object) -> Object:
    return condition(found, "Failed")


def has_in_place(found: Object, **costs: int) -> bool:
    return bool(account(found) and account(found).get("inPlace") == costs)


def on_failure(does: dict[str, str], **spec: Any) -> Object:
    root = job("train", does, **spec)
    root["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    return root


def with_rule(does: dict[str, str], *codes: int, action: str = "Restart", others: int = 0, **spec: Any) -> Object:
    """Return a Job whose first container restarts after these exit codes, with more containers beside it."""
    root = job("train", does, **spec)
    containers = root["spec"]["template"]["spec"]["containers"]
    rule = {"action": action, "exitCodes": {"operator": "In", "values": list(codes)}}
    containers[0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    containers += [{"name": f"other-{number}", "image": "example.invalid/other"} for number in range(others)]
    return root


def attempts(found: Object) -> list[tuple[int, str, str]]:
    """Return the kept attempts: which restart ended each, 0 for the end of the pod, its reason and its cost."""
    return [(one.get("restart", 0), one.get("reason", ""), one["cost"]) for one in account(found)["last"]]


def test_a_bug_under_on_failure_spends_the_retries_in_place_and_the_account_says_so(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(on_failure(program(1, 1, 1, 1, 1, 1), backoffLimit=3))
    ended = team.wait_for("jobs", "train", failed)
    assert condition(ended, "Failed")["reason"] == "BackoffLimitExceeded"
    counted = team.wait_for("jobs", "train", lambda found: account(found) and account(found).get("cost"))
    # The watch may miss restarts, and the kubelet restart the container until the Job controller has ended the Job.
    spent = account(counted)["inPlace"]
    assert spent.keys() <= {"retry", "fatal"}
    assert spent["fatal"] >= 1
    assert spent.get("retry", 0) <= 2
    assert sum(account(counted)["causes"]["ExitCode"].values()) == len(attempts(counted)) - 1
    assert attempts(counted)[-1] == (0, "Stopped", "none")
    assert attempts(counted)[-2][2] == "fatal"


@with_rules
def test_restarts_after_a_code_that_is_retried_are_counted_and_the_job_succeeds(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(with_rule(program(143, 143, 0), 143, backoffLimit=2))
    team.wait_for("jobs", "train", lambda found: condition(found, "Complete"))
    counted = team.wait_for("jobs", "train", lambda found: has_in_place(found, free=2))
    assert account(counted).get("cost", {}) == {}
    assert "failed" not in counted["status"]


@with_rules
def test_a_bug_still_ends_the_job_at_once_beside_rules_that_restart(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(with_rule(program(143, 1), 143, backoffLimit=2))
    ended = team.wait_for("jobs", "train", failed)
    assert condition(ended, "Failed")["reason"] == "PodFailurePolicy"
    counted = team.wait_for("jobs", "train", lambda found: account(found) and account(found).get("cost"))
    assert attempts(counted) == [(1, "main 143", "free"), (0, "main 1", "fatal")]


@with_rules
def test_a_loop_of_restarts_in_place_ends_at_the_limit(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "one-retry")
    team.create(with_rule(program(*[143] * 50), 143, backoffLimit=1))
    ended = team.wait_for("jobs", "train", failed)
    assert condition(ended, "Failed")["reason"] == "FreeRestartLimitExceeded"
    assert "free restart 2 exceeds the limit of 1" in condition(ended, "Failed")["message"]


@with_restart_all
def test_a_restart_of_all_containers_is_one_attempt_with_the_exit_code_that_was_its_reason(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(with_rule(program(143, 0), 143, action="RestartAllContainers", others=2, backoffLimit=2))
    team.wait_for("jobs", "train", lambda found: condition(found, "Complete"))
    counted = team.wait_for("jobs", "train", lambda found: has_in_place(found, free=1))
    assert attempts(counted) == [(1, "main 143", "free")]


@with_rules
def test_rules_that_restart_after_bugs_are_refused_and_a_clamping_profile_takes_these_codes_out(
    namespace: NewNamespace,
) -> None:
    refused = opted_in(namespace).refusal(with_rule({}, 1, 143, backoffLimit=1))
    assert "containers[0].restartPolicyRules[0]: restarts the container in place after exit code 1, which" in refused
    stored = opted_in(namespace, "clamp").create(with_rule({}, 1, 143, backoffLimit=1))
    (main,) = stored["spec"]["template"]["spec"]["containers"]
    assert main["restartPolicyRules"][0]["exitCodes"]["values"] == [143]


@with_rules
def test_explain_shows_restarts_in_place_as_attempts(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(with_rule(program(143), 143, backoffLimit=2))
    team.wait_for("jobs", "train", lambda found: has_in_place(found, free=1))
    shown = explained(team, "job/train")
    assert shown["summary"] == "0 attempts ended; 1 restart in place: 1 free restart"
    assert [(row["rule"], row["cost"]) for row in shown["rows"]] == [("restart 1 in place", "free"), ("", "")]


@with_operators
def test_a_job_set_that_restarts_in_place_ends_after_its_max_restarts_and_each_restart_is_counted(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    spec = {"completions": 1, "parallelism": 1, "backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}
    part = replicated_job("main", program(75, 75, 75, 75), **spec)
    part["template"]["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    policy = {"maxRestarts": 1, "restartStrategy": "InPlaceRestart"}
    team.create(job_set("train", part, failurePolicy=policy))
    ended = team.wait_for("jobsets", "train", failed)
    assert condition(ended, "Failed")["reason"] == "ReachedMaxRestarts"
    counted = team.wait_for("jobsets", "train", lambda found: account(found) and account(found).get("inPlace"))
    assert set(account(counted)["inPlace"]) <= {"retry", "fatal"}
    assert account(counted)["causes"]["ExitCode"]
