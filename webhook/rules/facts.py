"""The facts that must be looked up before the rules run."""

from typing import Final

import msgspec

from webhook.capacity import Pool, Provider
from webhook.kube.state_key import StateKey
from webhook.objects.problem import Json
from webhook.pods.faulty_nodes import FaultyNodes
from webhook.pods.pods import Pod
from webhook.pods.rejections import Rejections
from webhook.pods.waves import Waves
from webhook.pods.work_history import WorkHistory
from webhook.policy.settings import Settings
from webhook.rules.pods.memory_bounds import Restrictions
from webhook.rules.pods.on_time import SavedWork

NO_RESTRICTIONS: Final = Restrictions()
NO_WORK: Final = SavedWork()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that the caller has looked up for one request, and those about the cluster."""

    # The labels of the namespace; None if absent. Without a profile it is not opted in; without a mode it is Enforce.
    profile_name: str | None
    mode: str | None = None

    # The object that Subject.owner names, None if it does not exist; and whether the owner of a Job was looked up.
    owner: Json | None = None
    owners_known: bool = False
    above: Json | None = None  # the controller of a pod's owner, if it counts attempts too

    # The ledger's counts for this pod, as in webhook/tracking/admission_counts.py; None if they are unknown.
    disruptions: int | None = None
    failures: int | None = None
    ended: tuple[Pod, ...] = ()
    spot_unavailable: bool = False
    saved_work: SavedWork = NO_WORK

    # How long the work of earlier Jobs has taken; None if that is unknown.
    work_history: WorkHistory | None = None

    # The zones that lose their spot pods; None if they are unknown.
    waves: Waves | None = None

    # The nodes that reject pods and whose hardware ends them, None if they are unknown; and how many nodes there are.
    rejections: Rejections | None = None
    faulty_nodes: FaultyNodes | None = None
    nodes: int = 0

    # Proves what the webhook writes on a pod; None if nothing reads it again.
    state_key: StateKey | None = None

    # What bounds the memory of the pods of the namespace; looked up only for a pod whose memory may grow.
    restrictions: Restrictions = NO_RESTRICTIONS

    # When the request came, in seconds since 1970; 0 if there is no clock.
    now: float = 0.0

    # The cluster's capacity provider, None if none was recognised, and the known node pools.
    recognised: Provider | None = None
    pools: tuple[Pool, ...] = ()

    defaulted: bool = True  # whether the API server has defaulted the object; False for a file
    message_patterns: bool = True  # whether the CRD of JobSets has onJobFailureMessagePatterns
    restart_job: bool = True  # whether the CRD of JobSets has the action RestartJob
    runtime_patches: bool | None = None  # whether the CRD of TrainJobs has the field; None if that is unknown
    requested_retries: bool = True  # whether an annotation can request a retry
    ledger: bool = True  # whether the ledger counts failures and acts on them

    def bounds_retries(self, settings: Settings) -> bool:
        """Return True if a leader counts the retries of an object with an account, and ends it after the last one."""
        profile = settings.profile
        return self.ledger and profile.actions == "Act" and profile.failure_policy.inject != "Never"
