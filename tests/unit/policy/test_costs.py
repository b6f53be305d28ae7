"""What the rules of onFailure cost, and which of them a podFailurePolicy can see."""

import pytest

from webhook.policy import costs
from webhook.policy.model import Disruptions, FailureRule, Match, Next, Profile
from webhook.policy.settings import resolve


def rule(match: Match, cost: costs.Cost | None = None) -> FailureRule:
    return FailureRule(match=match, next=Next(cost=cost))


@pytest.mark.parametrize(
    ("match", "sure"),
    [
        (Match(exit_codes=(75, 137)), {75, 137}),
        (Match(exit_codes=(75, 137), cause="ExitCode"), {75}),
        (Match(exit_codes=(75,), message="*"), set()),
        (Match(exit_codes=(75,), same_node=2), set()),
        (Match(exit_codes=(75,), reasons=("Error",)), set()),
        (Match(cause="Disruption"), set()),
    ],
)
def test_exit_codes_are_enough_for_a_match_that_names_nothing_else(match: Match, sure: set[int]) -> None:
    assert costs.sure_codes(match) == sure


@pytest.mark.parametrize(
    ("match", "unsure"),
    [
        (Match(exit_codes=(75,)), set()),
        (Match(cause="OOMKilled"), {137}),
        (Match(exit_codes=(1, 2), message="*NCCL*"), {1, 2}),
        (Match(message="*NCCL*"), None),
        (Match(same_node=2), None),
        (Match(cause="ExitCode"), None),
        (Match(cause="DeadlineExceeded"), None),
        (Match(cause="Disruption"), set()),
        (Match(cause="NeverStarted"), set()),
    ],
)
def test_what_only_the_ledger_sees_may_be_behind_these_exit_codes(match: Match, unsure: set[int] | None) -> None:
    assert costs.unsure_codes(match) == unsure


def test_an_earlier_rule_with_another_cost_leaves_its_exit_codes_to_the_ledger() -> None:
    fatal, nccl = (
        rule(Match(exit_codes=(1, 2)), "Fatal"),
        Match(exit_codes=(1,), message="*NCCL*", containers=("main",)),
    )
    assert costs.left_to_ledger([rule(nccl)], fatal, None) == {1}
    assert costs.left_to_ledger([rule(nccl)], fatal, "side") == set()
    assert costs.left_to_ledger([rule(nccl, "Fatal")], fatal, None) == set()


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ([rule(Match(cause="Disruption"), "Retry")], "Count"),
        ([rule(Match(cause="Disruption"), "Free")], "Ignore"),
        ([rule(Match(cause="Disruption"), "Fatal")], "FailJob"),
        ([rule(Match(cause="Disruption"))], "Ignore"),
        ([rule(Match(exit_codes=(137,)), "Fatal")], "Ignore"),
        ([rule(Match(cause="Disruption"), "Fatal"), rule(Match(cause="Disruption"), "Retry")], "FailJob"),
        ([rule(Match(cause="Disruption", reasons=("A",))), rule(Match(cause="Disruption"), "Fatal")], "Ignore"),
    ],
)
def test_the_first_rule_about_all_disruptions_says_what_they_cost(rules: list[FailureRule], action: str) -> None:
    assert costs.disruption_action(rules, "Ignore") == action


def test_an_author_who_turns_the_rules_off_has_the_profile_for_disruptions() -> None:
    rules = (rule(Match(cause="Disruption"), "Fatal"),)
    profile = Profile(disruptions=Disruptions(action="Count"), on_failure=rules)
    off = {"retry-policy.dev/on-failure": "Off"}
    assert [resolve("default", profile, said).disruption_action for said in ({}, off)] == ["FailJob", "Count"]


def test_the_ledger_is_needed_for_what_the_api_cannot_see_and_for_fatal_rules() -> None:
    assert not costs.needs_ledger([rule(Match(exit_codes=(75,)), "Free"), rule(Match(cause="Disruption"))])
    assert costs.needs_ledger([rule(Match(exit_codes=(42,)), "Fatal")])
    assert costs.needs_ledger([rule(Match(cause="OOMKilled"))])
