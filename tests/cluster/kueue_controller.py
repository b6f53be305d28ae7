"""Kueue's controller and its webhooks, as shipped in its module, for Jobs and JobSets in namespaces labelled MANAGED.

Its mutating webhook runs before ours, by the order of the configurations' names.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final

from tests.cluster.control_plane import HOST, free_ports
from tests.cluster.installation import built
from tests.cluster.manifests import job
from tests.cluster.operators import KUEUE_SERVICE, KUEUE_SYSTEM

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.operators import Operators
    from tests.cluster.processes import Processes

NAME: Final = "kueue"
MANAGED: Final = "retry-policy-test/kueue"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
CERTIFICATE: Final = "kueue-webhook-server-cert"
PROBE: Final = "kueue-probe"
GROUPS: Final = ("batch", "jobset.x-k8s.io")
# The time that Kueue waits for the pods of an admitted Workload before it evicts it; half an hour by default.
PODS_READY: Final = {
    "timeout": "20s",
    "recoveryTimeout": "30m",
    "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffMaxSeconds": 1},
}
HERE: Final = {"matchExpressions": [{"key": MANAGED, "operator": "Exists"}]}


def start(
    binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, folder: Path, operators: Operators
) -> None:
    """Start it and register its webhooks; return when the API server calls them. Its CRDs must be installed."""
    (port,) = free_ports(1)
    for prepared in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KUEUE_SYSTEM}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": CERTIFICATE, "namespace": KUEUE_SYSTEM},
        },
        # The API server must call it by the name of this Service, because its certificate is for that name.
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": KUEUE_SERVICE, "namespace": KUEUE_SYSTEM},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        *(_chosen(shipped, port) for shipped in built(kubectl, operators.kueue_webhooks) if "webhooks" in shipped),
    ):
        kubectl.apply(prepared)
    certificates = folder / "kueue-certificates"
    certificates.mkdir()
    configuration = folder / f"{NAME}.json"
    configuration.write_text(
        json.dumps(
            {
                "apiVersion": "config.kueue.x-k8s.io/v1beta2",
                "kind": "Configuration",
                "namespace": KUEUE_SYSTEM,
                "leaderElection": {"leaderElect": False},
                "webhook": {"host": HOST, "port": port, "certDir": str(certificates)},
                "metrics": {"bindAddress": "0"},
                "health": {"healthProbeBindAddress": "0"},
                "clientConnection": {"qps": 1000, "burst": 2000},
                "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
                "waitForPodsReady": PODS_READY,
                "managedJobsNamespaceSelector": HERE,
            }
        )
    )
    processes.start(
        NAME,
        [
            binaries[NAME],
            f"--kubeconfig={kubectl.kubeconfig}",
            f"--config={configuration}",
            "--feature-gates=VisibilityOnDemand=false",  # this feature is an additional API server
        ],
    )
    processes.wait_until(lambda: _mounted(kubectl, certificates), "its certificate", log=NAME)
    _wait_until_effective(processes, kubectl)


def _mounted(kubectl: Kubectl, folder: Path) -> bool:
    """Write the files of the Secret with its certificate, like a kubelet; return True if the Secret exists."""
    data = kubectl.get("secret", CERTIFICATE, f"--namespace={KUEUE_SYSTEM}").get("data") or {}
    for name, content in data.items():
        (folder / name).write_bytes(base64.b64decode(content))
    return bool(data)


def _chosen(configuration: Object, port: int) -> Object:
    """Return a configuration with the name in Kueue's kustomization, only for Jobs, JobSets and Kueue's kinds."""
    service = {"name": KUEUE_SERVICE, "namespace": KUEUE_SYSTEM, "port": port}
    webhooks = [
        {
            **webhook,
            "clientConfig": {"service": {**webhook["clientConfig"]["service"], **service}},
            **({"namespaceSelector": HERE} if group in GROUPS else {}),
        }
        for webhook in configuration["webhooks"]
        for group in webhook["rules"][0]["apiGroups"]
        if group in {*GROUPS, "kueue.x-k8s.io"}
    ]
    return {**configuration, "metadata": {"name": f"kueue-{configuration['metadata']['name']}"}, "webhooks": webhooks}


def _wait_until_effective(processes: Processes, kubectl: Kubectl) -> None:
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE, "labels": {MANAGED: ""}}})
    queued = job("probe")
    queued["metadata"]["labels"] = {QUEUE: "any"}
    dry_run = ("create", "--dry-run=server", f"--namespace={PROBE}", "--filename=-", "--output=json")

    def suspended() -> bool:
        result = kubectl.run(*dry_run, stdin=queued)
        return result.returncode == 0 and json.loads(result.stdout)["spec"]["suspend"]

    processes.wait_until(suspended, "a queued Job to be suspended", log=NAME)
