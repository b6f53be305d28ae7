"""Argo Workflows: the scope is a node. Source: workflow/controller of Argo Workflows 3.7.3.

Argo sees no condition of a pod. What an end costs follows from the message that Argo gives the node (inferFailedReason
in operator.go), by which the expression decides that admission injects (webhook/systems/argo/rules.py): a container
that SIGTERM or SIGKILL ended, other than for its memory, counts as disrupted, as does a pod that was deleted. Argo has
one counter for both: a retry is granted while there were fewer attempts than retries, whatever ended them.
"""

from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods.outcomes import OOM, was_killed
from webhook.pods.pods import Exit, Pod
from webhook.policy import costs
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems.argo import spec as argo
from webhook.systems.core import SIGNALLED
from webhook.systems.system import Spent, System, Write, set_in_spec

EXECUTOR: Final = frozenset({"init", "wait"})  # containers of Argo: if one of them fails, the node has an error
MAIN: Final = "main"


def cost_of(pod: Pod, _root: Json, spent: Spent, settings: Settings) -> AttemptCost:
    """Return what the end of a pod cost; without an injected expression, each one costs a retry."""
    if settings.skip or settings.profile.failure_policy.inject == "Never":
        return "retry"
    failed = min(pod.exits, key=_rank, default=None)  # its end is the message of the node
    if pod.disruption is not None or was_killed(pod) or _is_signalled(pod, failed):
        match settings.disruption_action:
            case "Ignore":
                return "disruption"
            case "Count":
                return "retry"
        return "fatal"
    codes = costs.retriable_codes(settings.on_failure, settings.profile.failure_policy.retriable_exit_codes)
    if failed is not None and failed.container not in EXECUTOR and not pod.reason and failed.code not in codes:
        return "fatal"
    return "retry" if spent.retries + spent.disruptions < spent.budget else "fatal"


def _rank(ended: Exit) -> int:
    """Return the rank of a failed container: the lowest gives a node its message."""
    if ended.container == "init":
        return 0
    if ended.container == MAIN:
        return 1
    return 2 if ended.container not in EXECUTOR else 3


def _is_signalled(pod: Pod, failed: Exit | None) -> bool:
    """Return True if a signal ended a container, other than for its memory or because the pod ran for too long."""
    return failed is not None and failed.code in SIGNALLED and failed.reason != OOM and not pod.reason


def has_ended(root: Json) -> bool:
    """Return True if a Workflow has ended, or is told to."""
    phase = at(root, ("status", "phase"))
    return (isinstance(phase, str) and phase in argo.ENDED) or bool(at(root, ("spec", "shutdown")))


def fail(root: Json, _pod: Pod | None, _reason: str, _message: str) -> Write:
    """Return the write that ends a Workflow, with its exit handlers."""
    return set_in_spec(argo.WORKFLOW, root, "shutdown", value="Stop")


def suspend(root: Json) -> Write:
    """Return the write that starts no further pods of a Workflow."""
    return set_in_spec(argo.WORKFLOW, root, "suspend", value=True)


WORKFLOW: Final = System(
    kind=argo.WORKFLOW,
    unit="step",
    cost_of=cost_of,
    has_ended=has_ended,
    fail=fail,
    suspend=suspend,
    writes={("shutdown",): ("Stop",), ("suspend",): (True,)},
    scopes_end_alone=True,
)
SYSTEMS: Final = (WORKFLOW,)
