"""Undoes changes of the keys that only the webhook and the executor of a retry write (webhook/kube/names.py).

Reads and writes:
    metadata.labels[retry-policy.dev/profile]
    metadata.annotations[retry-policy.dev/{policy,retry-history}]
    metadata.annotations[retry-policy.dev/{work,work-source}], if admission has written them
Reads:
    metadata.annotations[retry-policy.dev/deadline]
Reads, before an update:
    what `may_begin_anew` of the kind reads

After each entry of the retry history the budgets of a workload begin anew. The server's own updates are not sent to the
webhook (a matchCondition in manifests/base/webhooks.yaml), nor are updates of the status: manifests/base/
protected-keys.yaml denies those that change these keys.
"""

from typing import Final

from webhook.kube import names
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json, Path
from webhook.rules import undo
from webhook.systems.kind_spec import KindSpec

LABEL: Final[Path] = ("metadata", "labels", names.PROFILE)
HISTORY: Final[Path] = ("metadata", "annotations", names.RETRY_HISTORY)
DEADLINE: Final[Path] = ("metadata", "annotations", names.DEADLINE)
WORK: Final[Path] = ("metadata", "annotations", names.WORK)
WORK_SOURCE: Final[Path] = ("metadata", "annotations", names.WORK_SOURCE)


def put_back(editor: Editor, kind: KindSpec, old: Json) -> None:
    """Undo the changes that an update of `old` makes to our keys."""
    keys = [LABEL, undo.ANNOTATION]
    if not may_begin_anew(kind, old):
        keys.append(HISTORY)
    for path in keys:
        put_back_key(editor, path, old)
    if at(old, WORK_SOURCE) is not None:
        _put_back_work(editor, old)


def _put_back_work(editor: Editor, old: Json) -> None:
    """Keep the work that admission has written while an author names a deadline alone; its source only as long.

    A manifest that replaces the Job lacks both.
    """
    if at(editor.root, DEADLINE) is not None and at(editor.root, WORK) is None:
        put_back_key(editor, WORK, old)
        put_back_key(editor, WORK_SOURCE, old)
    elif at(editor.root, WORK) != at(old, WORK):
        editor.remove(WORK_SOURCE)


def put_back_key(editor: Editor, path: Path, old: Json) -> None:
    """Undo the change that an update of `old` makes to one of our keys."""
    value = at(old, path)
    if value is None:
        editor.remove(path)
    elif at(editor.root, path) != value:
        editor.set(path, value)


def may_begin_anew(kind: KindSpec, old: Json) -> bool:
    """Return True if an update may write the retry history: that of a requested retry, by the user who runs it."""
    return kind.may_begin_anew is not None and kind.may_begin_anew(old)
