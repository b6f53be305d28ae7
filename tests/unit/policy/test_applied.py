"""What of a profile is kept on a workload acts as the profile does."""

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


def test_what_is_kept_of_a_profile_gives_one_that_acts_alike() -> None:
    for profile in (Profile(), OTHER):
        kept = msgspec.json.decode(msgspec.json.encode(applied(profile)), type=Applied)
        assert profile_of(kept, profile.failure_policy.retriable_exit_codes) == profile


def test_defaults_are_written_too_since_another_version_may_have_other_ones() -> None:
    assert msgspec.json.decode(msgspec.json.encode(applied(Profile())))["disruptions"] == {
        "action": "Ignore",
        "limit": 1,
        "onExceed": "OnDemand",
    }
