"""What must be looked up before the rules run."""

import msgspec

from webhook.capacity import Pool, Provider
from webhook.objects.problem import Json


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the shell looked up before the rules run.

    `profile_name` and `mode`: what the namespace's labels say; no profile is not opted in, no mode is Enforce. `owner`:
    the object that `Subject.owner` names, None where there is none; `owners_known`: whether it was looked up. `above`:
    the controller of a pod's owner, where it counts attempts too. `disruptions` and `failures`: what the ledger has
    counted for this pod, None where it knows nothing. `recognised`: the cluster's capacity provider, None where none
    was. `pools`: its node pools, none where they tell nothing. `defaulted`: whether the object comes from the API, or a
    file. `message_patterns`: whether JobSets have onJobFailureMessagePatterns; `restart_job`: whether they have the
    action RestartJob. `runtime_patches`: whether TrainJobs have that field, None where nobody knows.
    `requested_retries`: whether a retry can be asked for by an annotation. `ledger`: whether the ledger counts failures
    and acts on them.
    """

    profile_name: str | None
    mode: str | None = None
    owner: Json | None = None
    owners_known: bool = False
    above: Json | None = None
    disruptions: int | None = None
    failures: int | None = None
    recognised: Provider | None = None
    pools: tuple[Pool, ...] = ()
    defaulted: bool = True
    message_patterns: bool = True
    runtime_patches: bool | None = None
    restart_job: bool = True
    requested_retries: bool = True
    ledger: bool = True
