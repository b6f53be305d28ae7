"""Lets the kubelet report the end of the log of a container that fails without a termination message.

Reads and writes: spec.{containers,initContainers}[*].terminationMessagePolicy

A container that writes a termination message keeps it: the kubelet takes the log only if the file is empty. So it does
no harm that an author's own `File` cannot be told from the API's default.
"""

from typing import Final

from webhook.objects.patch import EVERY, Editor, Pattern
from webhook.rules.pods import containers

FIELD: Final = "terminationMessagePolicy"
BY_DEFAULT: Final = (None, "File")
WITH_LOG: Final = "FallbackToLogsOnError"
WRITES: Final[tuple[Pattern, ...]] = tuple(("spec", field, EVERY, FIELD) for field in containers.FIELDS)


def edit(editor: Editor) -> None:
    """Set the policy in each container that has the default; `editor`: that of a pod with all its fields."""
    for path, container in containers.of(editor.root):
        if container.get(FIELD) in BY_DEFAULT:
            editor.set((*path, FIELD), WITH_LOG)
