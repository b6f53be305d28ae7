"""Creates two Jobs in a dry run: one that the webhook changes, and one that it denies. Nothing is stored."""

from http import HTTPStatus
from typing import Final

from webhook.admission.modes import ENFORCED, WARN
from webhook.doctor.checks.selectors import matches_namespace
from webhook.doctor.shipped import MUTATING, WORKLOADS, shipped_in
from webhook.doctor.snapshot import Probe, Snapshot
from webhook.kube import names
from webhook.kube.client import Api, ApiError
from webhook.objects.problem import Json
from webhook.rules.opt_in import labels_of
from webhook.systems.job import spec as batch

WRONG: Final = {names.INTERRUPTIBLE: "doctor"}  # denied under every policy
# The order in which a mode is chosen: in Audit the answer would show nothing.
MODES: Final = (*ENFORCED, WARN)


def _job(annotations: dict[str, str]) -> Json:
    """Return a small Job that meets the Pod Security Standard `restricted`, and that is suspended."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "retry-policy-doctor-", "annotations": annotations},
        "spec": {
            "suspend": True,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.k8s.io/pause:3.10",
                            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"memory": "1Mi"}},
                        }
                    ],
                }
            },
        },
    }


def chosen(snapshot: Snapshot) -> Json | None:
    """Return the Namespace in which the dry run is made; None if none is opted in.

    The one that the user asks about, if it is opted in; else one of mode Enforce with a known profile, else of Warn.
    """
    found = [one for one in snapshot.namespaces or () if _is_possible(snapshot, one)]
    asked = [one for one in found if one["metadata"]["name"] == snapshot.asked]
    return min(asked or found, key=lambda one: MODES.index(labels_of(one).get(names.MODE)), default=None)


def _is_possible(snapshot: Snapshot, namespace: Json) -> bool:
    """Return True if the webhook would show in the answer that it was called for a Job in a namespace."""
    labels, policy = labels_of(namespace), snapshot.policy
    hook = shipped_in(snapshot.installed.namespace, requested_retries=False).webhooks(MUTATING)[WORKLOADS]
    return (
        not namespace["metadata"].get("deletionTimestamp")
        and matches_namespace(hook, namespace)
        and (policy is None or labels.get(names.PROFILE) in policy.profiles)
        and labels.get(names.MODE) in MODES
    )


async def tried(api: Api, namespace: Json, warnings: list[str]) -> Probe:
    """Return the answers of the API server; raise ApiError if the user may not create Jobs, and as `Api` does."""
    name, mode = namespace["metadata"]["name"], labels_of(namespace).get(names.MODE)
    path = batch.JOB.path(name)
    stored, refusal, said = await _created(api, path, _job({}), warnings)
    if stored is None:
        return Probe(name, mode, None, refusal, said)
    _, denial, _ = await _created(api, path, _job(WRONG), warnings)
    return Probe(name, mode, stored, "", said, denial)


async def _created(api: Api, path: str, root: Json, warnings: list[str]) -> tuple[Json | None, str, tuple[str, ...]]:
    """Create an object in a dry run; return it, or why it was refused, and the warnings; raise as `Api` does."""
    warnings.clear()
    try:
        stored = await api.create(path, root, dry_run=True)
    except ApiError as error:
        # An admission plugin that refuses a Job says it in other words than the lack of the right to create one.
        lacks_right = error.status == HTTPStatus.FORBIDDEN and 'cannot create resource "jobs"' in str(error)
        if lacks_right or error.status == HTTPStatus.UNAUTHORIZED:
            raise
        return None, str(error), tuple(warnings)
    return stored, "", tuple(warnings)
