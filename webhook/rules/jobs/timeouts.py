"""Bounds each attempt in time.

Reads and writes:
    in a JobSpec: template.spec.activeDeadlineSeconds: of each pod; the Job's own field bounds all attempts together and
        is left alone
    elsewhere: the timeout fields of the kind's row
"""

from webhook.kinds import EmbeddedJob, KindSpec
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.policy.settings import Settings


def edit(job: EmbeddedJob, settings: Settings, editor: Editor) -> None:
    """Set the profile's attemptTimeout on a JobSpec's pods where the author set none."""
    timeout = settings.profile.attempt_timeout
    if timeout is not None and job.pod_spec and job.pod_spec.get("activeDeadlineSeconds") is None:
        editor.set((*job.path, "template", "spec", "activeDeadlineSeconds"), int(timeout))


def edit_fields(row: KindSpec, root: Json, settings: Settings, editor: Editor) -> None:
    """Set the profile's attemptTimeout in the kind's own fields where the author set none."""
    timeout = settings.profile.attempt_timeout
    if timeout is None:
        return
    for field in row.timeout_fields:
        for path in list(field.unset(root)):
            editor.set(path, f"{int(timeout)}s" if field.duration else int(timeout))
