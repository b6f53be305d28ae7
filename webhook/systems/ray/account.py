"""RayJobs: the scopes are `head` and `worker/GROUP`. Source: ray-operator/controllers/ray of KubeRay 1.6.2.

A run that fails costs a retry, and the next one has a new RayCluster. Which of its pods have ended says little: KubeRay
replaces a lost worker, and Ray repeats its work. It also replaces a lost head and submits the job again, which costs
nothing either, except in SidecarMode, in which the head has the submitter. Nothing outside ends a RayJob as failed:
one that is suspended waits, and one that is deleted has no account. The exit code of the job is on no pod.
"""

from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods.outcomes import was_killed
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems import kueue
from webhook.systems.ray import spec as ray
from webhook.systems.ray.spec import HEAD
from webhook.systems.system import Spent, System, Write, set_in_spec

SUBMITTER: Final = "ray-job-submitter"  # the container that KubeRay adds to the head in SidecarMode
ENDED: Final = frozenset({"Complete", "Failed", "ValidationFailed", "Suspending", "Suspended"})


def _cost_of(pod: Pod, root: Json, _spent: Spent, _settings: Settings) -> AttemptCost:
    """Return what the end of a pod cost. KubeRay deletes all pods of a run that has failed; the head has that cost."""
    if was_killed(pod):
        has_failed = (at(root, ("status", "failed")) or 0) > (pod.attempt or 0)
        return "retry" if pod.scope == HEAD and has_failed else "none"
    if pod.scope != HEAD:
        return "free"
    if any(one.container == SUBMITTER for one in pod.exits):
        return "retry"
    return "free" if pod.disruption is None else "disruption"


def _has_ended(root: Json) -> bool:
    return at(root, ("status", "jobDeploymentStatus")) in ENDED or bool(at(root, ("spec", "suspend")))


def _suspend(root: Json) -> Write | None:
    """Return the write that suspends a RayJob; None if KubeRay would end it as not valid, or Kueue resume it."""
    if not ray.may_be_suspended(root["spec"]) or kueue.is_queued(root["metadata"]):
        return None
    return set_in_spec(ray.RAY_JOB, root, "suspend", value=True)


RAY_JOB: Final = System(
    kind=ray.RAY_JOB,
    unit="group",
    cost_of=_cost_of,
    has_ended=_has_ended,
    suspend=_suspend,
    writes={("suspend",): (True,)},
    is_single=lambda scope: scope == HEAD,
)
SYSTEMS: Final = (RAY_JOB,)
