"""Tekton's controllers of PipelineRuns and TaskRuns (tools/tekton), with the configuration of its module.

Its webhooks do not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.operators import Operators
    from tests.cluster.processes import Processes

NAME: Final = "tekton"
SYSTEM: Final = "tekton-pipelines"
CONFIG_MAPS: Final = {
    "CONFIG_LOGGING_NAME": "config-logging",
    "CONFIG_OBSERVABILITY_NAME": "config-observability",
    "CONFIG_LEADERELECTION_NAME": "config-leader-election-controller",
    "CONFIG_FEATURE_FLAGS_NAME": "feature-flags",
    "CONFIG_DEFAULTS_NAME": "config-defaults",
    "CONFIG_SPIRE": "config-spire",
}


def start(binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, operators: Operators) -> None:
    """Start the controllers; their CRDs must be installed."""
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    kubectl.run("apply", f"--filename={operators.tekton_configuration}")
    environment = {**CONFIG_MAPS, "SYSTEM_NAMESPACE": SYSTEM, "METRICS_DOMAIN": "tekton.dev"}
    processes.start(NAME, [binaries[NAME], f"--kubeconfig={kubectl.kubeconfig}"], env=environment)
