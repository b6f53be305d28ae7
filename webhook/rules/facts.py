"""What must be looked up before the rules run."""

import msgspec

from webhook.capacity import Pool, Provider
from webhook.objects.problem import Json


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller has looked up for one request, and what it knows of the cluster."""

    # Labels of the namespace. Without a profile it is not opted in; an absent mode means Enforce.
    profile_name: str | None
    mode: str | None = None

    # The object that Subject.owner names, None where it does not exist, and whether it was looked up.
    owner: Json | None = None
    owners_known: bool = False
    above: Json | None = None  # the controller of a pod's owner, where it counts attempts too

    # What the ledger has counted for this pod, None where it has no account.
    disruptions: int | None = None
    failures: int | None = None

    # The cluster's capacity provider, None where none was recognised, and the node pools that are known.
    recognised: Provider | None = None
    pools: tuple[Pool, ...] = ()

    defaulted: bool = True  # whether the API server has defaulted the object; False for a file
    message_patterns: bool = True  # whether the CRD of JobSets has onJobFailureMessagePatterns
    restart_job: bool = True  # whether the CRD of JobSets has the action RestartJob
    runtime_patches: bool | None = None  # whether the CRD of TrainJobs has that field, None where that is unknown
    requested_retries: bool = True  # whether an annotation can request a retry
    ledger: bool = True  # whether the ledger counts failures and acts on them
