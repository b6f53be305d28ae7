"""The JobSet controller and its webhooks, as shipped in its module; the API server calls them beside this project's.

Its mutating webhook runs before this project's, by the order of the configurations' names. In a namespace with the
label LAST it runs after it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tests.cluster.control_plane import HOST, free_ports
from tests.cluster.credentials import Credentials
from tests.cluster.installation import awaited, built, pointed_at
from tests.cluster.manifests import job_set, replicated_job

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.operators import Operators
    from tests.cluster.processes import Processes

NAME: Final = "jobset"
LAST: Final = "retry-policy-test/jobset-last"
# The prefixes of its configurations' names, and their namespaces. The first is that of JobSet's own kustomization.
ORDERS: Final = {"jobset-": "DoesNotExist", "z-jobset-": "Exists"}


def start(
    binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, folder: Path, operators: Operators
) -> None:
    """Start it and register its webhooks; return when the API server calls them. Its CRD must be installed."""
    address, credentials = run(binaries, processes, kubectl, folder)
    for shipped in built(kubectl, operators.job_set_webhooks):
        if "webhooks" in shipped:
            pointed = awaited(pointed_at(f"https://{address}", shipped, credentials.authority.certificate))
            for prefix, operator in ORDERS.items():
                kubectl.apply(_named(prefix, operator, pointed))
    _wait_until_effective(processes, kubectl)


def run(binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, folder: Path) -> tuple[str, Credentials]:
    """Start it; return HOST:PORT of its webhooks, and the credentials that issued its certificate."""
    (port,) = free_ports(1)
    credentials = Credentials.create(folder / NAME)
    credentials.server("tls", [HOST])  # the file name that the controller expects
    configuration = folder / f"{NAME}.json"
    configuration.write_text(
        json.dumps(
            {
                "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
                "kind": "Configuration",
                "leaderElection": {"leaderElect": False},
                "internalCertManagement": {"enable": False},
                "webhook": {"host": HOST, "port": port, "certDir": str(credentials.folder)},
                "metrics": {"bindAddress": "0"},
                "health": {"healthProbeBindAddress": "0"},
                "featureGates": {"InPlaceRestart": True, "RestartJob": True},
            }
        )
    )
    processes.start(NAME, [binaries[NAME], f"--kubeconfig={kubectl.kubeconfig}", f"--config={configuration}"])
    return f"{HOST}:{port}", credentials


def _named(prefix: str, operator: str, configuration: Object) -> Object:
    here = {"matchExpressions": [{"key": LAST, "operator": operator}]}
    return {
        **configuration,
        "metadata": {"name": prefix + configuration["metadata"]["name"]},
        "webhooks": [{**webhook, "namespaceSelector": here} for webhook in configuration["webhooks"]],
    }


def _wait_until_effective(processes: Processes, kubectl: Kubectl) -> None:
    """Wait until the API server uses both configurations: one defaults a JobSet, the other one denies a JobSet."""
    dry_run = ("create", "--dry-run=server", "--namespace=default", "--filename=-", "--output=json")
    jobs = replicated_job("workers")

    def defaulted() -> bool:
        result = kubectl.run(*dry_run, stdin=job_set("probe", jobs))
        return result.returncode == 0 and "successPolicy" in json.loads(result.stdout)["spec"]

    def validated() -> bool:
        refused = job_set("probe", jobs, network={"subdomain": "No-Name"})
        return "spec.network.subdomain" in kubectl.run(*dry_run, stdin=refused).stderr

    processes.wait_until(defaulted, "a JobSet to be defaulted", log=NAME)
    processes.wait_until(validated, "a JobSet with a bad subdomain to be denied", log=NAME)
