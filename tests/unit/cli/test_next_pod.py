"""The next pod of a Job, offline."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.admission import mutate, policy
from tests.objects import DISRUPTION, exit_codes, job_spec, pod, stored_job
from webhook.cli import next_pod
from webhook.cli.next_pod import After, Ended
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods import on_failure, pods
from webhook.pods.on_failure import FailureState
from webhook.pods.outcomes import outcome_of
from webhook.policy.model import (
    Delay,
    Disruptions,
    Duration,
    FailureRule,
    Match,
    MemoryGrowth,
    Next,
    Placement,
    Policy,
    Profile,
)
from webhook.policy.settings import NamedProfile
from webhook.rules.facts import Facts
from webhook.systems.job import spec as batch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RULES = (
    FailureRule(match=Match(cause="OOMKilled"), next=Next(memory=MemoryGrowth(limit="64Gi"))),
    FailureRule(match=Match(exit_codes=(75,)), next=Next(delay=Delay(initial=Duration(30)))),
    FailureRule(match=Match(cause="Disruption"), next=Next(avoid="Zone")),
)
GKE = Profile(placement=Placement(provider="gke"), on_failure=RULES)
PROFILE = NamedProfile("default", GKE)
# Rules by which no end but one with code 1 is fatal.
LENIENT = [DISRUPTION, exit_codes("FailJob", "In", 1)]


def after(*ends: Ended) -> After:
    return After(ends, NOW)


def made(*ends: Ended, attempt: int | None = None, **spec: Any) -> next_pod.NextPod:
    root = stored_job(job_spec(rules=LENIENT, **{"backoffLimit": 3, **spec}))
    return next_pod.of_job(root, after(*ends), attempt, PROFILE)


def state(found: next_pod.NextPod, under: Policy | None = None) -> FailureState:
    next_pod.admit(found, under or policy(default=GKE))
    return on_failure.read(found.pod["metadata"]["annotations"][names.AFTER_FAILURE])


def ends_as(end: Ended) -> tuple[str, str]:
    """Return cause and reason of an end, as rules see them."""
    found = next_pod.ended_pod(end, 0, "main", NOW)
    outcome = outcome_of(found, None)
    return on_failure.cause_of(found, outcome), outcome.reason


@pytest.mark.parametrize(
    ("end", "cause", "reason"),
    [
        (Ended(cause="OOMKilled"), "OOMKilled", "main"),
        (Ended(cause="OOMKilled", container="side"), "OOMKilled", "side"),
        (Ended(exit_code=75), "ExitCode", "main 75"),
        (Ended(message="loss is NaN"), "ExitCode", "main 1"),
        (Ended(cause="Disruption"), "Disruption", "EvictionByEvictionAPI"),
        (Ended(cause="Disruption", reason="PreemptionByScheduler"), "Disruption", "PreemptionByScheduler"),
        (Ended(cause="DeadlineExceeded"), "DeadlineExceeded", ""),
        (Ended(cause="NeverStarted", reason="ErrImagePull"), "NeverStarted", "ErrImagePull"),
        (Ended(reason="NodeLost"), "Other", "NodeLost"),
        (Ended(), "Other", ""),
    ],
)
def test_each_cause_can_be_named(end: Ended, cause: str, reason: str) -> None:
    assert ends_as(end) == (cause, reason)


def test_a_disrupted_container_ends_with_the_code_of_sigterm_and_a_killed_one_with_that_of_sigkill() -> None:
    for cause, code in (("Disruption", 143), ("OOMKilled", 137)):
        found = next_pod.ended_pod(Ended(cause=cause, message="saved"), 0, "main", NOW)  # type: ignore[arg-type]
        assert [(one.code, one.message) for one in found.exits] == [(code, "saved")]


def test_the_next_pod_is_that_of_admission_with_the_state_of_the_rules() -> None:
    found = state(made(Ended(exit_code=75, node="n1")))
    assert (found.rule, found.nodes, found.not_before) == (1, ("n1",), "2026-01-01T00:00:30Z")


def test_the_state_goes_from_pod_to_pod() -> None:
    killed = Ended(cause="OOMKilled", node="n1")
    found = state(made(killed, Ended(cause="Disruption", zone="a"), killed))
    assert (found.rule, found.kills, found.avoid_zones) == (0, {"main": 2}, ("a",))


def test_only_the_last_five_ends_are_remembered_as_the_ledger_does() -> None:
    assert len(made(*[Ended(cause="Disruption")] * 7).facts.ended) == 5


def test_its_attempt_counts_the_ends_that_cost_a_retry_and_disruptions_count_apart() -> None:
    found = made(Ended(exit_code=75), Ended(cause="Disruption"), Ended(exit_code=75))
    assert (found.facts.failures, found.facts.disruptions, found.over) == (2, 1, "")
    response = next_pod.admit(found, policy(default=GKE))
    said = found.pod["metadata"]["annotations"]
    assert (said[names.ATTEMPT], said[names.DISRUPTIONS], response.warnings) == ("2", "1", [])


@pytest.mark.parametrize(
    ("ends", "over"),
    [
        ([Ended(exit_code=1)], "container main exit code 1: rule 1 (FailJob) ends the Job"),
        ([Ended(exit_code=2)] * 4, "container main exit code 2: no retry was left, which ends the Job"),
    ],
)
def test_an_end_after_which_no_pod_follows_gives_a_warning(ends: list[Ended], over: str) -> None:
    found = made(*ends)
    assert found.over == over
    (warning,) = next_pod.admit(found, policy(default=GKE)).warnings
    assert str(warning).startswith(f"no pod follows {over}; ")


def test_an_end_that_the_ledger_calls_a_bug_gives_a_warning_too() -> None:
    grows = FailureRule(match=Match(cause="OOMKilled"), next=Next(memory=MemoryGrowth(factor=2, limit="4Gi")))
    profile = NamedProfile("default", Profile(placement=Placement(provider="gke"), on_failure=(grows,)))
    root = stored_job(job_spec(rules=[DISRUPTION], backoffLimit=3))
    bug, killed = (
        next_pod.of_job(root, after(end), None, profile) for end in (Ended(exit_code=1), Ended(cause="OOMKilled"))
    )
    assert "no rule of onFailure retries it, which ends the Job" in bug.over
    assert killed.over == ""


@pytest.mark.parametrize(("on_exceed", "does"), [("Fail", "ends"), ("Suspend", "suspends"), ("OnDemand", "")])
def test_a_disruption_after_which_the_ledger_stops_the_job_gives_a_warning_too(on_exceed: str, does: str) -> None:
    disruptions = Disruptions(limit=1, on_exceed=on_exceed)  # type: ignore[arg-type]
    profile = NamedProfile("default", Profile(placement=Placement(provider="gke"), disruptions=disruptions))
    root = stored_job(job_spec(rules=LENIENT, backoffLimit=3))
    found = next_pod.of_job(root, after(*[Ended(cause="Disruption")] * 2), None, profile)
    stops = f"disruption EvictionByEvictionAPI: {does} the Job: disruptions exceed the limit of 1"
    assert found.over == (stops if does else "")


def test_the_pod_of_an_index_with_its_own_retries_has_the_failures_of_that_index() -> None:
    found = made(Ended(exit_code=75), completionMode="Indexed", completions=4, backoffLimitPerIndex=2)
    said = found.pod["metadata"]["annotations"]
    assert (said[pods.INDEX], said[batch.INDEX_FAILURES]) == ("0", "1")
    assert found.over == ""
    assert made(*[Ended(exit_code=75)] * 3, completionMode="Indexed", completions=4, backoffLimitPerIndex=2).over


def test_an_attempt_that_is_given_wins_over_the_number_of_ends() -> None:
    found = made(Ended(exit_code=75), attempt=3)
    next_pod.admit(found, policy(default=GKE))
    assert found.pod["metadata"]["annotations"][names.ATTEMPT] == "3"


def test_a_pod_document_gets_the_state_too() -> None:
    root = pod()
    facts = next_pod.facts_of_pod(
        Facts(profile_name="default"), root, after(Ended(cause="OOMKilled")), PROFILE.settings({})
    )
    said = mutate(root, facts, policy(default=GKE)).object["metadata"]["annotations"]
    assert on_failure.read(said[names.AFTER_FAILURE]).kills == {"main": 1}


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("cause=OOMKilled", Ended(cause="OOMKilled")),
        ("cause=ExitCode, exitCode=75,node=n1,zone=a", Ended(cause="ExitCode", exit_code=75, node="n1", zone="a")),
        ("container=side,reason=Error", Ended(container="side", reason="Error")),
        ("message=NCCL error, rank=3", Ended(message="NCCL error, rank=3")),
        ("node=n1,message=a,message=b", Ended(node="n1", message="a,message=b")),
    ],
)
def test_a_text_says_how_an_attempt_ended(text: str, end: Ended) -> None:
    assert next_pod.parsed(text) == (end, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cuase=OOMKilled", "cuase: is not a field; must be cause, "),
        ("cause=OutOfMemory", 'cause: is "OutOfMemory"; must be DeadlineExceeded, Disruption, '),
        ("exitCode=0", "exitCode: is 0; must be an integer from 1 to 2147483647"),
        ("exitCode=" + "9" * 5000, "exitCode: is "),
        ("", "is not a field; "),
    ],
)
def test_a_text_that_says_nothing_is_a_problem(text: str, problem: str) -> None:
    found, problems = next_pod.parsed(text)
    assert found is None
    assert str(problems[0]).startswith(problem)


def test_the_pod_of_a_job_is_as_the_job_controller_creates_it() -> None:
    root: Json = stored_job(job_spec(pod_annotations={"a": "b"}), namespace="ml")
    found = next_pod.pod_of(root, 2, is_said=False)
    assert found["metadata"]["annotations"] == {"a": "b"}
    assert found["metadata"]["ownerReferences"][0]["name"] == "train"
    said = next_pod.pod_of(root, 2, is_said=True)["metadata"]["annotations"]
    assert (said[names.ATTEMPT], said[names.ATTEMPT_SOURCE]) == ("2", "Annotation")
