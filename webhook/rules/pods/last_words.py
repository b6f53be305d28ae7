"""Lets the kubelet report the end of the log of a container that fails without a termination message.

Reads and writes: spec.{containers,initContainers}[*].terminationMessagePolicy

A container that writes a termination message keeps it: the kubelet takes the log only if the file is empty. So it does
no harm that an author's own `File` cannot be told from the API's default.
"""

from typing import TYPE_CHECKING, Final

from webhook.objects.patch import EVERY, Pattern
from webhook.objects.problem import Problem
from webhook.rules.pods import containers
from webhook.rules.rule import Rule, in_pods

if TYPE_CHECKING:
    from webhook.rules.contexts import PodContext

FIELD: Final = "terminationMessagePolicy"
BY_DEFAULT: Final = (None, "File")
WITH_LOG: Final = "FallbackToLogsOnError"
WRITES: Final[tuple[Pattern, ...]] = tuple(("spec", field, EVERY, FIELD) for field in containers.FIELDS)


def _edit(context: "PodContext") -> list[Problem]:
    editor = context.editor_of_whole()
    for path, container in containers.of(editor.root):
        if container.get(FIELD) in BY_DEFAULT:
            editor.set((*path, FIELD), WITH_LOG)
    return []


RULE: Final[Rule["PodContext"]] = Rule(
    name="last_words",
    applies_to="each pod, where the profile says so",
    applies=lambda context: context.profile.profile.diagnostics.last_words,
    edit=_edit,
    writes=in_pods(*WRITES),
)
