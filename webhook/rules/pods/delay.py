"""Holds a pod back by a scheduling gate until the delay is over that a rule of onFailure asks for.

Reads:
    the ended attempts of the pod's index or Job (webhook/pods/on_failure.py)
Reads and writes:
    spec.schedulingGates

The leader removes the gate (webhook/controller/waiting.py). The Job controller's own back-off, by the annotation with
the failures of an index, cannot be a rule's delay: it depends on a number that a pod gets before it is known how it
ends.
"""

from typing import TYPE_CHECKING, Final

from webhook.kube import names
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Path, Problem
from webhook.objects.times import seconds
from webhook.pods.on_failure import FailureState
from webhook.rules.rule import Rule, in_pods

if TYPE_CHECKING:
    from webhook.rules.contexts import PodContext

GATES: Final[Path] = ("spec", "schedulingGates")


def edit(state: FailureState, now: float, editor: Editor) -> None:
    """Add the gate to a pod that must not be scheduled yet; `now`: in seconds since 1970."""
    until = seconds(state.not_before)
    if until is None or until <= now or any(gate.get("name") == names.DELAY for gate in at(editor.root, GATES) or ()):
        return
    editor.append(GATES, {"name": names.DELAY})


def _edit(context: "PodContext") -> list[Problem]:
    edit(context.asked, context.facts.now, context.editor)
    return []


RULE: Final[Rule["PodContext"]] = Rule(
    name="back_off",
    applies_to="a pod that the ledger counts, after an attempt for which a rule of onFailure asks for a delay",
    applies=lambda context: bool(context.asked.not_before) and context.facts.ledger,  # a leader ends the delay
    edit=_edit,
    writes=in_pods(GATES),
)
