"""Sets a time limit for each attempt.

Reads and writes:
    in a JobSpec: template.spec.activeDeadlineSeconds, which bounds each pod; the Job's own field, which bounds all
        attempts together, is not changed
    elsewhere: the timeout fields of the kind's spec
"""

from typing import TYPE_CHECKING, Final

from webhook.objects.problem import Path, Problem
from webhook.rules.rule import Rule, where_jobs_get_policies

if TYPE_CHECKING:
    from webhook.rules.contexts import JobContext, WorkloadContext

DEADLINE: Final[Path] = ("template", "spec", "activeDeadlineSeconds")  # in a JobSpec


def _edit_job(context: "JobContext") -> list[Problem]:
    """Set the profile's attemptTimeout on a JobSpec's pods if the author set no limit."""
    job, timeout = context.job, context.settings.profile.attempt_timeout
    if timeout is not None and job.pod_spec and job.pod_spec.get("activeDeadlineSeconds") is None:
        context.editor.set((*job.path, *DEADLINE), int(timeout))
    return []


def _edit_workload(context: "WorkloadContext") -> list[Problem]:
    """Set the profile's attemptTimeout in each timeout field of a kind that the author left out."""
    timeout = context.settings.profile.attempt_timeout
    if timeout is None:
        return []
    for field in context.kind.timeout_fields:
        for path in list(field.unset(context.root)):
            context.editor.set(path, f"{int(timeout)}s" if field.duration else int(timeout))
    return []


IN_JOB: Final[Rule["JobContext"]] = Rule(
    name="timeouts",
    applies_to="each Job",
    edit=_edit_job,
    writes=where_jobs_get_policies(DEADLINE),
)
IN_WORKLOAD: Final[Rule["WorkloadContext"]] = Rule(
    name="timeouts",
    applies_to="the timeout fields of a kind",
    edit=_edit_workload,
    writes=lambda kind: tuple(field.written for field in kind.timeout_fields),
)
