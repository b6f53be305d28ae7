"""What `emergency.retries: Stop` changes for objects that are created or changed while it lasts.

Only admission applies it. The ledger judges what runs already by the profile as it is written: an emergency must not
end work that was admitted before it.
"""

from typing import Final

from msgspec.structs import replace

from webhook.policy.model import Policy, Profile

MESSAGE: Final = "New retries are stopped in the whole cluster for now (emergency.retries of the policy)."


def profile_for_admission(policy: Policy, name: str) -> Profile:
    """Return a profile of the policy; while retries are stopped, with a limit of 0, to which all numbers are lowered.

    They are lowered even if the profile denies more than its limit: Jobs of a CronJob or of a pipeline have to run.
    """
    profile = policy.profiles[name]
    if policy.emergency.retries == "Run":
        return profile
    retries = replace(profile.retries, limit=0, on_exceed="Clamp")
    return replace(profile, retries=retries, message=MESSAGE)
