"""What `explain` says about the next failure of a workload of another kind than Job and JobSet."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.explain.workflows import explain, pod, workflow
from webhook.accounts.account import Account
from webhook.explain.next_failure import MOST_NAMED
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.applied import applied
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.model import Disruptions, FailurePolicy, FailureRule, Match, Next, Profile
from webhook.policy.settings import Settings
from webhook.systems.accounts import SYSTEMS
from webhook.systems.argo import spec as argo
from webhook.systems.system import Spent, System

PROFILE = Profile(disruptions=Disruptions(limit=2), failure_policy=FailurePolicy(retriable_exit_codes=(137, 143)))


def cost_of(pod: Pod, _metadata: Json, _spent: Spent, settings: Settings) -> AttemptCost:
    if pod.disruption is not None:
        return "disruption"
    codes = settings.profile.failure_policy.retriable_exit_codes
    return "retry" if all(one.code in codes for one in pod.exits) else "fatal"


ARGO = SYSTEMS[argo.WORKFLOW]
FAST = replace(ARGO, cost_of=cost_of)  # its own words end a node after a bug
SLOW = replace(FAST, cost_of=lambda *_: "retry", ends_bugs=True)  # the leader ends it
HELPLESS = replace(SLOW, ends_bugs=False)  # nothing tells a bug from another end


def told(root: Json, *pods: Json, system: System = FAST) -> list[str]:
    return explain(system, root, pods).next


def test_each_way_to_fail_is_told_with_its_cost_and_what_is_left() -> None:
    assert told(workflow(profile=PROFILE), pod("build")) == [
        "a disruption: costs no retry; then 1 disruption left",
        "exit code 137, 143: costs a retry; then 2 retries left",
        "any other exit code: ends the step at once",
    ]


def test_a_bug_that_the_leader_ends_is_told_like_one_that_the_system_ends() -> None:
    assert told(workflow(profile=PROFILE), pod("build"), system=SLOW) == [
        "a disruption: costs a retry; then 2 retries left",
        "exit code 137, 143: costs a retry; then 2 retries left",
        "any other exit code: ends the step at once",
    ]


def test_exit_codes_that_all_cost_the_same_are_one_line() -> None:
    assert told(workflow(profile=PROFILE), pod("build"), system=HELPLESS) == [
        "a disruption: costs a retry; then 2 retries left",
        "any exit code: costs a retry; then 2 retries left",
    ]


def test_without_a_retry_left_any_failure_ends_the_node() -> None:
    root = workflow(profile=PROFILE)
    assert told(root, pod("build", limit=0))[1] == "exit code 137, 143: ends the step; no retry is left"


def test_without_a_retry_left_nothing_ends_where_the_leader_alone_would_and_only_reports() -> None:
    root = workflow(profile=msgspec.structs.replace(PROFILE, actions="Report"))
    unbounded = replace(SLOW, bounded=False)
    assert told(root, pod("build", limit=0), system=unbounded) == [
        "a disruption: costs a retry; then 0 retries left",
        "any exit code: costs a retry; then 0 retries left",
    ]
    assert told(root, pod("build", limit=0), system=SLOW)[1] == "any exit code: ends the step; no retry is left"


def test_nodes_for_which_a_failure_does_the_same_are_told_together() -> None:
    account = Account()
    account.spend_retry("build", "", None)
    lines = told(workflow(account, PROFILE), pod("build", 1), pod("test"), pod("lint"))
    assert [line for line in lines if line.startswith("exit code")] == [
        "exit code 137, 143 of step build: costs a retry; then 1 retry left",
        "exit code 137, 143 of step lint, test: costs a retry; then 2 retries left",
    ]


def test_of_thousands_of_nodes_the_first_are_named() -> None:
    account = Account()
    account.spend_retry("build", "", None)
    lines = told(workflow(account, PROFILE), pod("build", 1), *(pod(f"n{number}") for number in range(3_000)))
    assert len(lines) == 6
    assert lines[-1].endswith(f"and {3_000 - MOST_NAMED} others: ends the step at once")


@pytest.mark.parametrize(
    ("on_exceed", "line"),
    [
        ("Fail", "a disruption: ends the Workflow: disruptions exceed the limit of 2"),
        ("Suspend", "a disruption: suspends the Workflow: disruptions exceed the limit of 2"),
    ],
)
def test_a_disruption_beyond_the_limit_does_what_the_profile_says(on_exceed: str, line: str) -> None:
    account = Account()
    account.scopes.add("build")
    account.scopes.add("build")
    disruptions = Disruptions(limit=2, on_exceed=on_exceed)  # type: ignore[arg-type]
    profile = Profile(disruptions=disruptions)
    assert told(workflow(account, profile), pod("build"))[0] == line


def test_a_limit_does_not_end_a_workload_whose_scope_has_many_pods() -> None:
    account = Account()
    for _ in range(3):
        account.scopes.add("build")
    many = replace(FAST, is_single=lambda _: False)
    assert told(workflow(account, PROFILE), pod("build"), system=many)[0] == (
        "a disruption: costs no retry; then 0 disruptions left"
    )


def test_where_nothing_is_injected_no_exit_code_is_a_bug() -> None:
    profile = Profile(failure_policy=FailurePolicy(inject="Never", retriable_exit_codes=(137,)))
    assert told(workflow(profile=profile), pod("build"), system=SLOW)[1] == (
        "any exit code: costs a retry; then 2 retries left"
    )


def test_nothing_is_foretold_without_a_recorded_profile_or_after_the_end() -> None:
    assert told(workflow(), pod("build")) == []
    assert told(workflow(profile=PROFILE, phase="Failed"), pod("build")) == []


def test_the_result_for_programs_says_what_ends() -> None:
    following = explain(FAST, workflow(profile=PROFILE), [pod("build")]).forecasts
    assert [(one.forecast.cost, one.forecast.ends) for one in following] == [
        ("disruption", ""),
        ("retry", ""),
        ("fatal", "scope"),
    ]


def test_a_fatal_rule_of_on_failure_is_told_with_its_number() -> None:
    rule = FailureRule(match=Match(cause="OOMKilled"), next=Next(cost="Fatal"))
    lines = told(workflow(profile=msgspec.structs.replace(PROFILE, on_failure=(rule,))), pod("build"))
    assert lines[1] == "OOMKilled: ends the step at once (rule 0 of onFailure)"
    assert lines[2] == "exit code 137, 143: costs a retry; then 2 retries left"


def test_by_the_account_alone_the_exit_codes_that_the_policy_retries_are_not_named() -> None:
    lines = told(workflow(Account(applied=applied(PROFILE))), pod("build"))
    assert lines == [
        "a disruption: costs no retry; then 1 disruption left",
        "an exit code that the policy retries: costs a retry; then 2 retries left",
        "any other exit code: ends the step at once",
    ]


@pytest.mark.parametrize(
    ("fail", "line"),
    [
        (ARGO.fail, "ends the Workflow: free restarts exceed the limit of 10"),
        (lambda *_: None, "costs no retry"),  # such as a RayJob: nothing outside can end it
    ],
)
def test_a_free_restart_beyond_the_limit_ends_a_workload_that_the_leader_can_end(fail: Any, line: str) -> None:
    account = Account()
    for _ in range(10):
        account.free.add("build")
    free = replace(FAST, cost_of=lambda *_: "free", fail=fail)
    assert told(workflow(account, PROFILE), pod("build"), system=free)[0] == f"a disruption: {line}"


def test_a_bug_does_not_end_what_the_leader_cannot_end() -> None:
    helpless = replace(SLOW, fail=lambda *_: None)
    assert told(workflow(profile=PROFILE), pod("build"), system=helpless)[1] == (
        "any exit code: costs a retry; then 2 retries left"
    )
