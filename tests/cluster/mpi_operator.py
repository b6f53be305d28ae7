"""The MPI operator's controller of MPIJobs v2beta1 (tools/mpi-operator).

Its CRD has the name of the training operator's, whose MPIJobs are v1: a cluster has one of the two. This one takes the
place of the other, and the training operator runs without that kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.cluster import operators
from tests.cluster.binaries import Binary
from tests.cluster.processes import HarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.processes import Processes

NAME: Final = "mpi-operator"
BINARY: Final = Binary(NAME, NAME, "retry-policy.dev/tests/mpi-operator")
CRD: Final = "mpijobs.kubeflow.org"
PATH: Final = "/apis/kubeflow.org/v2beta1/mpijobs"


def start(binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, _folder: Path) -> None:
    """Replace the CRD, and start the controller as soon as its version is served."""
    kubectl.run("delete", "crd", CRD)  # the API server keeps each version that a CRD has stored
    created = kubectl.run(*operators.CREATE, f"--filename={operators.fetch().other_crds / CRD}.json")
    if created.returncode:
        raise HarnessError(created.stderr)
    processes.wait_until(
        lambda: kubectl.run("get", f"--raw={PATH}").returncode == 0, "MPIJobs v2beta1", log="kube-apiserver"
    )
    processes.start(NAME, [binaries[NAME]], env={"KUBECONFIG": str(kubectl.kubeconfig)})
