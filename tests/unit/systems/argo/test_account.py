"""What the end of a Workflow's pod costs, and how the leader stops or suspends a Workflow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.accounts.pods import disrupted, failed, running_pod
from webhook.accounts.tracker import as_failed
from webhook.pods.pods import Pod
from webhook.policy.model import Disruptions, FailurePolicy, FailureRule, Match, Next, Profile
from webhook.policy.settings import Settings
from webhook.systems.argo import account as argo
from webhook.systems.argo.spec import WORKFLOW
from webhook.systems.system import Spent

SPENT = Spent(retries=0, disruptions=0, budget=3)


def cost(pod: Pod, spent: Spent = SPENT, **profile: Any) -> str:
    return argo.cost_of(pod, {}, spent, Settings(profile_name="default", profile=Profile(**profile)))


@pytest.mark.parametrize(
    "pod",
    [
        disrupted(reason="EvictionByEvictionAPI", code=143),
        disrupted(reason="DeletionByTaintManager", code=1),
        disrupted(reason="DeletionByPodGC", exits=()),
        failed(code=143),  # Argo cannot tell it from an eviction
        failed(code=137),
        as_failed(running_pod(deleting=True)),  # "pod deleted"
    ],
)
def test_what_was_ended_from_outside_costs_a_disruption_even_without_a_retry_left(pod: Pod) -> None:
    assert cost(pod) == cost(pod, Spent(retries=3, disruptions=1, budget=3)) == "disruption"


@pytest.mark.parametrize(
    "pod", [failed(code=1), failed(code=137, exit_reason="OOMKilled"), failed(code=1, container="a")]
)
def test_a_bug_is_fatal(pod: Pod) -> None:
    assert cost(pod) == "fatal"


def test_a_code_that_the_profile_or_a_rule_retries_costs_a_retry() -> None:
    codes = FailurePolicy(retriable_exit_codes=(75,))
    assert cost(failed(code=75), failure_policy=codes) == "retry"
    assert cost(failed(code=75), failure_policy=codes, on_failure=(rule(75, "Fatal"),)) == "fatal"
    assert cost(failed(code=42), on_failure=(rule(42, "Retry"),)) == "retry"


def rule(code: int, cost: Any) -> FailureRule:
    return FailureRule(match=Match(exit_codes=(code,)), next=Next(cost=cost))


@pytest.mark.parametrize(
    "pod",
    [
        failed(code=1, container="wait"),
        failed(code=143, container="init", exits=()),
        failed(code=1, reason="DeadlineExceeded"),
    ],
)
def test_what_is_neither_disruption_nor_bug_costs_a_retry(pod: Pod) -> None:
    assert cost(pod) == "retry"


def test_argo_grants_no_retry_once_there_were_as_many_attempts_as_retries() -> None:
    pod = failed(code=1, container="wait")
    assert cost(pod, Spent(retries=0, disruptions=2, budget=3)) == "retry"
    assert cost(pod, Spent(retries=0, disruptions=3, budget=3)) == "fatal"


def test_without_an_injected_expression_argo_charges_a_retry_for_whatever_ended_a_pod() -> None:
    for pod in (failed(code=1), disrupted(code=143)):
        assert cost(pod, failure_policy=FailurePolicy(inject="Never")) == "retry"


def test_a_disruption_costs_what_the_profile_says() -> None:
    fatal = FailureRule(match=Match(cause="Disruption"), next=Next(cost="Fatal"))
    assert cost(disrupted(code=143), disruptions=Disruptions(action="Count")) == "retry"
    assert cost(disrupted(code=143), on_failure=(fatal,)) == "fatal"


@pytest.mark.parametrize(
    ("root", "ended"),
    [
        ({"status": {"phase": "Running"}, "spec": {}}, False),
        ({"spec": {"suspend": True}}, False),  # its pods run on
        ({"status": {"phase": "Error"}, "spec": {}}, True),
        ({"spec": {"shutdown": "Terminate"}}, True),
        ({"status": {"phase": []}, "spec": {}}, False),
    ],
)
def test_a_workflow_has_ended_by_its_phase_or_if_it_is_told_to(root: Any, *, ended: bool) -> None:
    assert argo.has_ended(root) is ended


def test_a_workflow_is_stopped_with_its_exit_handlers_and_suspended_as_by_argo() -> None:
    root = {"metadata": {"namespace": "ml", "name": "train", "resourceVersion": "7"}, "spec": {}}
    written = [argo.fail(root, failed(), "", ""), argo.suspend(root)]
    assert [(write.path, write.operations[-1]) for write in written] == [
        (WORKFLOW.path("ml", "train"), {"op": "add", "path": "/spec/shutdown", "value": "Stop"}),
        (WORKFLOW.path("ml", "train"), {"op": "add", "path": "/spec/suspend", "value": True}),
    ]
