"""The part of a profile that is stored on a workload has the same effect as the profile."""

import msgspec
from msgspec import inspect

from tools.generate.docs import fields
from webhook.objects.patch import at
from webhook.policy.applied import Applied, AppliedRule, applied, applied_rules, failed_for_job_wide, profile_of
from webhook.policy.model import (
    Deadlines,
    Disruptions,
    Duration,
    FailurePolicy,
    FailureRule,
    Hardware,
    JobWide,
    Match,
    Next,
    Placement,
    Profile,
    RequestedRetry,
    Retries,
)

OTHER = Profile(
    retries=Retries(limit=2, default=2, per=Duration(60), renew_on_progress=True),
    failure_policy=FailurePolicy(
        inject="IfAbsent",
        coupled="Retry",
        unknown_exit="Confirm",
        settle_within=Duration(5),
        retriable_exit_codes=(7, 9),
        hardware=Hardware(),
        many_pods="Auto",
        job_wide=JobWide(failed=7),
    ),
    disruptions=Disruptions(action="Count", limit=4, on_exceed="Fail", per=Duration(60)),
    deadline=Deadlines(factor=2.0, limit=3.0, start=Duration(5)),
    placement=Placement(interruptible_failure_threshold=2, spot="Require"),
    requested_retry=RequestedRetry(placement="OnDemand"),
    actions="Report",
)
# Fields of a profile that are stored apart from Applied, and those that decide nothing which `explain` foretells.
APART = {"failurePolicy.retriableExitCodes", "onFailure"}
NOT_STORED = {
    *("retries.total", "retries.onExceed", "retries.default"),  # admission wrote the retries into the object
    *("failurePolicy.onFailureRestartPolicy", "failurePolicy.absentRestartPolicy"),  # so it did with these
    *("backOff.perIndex", "backOff.disruptions", "backOff.singlePod", "jobSet.onDisruption"),
    *("attemptTimeout", "environment", "allowSkip", "message"),
    *("placement.provider", "placement.custom", "placement.protect", "placement.roles"),  # where the next pod runs
    *("placement.wave", "placement.badNodes"),
    *("placement.spotWait", "startTimeout", "unreachableTimeout", "stallTimeout"),  # when the leader ends a pod
    *("kueue.evictions.limit", "kueue.evictions.onExceed"),
    *("requestedRetry.retryable", "diagnostics.lastWords"),  # what the leader does, and keeps
}


def test_a_profile_stored_on_a_workload_is_read_back_with_the_same_values() -> None:
    for profile in (Profile(), OTHER):
        stored = msgspec.json.decode(msgspec.json.encode(applied(profile)), type=Applied)
        assert profile_of(stored, profile.failure_policy.retriable_exit_codes) == profile


def test_the_profile_that_is_read_back_above_has_another_value_in_each_field_that_is_stored() -> None:
    default, other = applied(Profile()), applied(OTHER)
    same = {name for name in Applied.__struct_fields__ if getattr(default, name) == getattr(other, name)}
    assert same == set(), "give OTHER in this file another value"


def test_each_field_of_a_profile_is_stored_or_said_not_to_be() -> None:
    paths = {path: tuple(path.split(".")) for path, _ in fields(inspect.type_info(Profile), "")}
    default, read = (msgspec.to_builtins(one, enc_hook=int) for one in (Profile(), profile_of(applied(OTHER), ())))
    stored = {path for path, keys in paths.items() if at(read, keys) != at(default, keys)}
    assert paths.keys() - stored - APART - NOT_STORED == set(), (
        "if the ledger or explain decides by it, store it: webhook/policy/applied.py; else add it to a set above"
    )
    assert paths.keys() >= APART | NOT_STORED


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
