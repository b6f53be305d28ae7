"""Flyte 1: the scope is a node of a FlyteWorkflow.

Source: flyteplugins/go/tasks/pluginmachinery/flytek8s/pod_helper.go of Flyte 1.16.8: DemystifyFailure. A pod that a
SIGKILL, the shutdown of its node or nothing that its status names has ended, and one that is gone, is a failure of the
system to Flyte: it costs none of the node's retries, but one of propeller's own (max-node-retries-system-failures, 3 by
default), unless ignore-retry-cause is on, which no object says. A pod that used too much memory, and one whose status
has another reason, such as Evicted, costs a retry of the node. After a failure of the program flytekit lets the pod
succeed, so that nothing is counted.

Propeller writes the whole FlyteWorkflow as it has read it, and fails if somebody else wrote it. So nothing outside may
end or suspend it.
"""

from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods.outcomes import OOM
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems.flyte import spec as flyte
from webhook.systems.system import Spent, System

# Reasons in the status of a pod that Flyte takes for the end of its node (retryableStatusReasons).
OF_NODES: Final = frozenset({"", "Shutdown", "Terminated", "NodeShutdown", "NodeAffinity"})
# In status.phase: Success, Failing, Failed, Aborted (flytepropeller/pkg/apis/flyteworkflow/v1alpha1/iface.go).
ENDED: Final = frozenset({3, 4, 5, 6})
ANY: Final = "/*"  # ends the scope of a pod whose name does not tell its node apart from others


def _cost_of(pod: Pod, _root: Json, _spent: Spent, _settings: Settings) -> AttemptCost:
    if any(one.reason == OOM for one in pod.exits) or pod.reason not in OF_NODES:
        return "retry"
    return "free" if pod.disruption is None else "disruption"


def _has_ended(root: Json) -> bool:
    return at(root, ("status", "phase")) in ENDED


FLYTE_WORKFLOW: Final = System(
    kind=flyte.FLYTE_WORKFLOW,
    unit="node",
    cost_of=_cost_of,
    has_ended=_has_ended,
    is_single=lambda scope: not scope.endswith(ANY),
    knows_retries=False,
)
SYSTEMS: Final = (FLYTE_WORKFLOW,)
