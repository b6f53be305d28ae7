"""Helm as a typed call; its caches and settings are in a folder of the test."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.installation import SYSTEM
from tests.cluster.kubectl import Result
from tests.documents import documents_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.kubectl import Object

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "retry-policy-webhook"
RELEASE = "retry-policy-webhook"


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm, a folder for its files, and the cluster that it acts on."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        folders = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        kubeconfig = {} if self.kubeconfig is None else {"KUBECONFIG": str(self.kubeconfig)}
        return {**os.environ, **folders, **kubeconfig}

    def command(self, *arguments: str) -> list[str]:
        """Return a command line for the release's namespace."""
        return [str(self.program), f"--namespace={SYSTEM}", *arguments]

    def run(self, *arguments: str, values: Object | None = None) -> Result:
        """Run a command, and accept any exit code."""
        command = self.command(*arguments, *(() if values is None else ("--values=-",)))
        answer = subprocess.run(
            command, input=json.dumps(values), env=self.environment, capture_output=True, text=True, check=False
        )
        return Result(answer.returncode, answer.stdout, answer.stderr)

    def template(self, *arguments: str, values: Object | None = None, chart: Path = CHART) -> Result:
        """Render a chart without a cluster, for the oldest version of Kubernetes that it accepts."""
        return self.run("template", RELEASE, str(chart), "--kube-version=1.30", *arguments, values=values)

    def rendered(self, values: Object | None = None, *arguments: str) -> list[Object]:
        """Return the objects of the chart with these values, without the hooks of an uninstall."""
        result = self.template("--no-hooks", *arguments, values=values or {})
        assert result.returncode == 0, result.stderr
        return [one for one in documents_of(result.stdout) if one is not None]
