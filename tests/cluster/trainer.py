"""The Trainer's controllers of TrainJobs and their runtimes (tools/trainer); JobSet's controller runs the JobSets.

Its validating webhooks do not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.cluster.binaries import Binary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.processes import Processes

NAME: Final = "trainer"
BINARY: Final = Binary(NAME, NAME, "retry-policy.dev/tests/trainer")


def start(binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, _folder: Path) -> None:
    """Start the controllers; their CRDs must be installed."""
    processes.start(NAME, [binaries[NAME]], env={"KUBECONFIG": str(kubectl.kubeconfig)})
