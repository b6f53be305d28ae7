"""Holds a pod back by a scheduling gate until the delay is over that a rule of onFailure asks for.

Reads:
    the ended attempts of the pod's index or Job (webhook/ledger/model/on_failure.py)
Reads and writes:
    spec.schedulingGates

The leader removes the gate (webhook/ledger/waiting.py). The Job controller's own back-off, by the annotation with the
failures of an index, cannot be a rule's delay: it depends on a number that a pod gets before it is known how it ends.
"""

from typing import Final

from webhook.kube import names
from webhook.ledger.model.on_failure import State
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Path
from webhook.objects.times import seconds

GATES: Final[Path] = ("spec", "schedulingGates")


def edit(state: State, now: float, editor: Editor) -> None:
    """Add the gate to a pod that must not be scheduled yet; `now`: in seconds since 1970."""
    until = seconds(state.not_before)
    if until is None or until <= now or any(gate.get("name") == names.DELAY for gate in at(editor.root, GATES) or ()):
        return
    editor.append(GATES, {"name": names.DELAY})
