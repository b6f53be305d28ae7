"""Bounds each attempt in time.

Reads and writes, in the JobSpec:
    template.spec.activeDeadlineSeconds: of each pod; the Job's own field bounds all attempts together and is left alone
"""

from webhook.patch import Editor
from webhook.policy.settings import Settings
from webhook.workloads import EmbeddedJob


def edit(job: EmbeddedJob, settings: Settings, editor: Editor) -> None:
    """Set the profile's attemptTimeout where the author set none."""
    timeout = settings.profile.attempt_timeout
    if timeout is not None and job.pod_spec and job.pod_spec.get("activeDeadlineSeconds") is None:
        editor.set((*job.path, "template", "spec", "activeDeadlineSeconds"), int(timeout))
