"""What `emergency.retries: Stop` changes for objects that are created or changed while it lasts.

Only admission applies it. The ledger judges what runs already by the profile as it is written: an emergency must not
end work that was admitted before it. And only /mutate lowers numbers: replicas learn of the switch some milliseconds
apart, so /validate must not deny what another replica has just edited under the policy before.
"""

from typing import Final

from msgspec.structs import replace

from webhook.policy.model import Policy, Profile

MESSAGE: Final = "New retries are stopped in the whole cluster for now (emergency.retries of the policy)."


def profile_to_edit(policy: Policy, name: str) -> Profile:
    """Return a profile for /mutate; while retries are stopped, with a limit of 0, to which all numbers are lowered.

    They are lowered even if the profile denies more than its limit: Jobs of a CronJob or of a pipeline have to run.
    """
    profile = policy.profiles[name]
    if policy.emergency.retries == "Run":
        return profile
    retries = replace(profile.retries, limit=0, on_exceed="Clamp")
    return replace(profile, retries=retries, message=MESSAGE)


def profile_to_judge(policy: Policy, name: str) -> Profile:
    """Return a profile for /validate; while retries are stopped, it keeps the limit as it is written."""
    profile = policy.profiles[name]
    if policy.emergency.retries == "Run":
        return profile
    return replace(profile, retries=replace(profile.retries, on_exceed="Clamp"), message=MESSAGE)
