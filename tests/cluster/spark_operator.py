"""Kubeflow's spark-operator (tools/spark-operator), with a stand-in for spark-submit (spark_submit.py).

spark-submit is a program in Java and Scala, which is not built here. The operator's webhooks do not run: of what they
write, the stand-in sets the driver's ownerReference.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.cluster import operators, spark_submit
from tests.cluster.binaries import Binary
from tests.cluster.control_plane import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.processes import Processes

NAME: Final = "operator"
LOG: Final = "spark-operator"
BINARY: Final = Binary(NAME, "spark-operator", "github.com/kubeflow/spark-operator/v2/cmd/operator")


def start(binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, folder: Path) -> None:
    """Start the controllers; the CRDs of the kinds that the webhook knows must be installed."""
    operators.add_untyped(kubectl, "sparkoperator.k8s.io", "v1alpha1", "SparkConnect")  # it does not start without
    home = folder / "spark"
    submit = home / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    command = shlex.join([sys.executable, str(Path(spark_submit.__file__)), str(kubectl.program)])
    submit.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    submit.chmod(0o755)
    processes.start(
        LOG,
        [
            binaries[NAME],
            "controller",
            "start",
            f"--kubeconfig={kubectl.kubeconfig}",
            "--health-probe-bind-address=0",
            "--enable-ui-service=false",
        ],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),  # of kubectl's cache
            "KUBECONFIG": str(kubectl.kubeconfig),
            "SPARK_HOME": str(home),
            # Only for the URL that the operator gives to spark-submit, which the stand-in does not use.
            "KUBERNETES_SERVICE_HOST": HOST,
            "KUBERNETES_SERVICE_PORT": "443",
        },
    )
