"""What the end of a pod costs by its System."""

from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems.system import Spent, System


def cost_by(system: System, pod: Pod, root: Json, spent: Spent, settings: Settings) -> AttemptCost:
    """Return what the end of a pod cost that is of no Job."""
    assert system.cost_of is not None
    return system.cost_of(pod, root, spent, settings)
