"""Sets the restartPolicy of a Job's pods to Never: the API allows a podFailurePolicy only with that.

Reads, in a JobSet:
    metadata.managedFields: whether its author wrote a restartPolicy
    spec.replicatedJobs[*].name
in a JobSpec:
    template.spec.restartPolicy
Writes there:
    template.spec.restartPolicy

If it is left out in a JobSet, JobSet's own mutating webhook sets OnFailure, before or after ours. The API server
records in managedFields which fields an author sent, before it calls any webhook (createHandler in
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go of Kubernetes 1.36). So managedFields show what was left
out.
"""

from typing import Final

from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.settings import Settings
from webhook.systems.kind_spec import EmbeddedJob

FIELD: Final[Path] = ("template", "spec", "restartPolicy")
OF_REPLICATED_JOB: Final[Path] = ("f:template", "f:spec", "f:template", "f:spec", "f:restartPolicy")


def edit(job: EmbeddedJob, settings: Settings, editor: Editor, *, said: bool) -> list[Problem]:
    """Set restartPolicy to Never if the profile says so; return a warning for the author if there is a reason for one.

    `said`: whether a restartPolicy that is there is the author's choice.
    """
    policy = settings.profile.failure_policy
    stands = job.pod_spec.get("restartPolicy")
    if (stands or job.traits.restart_policy) != "OnFailure":
        return []
    said = said and bool(stands)
    path = (*job.path, *FIELD)
    choice = policy.on_failure_restart_policy if said else policy.absent_restart_policy
    if choice == "Keep" or job.traits.restarts_in_place:
        what = "OnFailure" if said else "left out, becomes OnFailure, which"
        return [Problem(path, f"{what} allows no failure policy", "use Never to fail at once on bugs")]
    editor.set(path, "Never")
    remedy = "write it, or OnFailure to have no failure policy"
    return [] if said else [Problem(path, "left out, becomes Never", remedy)]


def said_in(root: Json) -> dict[str, bool]:
    """Return whether the author of a JobSet wrote a restartPolicy, by the keys of replicated Jobs in managedFields.

    Empty if there are no managedFields, as in a file.
    """
    said: dict[str, bool] = {}
    entries = at(root, ("metadata", "managedFields"))
    for entry in entries if isinstance(entries, list) else ():
        owned = at(entry, ("fieldsV1", "f:spec", "f:replicatedJobs"))
        for key, fields in owned.items() if isinstance(owned, dict) else ():
            said[key] = said.get(key, False) or at(fields, OF_REPLICATED_JOB) is not None
    return said


def is_said(said: dict[str, bool], replicated_job: str) -> bool:
    """Return True if the author wrote the restartPolicy of a replicated Job, or if that is unknown."""
    return said.get(f'k:{{"name":"{replicated_job}"}}', True)
