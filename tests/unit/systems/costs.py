"""What the end of a pod costs by its System."""

from typing import Final

from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile
from webhook.systems.system import Spent, System

SPENT: Final = Spent(retries=0, disruptions=0, budget=2)
EVICTED: Final = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
DELETED: Final[Json] = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 0}


def cost_by(system: System, pod: Pod, root: Json, spent: Spent = SPENT) -> AttemptCost:
    """Return what the end of a pod cost that is of no Job, under the default profile."""
    assert system.cost_of is not None
    return system.cost_of(pod, root, spent, NamedProfile("default", Profile()).settings({}))
