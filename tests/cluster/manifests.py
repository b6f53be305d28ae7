"""Manifests for tests: small Jobs and JobSets whose pods run on KWOK nodes and end as annotated (stages/pod.yaml)."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from tests.cluster.nodes import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.kubectl import Object

PREFIX = "retry-policy-test/"
EXIT_CODE = PREFIX + "exit-code"
EXIT_CODES = PREFIX + "exit-codes"
SECONDS = PREFIX + "seconds"
DELETION_EXIT_CODE = PREFIX + "deletion-exit-code"
DELETION_SECONDS = PREFIX + "deletion-seconds"
CONTAINER = PREFIX + "container"
CANNOT_START = PREFIX + "cannot-start"
OTHERS_EXIT_CODE = PREFIX + "others-exit-code"
NEEDS_MEMORY = PREFIX + "needs-memory"


def exits(*codes: int) -> dict[str, str]:
    """Return the pod annotation for one exit code at every attempt, or for one code per attempt."""
    return {EXIT_CODE: str(codes[0])} if len(codes) == 1 else {EXIT_CODES: ",".join(map(str, codes))}


def job(name: str, annotations: Mapping[str, str] | None = None, /, **spec: Any) -> Object:
    """Return a Job of one container `main`; `annotations` are its pod template's, `spec` are fields of its spec.

    Without annotations its pods never end.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": pod_template(annotations)},
    }


def job_set(name: str, *replicated_jobs: Object, **spec: Any) -> Object:
    """Return a JobSet of these replicated Jobs; `spec` are further fields of its spec."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {**spec, "replicatedJobs": list(replicated_jobs)},
    }


def replicated_job(name: str, annotations: Mapping[str, str] | None = None, /, **spec: Any) -> Object:
    """Return a replicated Job of a JobSet, with the parameters of `job`."""
    return {"name": name, "template": {"spec": job(name, annotations, **spec)["spec"]}}


def pod_template(annotations: Mapping[str, str] | None = None) -> Object:
    """Return a pod template of one container `main`, with these annotations, for KWOK nodes only."""
    return {
        "metadata": {"annotations": dict(annotations or {})},
        "spec": {
            **deepcopy(PLACEMENT),  # a test may edit its manifest
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.invalid/main"}],
        },
    }


def pod(name: str, annotations: Mapping[str, str] | None = None) -> Object:
    """Return a pod as `pod_template` describes it."""
    template = pod_template(annotations)
    template["metadata"]["name"] = name
    return {"apiVersion": "v1", "kind": "Pod", **template}
