"""The part of a profile that is stored on a workload has the same effect as the profile."""

import msgspec

from webhook.policy.applied import Applied, AppliedRule, applied, applied_rules, failed_for_job_wide, profile_of
from webhook.policy.model import (
    Disruptions,
    Duration,
    FailurePolicy,
    FailureRule,
    JobWide,
    Match,
    Next,
    Placement,
    Profile,
    Retries,
)

OTHER = Profile(
    retries=Retries(limit=2, default=2),
    failure_policy=FailurePolicy(
        inject="IfAbsent",
        coupled="Retry",
        unknown_exit="Confirm",
        settle_within=Duration(5),
        retriable_exit_codes=(7, 9),
    ),
    disruptions=Disruptions(action="Count", limit=4, on_exceed="Fail"),
    placement=Placement(interruptible_failure_threshold=2, spot="Require"),
)


def test_a_profile_stored_on_a_workload_is_read_back_with_the_same_values() -> None:
    for profile in (Profile(), OTHER):
        stored = msgspec.json.decode(msgspec.json.encode(applied(profile)), type=Applied)
        assert profile_of(stored, profile.failure_policy.retriable_exit_codes) == profile


def test_how_many_failed_indexes_end_a_job_is_stored_where_a_bug_ends_its_index() -> None:
    for policy, failed in (
        (FailurePolicy(), None),
        (FailurePolicy(many_pods="Index", job_wide=JobWide(failed=7)), 7),
        (FailurePolicy(many_pods="Auto", job_wide=None), None),
    ):
        read = profile_of(applied(Profile(failure_policy=policy)), ()).failure_policy
        assert failed_for_job_wide(read) == failed_for_job_wide(policy) == failed


def test_default_values_are_stored_too_because_another_version_may_have_others() -> None:
    assert msgspec.json.decode(msgspec.json.encode(applied(Profile())))["disruptions"] == {
        "action": "Ignore",
        "limit": 1,
        "onExceed": "OnDemand",
    }


def test_of_the_rules_about_ended_attempts_the_match_and_the_cost_are_stored() -> None:
    rules = (
        FailureRule(match=Match(cause="ExitCode", exit_codes=(75,), containers=("main",)), next=Next(cost="Free")),
        FailureRule(match=Match(message="*NCCL*", same_node=2), next=Next(avoid="Node")),
    )
    stored = msgspec.json.encode(applied_rules(Profile(on_failure=rules)))
    assert len(stored) < 160
    read = msgspec.json.decode(stored, type=tuple[AppliedRule, ...])
    found = profile_of(applied(Profile()), (143,), read).on_failure
    assert [rule.match for rule in found] == [rule.match for rule in rules]
    assert [rule.next for rule in found] == [Next(cost="Free"), Next()]
