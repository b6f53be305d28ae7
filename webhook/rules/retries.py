"""Holds every retry field to the profile's limit, and gives a budget where the author named none.

Reads and writes, in the JobSpec:
    backoffLimit, or backoffLimitPerIndex where that is set
    template.spec.{containers,initContainers}[*].{restartPolicy,restartPolicyRules}
"""

from collections.abc import Iterator
from typing import Final

from webhook.patch import Editor
from webhook.policy.settings import Settings
from webhook.problem import Json, Path, Problem
from webhook.workloads import EmbeddedJob, batch

IN_PLACE: Final = ("Always", "OnFailure")


def edit(job: EmbeddedJob, settings: Settings, editor: Editor, *, said: bool) -> list[Problem]:
    """Apply max-retries, the default and, where the profile clamps, the limit; return warnings about what was lowered.

    `said`: whether the author said something about backoffLimit. The default only ever lowers.
    """
    field = batch.retry_field(job.spec)
    if not settings.skip:
        if settings.max_retries is not None:
            editor.set((*job.path, field), settings.max_retries)
        elif field == "backoffLimit" and not said and settings.default_retries < batch.retry_budget(job.spec):
            editor.set((*job.path, field), settings.default_retries)
    if settings.profile.retries.on_exceed == "Deny":
        return []
    warnings = clamp(job, settings, editor)
    for container in in_place_restarts(job):
        editor.remove((*container, "restartPolicy"))
        editor.remove((*container, "restartPolicyRules"))
        warnings.append(Problem(container, "restarts in place were taken out", "they have no bound"))
    return warnings


def edit_update(
    job: EmbeddedJob, settings: Settings, editor: Editor, old: Json, old_settings: Settings
) -> list[Problem]:
    """Apply max-retries and the clamp to an update of a Job, of which backoffLimit alone may be changed.

    Only what this update changes counts: a Job that was admitted under another policy keeps what it has.
    """
    unchanged = (settings.max_retries, batch.retry_budget(job.spec)) == (
        old_settings.max_retries,
        batch.retry_budget(old),
    )
    if unchanged or batch.retry_field(job.spec) != "backoffLimit":
        return []
    if settings.max_retries is not None and not settings.skip:
        editor.set((*job.path, "backoffLimit"), settings.max_retries)
    if settings.profile.retries.on_exceed == "Clamp" and batch.retry_budget(job.spec) > batch.retry_budget(old):
        return clamp(job, settings, editor)
    return []


def clamp(job: EmbeddedJob, settings: Settings, editor: Editor) -> list[Problem]:
    """Lower the retry field to the limit, with a warning."""
    limit = settings.profile.retries.limit
    budget = batch.retry_budget(job.spec)
    if budget <= limit:
        return []
    path = (*job.path, batch.retry_field(job.spec))
    editor.set(path, limit)
    return [Problem(path, f"{budget} lowered to {limit}", f"profile {settings.profile_name!r} allows no more")]


def problems(job: EmbeddedJob, settings: Settings, old: Json | None) -> list[Problem]:
    """Name all that exceeds the limit; `old` is the JobSpec before an update: only what got worse counts."""
    limit = settings.profile.retries.limit
    budget = batch.retry_budget(job.spec)
    allowed = limit if old is None else max(limit, batch.retry_budget(old))
    found = []
    if budget > allowed:
        path = (*job.path, batch.retry_field(job.spec))
        what = f"{budget} retries exceed the limit of {limit} in profile {settings.profile_name!r}"
        found.append(Problem(path, what, f"set {limit} or less"))
    for container in in_place_restarts(job):
        what = "restarts the container in place without bound"
        remedy = "leave restartPolicy and restartPolicyRules out, so that each failure counts against the Job's retries"
        found.append(Problem(container, what, remedy))
    return found


def in_place_restarts(job: EmbeddedJob) -> Iterator[Path]:
    """Yield the paths of containers that restart by themselves; an init container's Always makes it a sidecar."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(job.pod_spec.get(field) or ()):
            restart_policy = container.get("restartPolicy")
            sidecar = field == "initContainers" and restart_policy == "Always"
            if (restart_policy in IN_PLACE or container.get("restartPolicyRules")) and not sidecar:
                yield (*job.path, "template", "spec", field, index)
