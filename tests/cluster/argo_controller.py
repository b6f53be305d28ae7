"""Argo's controller of Workflows and CronWorkflows (tools/argo), and the kinds that it needs for itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tests.cluster.binaries import Binary
from tests.cluster.operators import UNTYPED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.processes import Processes

NAME: Final = "argo"
BINARY: Final = Binary(NAME, NAME, "retry-policy.dev/tests/argo")
GROUP: Final = "argoproj.io"
KINDS: Final = ("WorkflowArtifactGCTask", "WorkflowEventBinding", "WorkflowTaskResult", "WorkflowTaskSet")
OFF: Final = {"enabled": False}
ENVIRONMENT: Final = {
    "NAMESPACE": NAME,
    "DEFAULT_REQUEUE_TIME": "100ms",  # instead of 10 s
    "RECENTLY_STARTED_POD_DURATION": "0s",  # after which a missing pod counts as deleted: instead of 10 s
}


def start(binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, _folder: Path) -> None:
    """Start the controller; the CRDs of its kinds that users write must be installed."""
    for prepared in (
        *map(_crd, KINDS),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "workflow-controller-configmap", "namespace": NAME},
            "data": {"config": json.dumps({"metricsConfig": OFF, "telemetryConfig": OFF})},
        },
    ):
        kubectl.apply(prepared)
    waiting = ("wait", *(f"crd/{kind.lower()}s.{GROUP}" for kind in KINDS), "--for=condition=Established")
    processes.wait_until(lambda: kubectl.run(*waiting).returncode == 0, "the CRDs to be Established", log=NAME)
    processes.start(NAME, [binaries[NAME]], env={"KUBECONFIG": str(kubectl.kubeconfig), **ENVIRONMENT})


def _crd(kind: str) -> Object:
    """Return the CRD of a kind with untyped fields, as in Argo's minimal CRDs."""
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": UNTYPED}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": f"{kind.lower()}s", "listKind": f"{kind}List", "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
