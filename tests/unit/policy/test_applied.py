"""The part of a profile that is stored on a workload has the same effect as the profile."""

import msgspec

from webhook.policy.applied import Applied, applied, profile_of
from webhook.policy.model import Disruptions, Duration, FailurePolicy, Placement, Profile, Retries

OTHER = Profile(
    retries=Retries(limit=2, default=2),
    failure_policy=FailurePolicy(
        inject="IfAbsent", coupled="Retry", settle_within=Duration(5), retriable_exit_codes=(7, 9)
    ),
    disruptions=Disruptions(action="Count", limit=4, on_exceed="Fail"),
    placement=Placement(interruptible_failure_threshold=2, spot="Require"),
)


def test_a_profile_stored_on_a_workload_is_read_back_with_the_same_values() -> None:
    for profile in (Profile(), OTHER):
        stored = msgspec.json.decode(msgspec.json.encode(applied(profile)), type=Applied)
        assert profile_of(stored, profile.failure_policy.retriable_exit_codes) == profile


def test_default_values_are_stored_too_because_another_version_may_have_others() -> None:
    assert msgspec.json.decode(msgspec.json.encode(applied(Profile())))["disruptions"] == {
        "action": "Ignore",
        "limit": 1,
        "onExceed": "OnDemand",
    }
