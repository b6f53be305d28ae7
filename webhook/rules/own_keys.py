"""Undoes changes of the keys that only the webhook writes on a Job or JobSet (webhook/kube/names.py lists the keys).

Reads and writes:
    metadata.labels[retry-policy.dev/profile]
    metadata.annotations[retry-policy.dev/{policy,ledger}]
Reads, before an update:
    metadata.annotations[retry-policy.dev/retry-of], status.{conditions,phase,jobDeploymentStatus}

At creation webhook/admission/edit_workload.py writes the label and `policy`, and removes a copied account. The ledger's
own updates are not sent to the webhook (a matchCondition in manifests/base/webhooks.yaml), nor are updates of the
status: manifests/base/protected-keys.yaml denies those that change these keys.
"""

from typing import Final

from webhook.kinds import KindSpec, argo, batch, ray, tekton, volcano
from webhook.kinds.job_set import JOB_SET
from webhook.kube import names, terminal
from webhook.ledger.model import account
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json, Path
from webhook.rules import undo

LABEL: Final[Path] = ("metadata", "labels", names.PROFILE)
LEDGER: Final[Path] = ("metadata", "annotations", names.LEDGER)
RETRY_OF: Final[Path] = ("metadata", "annotations", names.RETRY_OF)


def put_back(editor: Editor, row: KindSpec, old: Json) -> None:
    """Undo the changes that an update of `old` makes to our keys."""
    keys = [LABEL, undo.ANNOTATION]
    if not continues_account(row, editor.root, old):
        keys.append(LEDGER)
    for path in keys:
        put_back_key(editor, path, old)


def put_back_key(editor: Editor, path: Path, old: Json) -> None:
    """Undo the change that an update of `old` makes to one of our keys."""
    value = at(old, path)
    if value is None:
        editor.remove(path)
    elif at(editor.root, path) != value:
        editor.set(path, value)


def continues_account(row: KindSpec, root: Json, old: Json) -> bool:
    """Return True if an update may write the account: that of a requested retry, by the user who runs the command.

    A Job that is created again gets the account of its predecessor; a JobSet, PipelineRun, Workflow, RayJob
    or Volcano Job that has failed gets new budgets.
    """
    before = at(old, LEDGER)
    if row in {argo.WORKFLOW, tekton.PIPELINE_RUN, ray.RAY_JOB}:
        return terminal.has_failed(old) and at(root, LEDGER) == account.continued(before)
    if row is volcano.JOB:
        failed = volcano.phase_of(old) in volcano.UNSUCCESSFUL
        return failed and at(root, LEDGER) == account.continued(before)
    if row is JOB_SET:
        return terminal.is_decided(old.get("status") or {}) and at(root, LEDGER) == account.continued(before)
    return row is batch.JOB and before is None and at(old, RETRY_OF) is not None
