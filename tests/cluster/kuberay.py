"""KubeRay's controllers (tools/kuberay), with a stand-in for the dashboards of Ray heads (ray_dashboard.py).

The controllers ask for the state of a Ray job at `http://HEAD-SERVICE.NAMESPACE.svc.cluster.local:8265`. There is no
DNS here, and KWOK's heads run no Ray: the stand-in is the controllers' HTTP proxy, and answers for all heads.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from tests.cluster import operators
from tests.cluster.binaries import Binary
from tests.cluster.control_plane import HOST, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.processes import Processes

NAME: Final = "kuberay"
BINARY: Final = Binary(NAME, "kuberay", "github.com/ray-project/kuberay/ray-operator")
DASHBOARD: Final = "ray-dashboard"
LIMITS: Final = ("--qps=1000", "--burst=2000")


def start(binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, folder: Path) -> None:  # noqa: ARG001 - as any controller
    """Start the controllers and the stand-in; the CRDs of the kinds that the webhook knows must be installed."""
    operators.add_untyped(kubectl, "ray.io", "v1", "RayService")  # the program does not start without its kind
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "tests.cluster.ray_dashboard", str(port), str(kubectl.kubeconfig)]
    processes.start(DASHBOARD, command)
    processes.start(
        NAME,
        [
            binaries[NAME],
            f"--kubeconfig={kubectl.kubeconfig}",
            "--enable-leader-election=false",
            "--metrics-addr=0",
            "--health-probe-bind-address=0",
            "--feature-gates=RayCronJob=true",
            *LIMITS,
        ],
        env={"HTTP_PROXY": f"http://{HOST}:{port}"},
    )
