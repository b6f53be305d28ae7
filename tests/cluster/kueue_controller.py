"""Kueue's controller and its webhooks, as shipped in its module, for Jobs and JobSets in namespaces labelled MANAGED.

For its own end-to-end tests it is as in their configuration (test/e2e/config in its module): also for pods, in all
namespaces, and no pod has to be ready in time. Its mutating webhook runs before ours, by the order of the
configurations' names.
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
# The time that Kueue waits for the pods of an admitted Workload before it evicts it; half an hour by default.
PODS_READY: Final = {
    "timeout": "20s",
    "recoveryTimeout": "30m",
    "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffMaxSeconds": 1},
}
HERE: Final = {"matchExpressions": [{"key": MANAGED, "operator": "Exists"}]}
NOT_IN_SYSTEMS: Final = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", KUEUE_SYSTEM]}
    ]
}
FRAMEWORKS: Final[Mapping[str, str]] = {"batch/job": "batch", "jobset.x-k8s.io/jobset": "jobset.x-k8s.io", "pod": ""}
GATES: Final = {"VisibilityOnDemand": False}  # this feature is an additional API server
OF_ITS_TESTS: Final = {
    "leaderElection": {"leaderElect": True, "resourceNamespace": KUEUE_SYSTEM},
    "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
    "featureGates": {**GATES, "ElasticJobsViaWorkloadSlices": True, "ConcurrentAdmission": True},
}
OF_OURS: Final = {"leaderElection": {"leaderElect": False}, "featureGates": GATES, "waitForPodsReady": PODS_READY}


def start(
    binaries: Mapping[str, Path],
    processes: Processes,
    kubectl: Kubectl,
    folder: Path,
    operators: Operators,
    *,
    for_its_tests: bool,
) -> None:
    """Start it and register its webhooks; return when the API server calls them. Its CRDs must be installed."""
    (port,) = free_ports(1)
    frameworks = {name: group for name, group in FRAMEWORKS.items() if for_its_tests or group}
    where = NOT_IN_SYSTEMS if for_its_tests else HERE
    selectors = {**dict.fromkeys(frameworks.values(), where), "kueue.x-k8s.io": {}}
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
        *(
            _chosen(shipped, selectors, port)
            for shipped in built(kubectl, operators.kueue_webhooks)
            if "webhooks" in shipped
        ),
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
                "webhook": {"host": HOST, "port": port, "certDir": str(certificates)},
                "metrics": {"bindAddress": "0"},
                "health": {"healthProbeBindAddress": "0"},
                "clientConnection": {"qps": 1000, "burst": 2000},
                "integrations": {"frameworks": list(frameworks)},
                "managedJobsNamespaceSelector": where,
                **(OF_ITS_TESTS if for_its_tests else OF_OURS),
            }
        )
    )
    processes.start(NAME, [binaries[NAME], f"--kubeconfig={kubectl.kubeconfig}", f"--config={configuration}"])
    processes.wait_until(lambda: _mounted(kubectl, certificates), "its certificate", log=NAME)
    _wait_until_effective(processes, kubectl)


def _mounted(kubectl: Kubectl, folder: Path) -> bool:
    """Write the files of the Secret with its certificate, like a kubelet; return True if the Secret exists."""
    data = kubectl.get("secret", CERTIFICATE, f"--namespace={KUEUE_SYSTEM}").get("data") or {}
    for name, content in data.items():
        (folder / name).write_bytes(base64.b64decode(content))
    return bool(data)


def _chosen(configuration: Object, selectors: Mapping[str, Object], port: int) -> Object:
    """Return a configuration with the name in Kueue's kustomization; `selectors`: of namespaces by API group."""
    service = {"name": KUEUE_SERVICE, "namespace": KUEUE_SYSTEM, "port": port}
    webhooks = [
        {
            **webhook,
            "clientConfig": {"service": {**webhook["clientConfig"]["service"], **service}},
            "namespaceSelector": selectors[group],
        }
        for webhook in configuration["webhooks"]
        for group in webhook["rules"][0]["apiGroups"]
        if group in selectors
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
