"""The programs of the test cluster, which are built from pinned Go modules (tools/) into the cache.

`KUBERNETES_VERSION` selects the control plane: 1.36 (default), 1.34 or 1.37.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import toolchain
from tests.cluster.processes import HarnessError

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOLS = Path(__file__).parent / "tools"
DEFAULT_VERSION = "1.36"


@dataclass(frozen=True, slots=True)
class Binary:
    """One program: its name, the folder below tools/ whose go.mod pins it, and its Go package, `./…` in that folder.

    `of_tests`: it runs the package's tests.
    """

    name: str
    tool: str
    package: str
    of_tests: bool = False

    @property
    def linker_flags(self) -> str:
        """Flags that omit debug information, and set the version of Kubernetes, which its clients need."""
        module = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", self.go_mod)
        if module is None:
            return "-s -w"
        stamps = zip(("gitVersion", "gitMajor", "gitMinor"), module.groups(), strict=True)
        return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps)])

    @property
    def folder(self) -> Path:
        """The folder of its Go module."""
        return TOOLS / self.tool

    @property
    def go_mod(self) -> str:
        return (self.folder / "go.mod").read_text()

    @property
    def go_version(self) -> tuple[int, ...]:
        """The oldest Go that builds it."""
        return toolchain.version(r"^go ([\d.]+)$", self.go_mod)

    @property
    def path(self) -> Path:
        """The path of the built program: the folder's name is a hash of all its sources."""
        target = f"{sys.platform}/{platform.machine()}"
        go_sum = (self.folder / "go.sum").read_text()
        sources = [*self.folder.glob("*.go"), *(self.folder / self.package).glob("*.go")]
        own = [file.read_text() for file in sorted(sources)]
        name = f"{self.tool}-{toolchain.digest(self.go_mod, go_sum, *own, self.linker_flags, target)}"
        return toolchain.cache() / name / self.name


ETCD = Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3")
CONTAINERD = [
    Binary(name, "containerd", f"github.com/containerd/containerd/v2/cmd/{name}")
    for name in ("containerd", "containerd-shim-runc-v2", "ctr")
]
KWOK = Binary("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok")
JOB_SET = Binary("jobset", "jobset", "sigs.k8s.io/jobset")
TEKTON = Binary("tekton", "tekton", "retry-policy.dev/tests/tekton")
HELM = Binary("helm", "helm", "helm.sh/helm/v3/cmd/helm")
KUEUE = Binary("kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue")
AGNHOST = Binary("agnhost", "e2e-1.36", "k8s.io/kubernetes/test/images/agnhost")
FASTER_CONTROLLER_MANAGER = Binary("faster-controller-manager", "kubernetes-1.36", "./faster-controller-manager")


def own_cluster() -> list[Binary]:
    """Return the programs of a complete control plane, the largest first: the others reuse its compiled packages."""
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    return [*(_kubernetes(name) for name in names), ETCD, KWOK]


def real_nodes() -> list[Binary]:
    """Return the programs of nodes that run containers, and Helm, which installs the chart there."""
    return [*(_kubernetes(name) for name in ("kubelet", "kube-proxy")), *CONTAINERD, HELM]


def upstream_suites() -> tuple[Binary, ...]:
    """Return the programs of the end-to-end tests of Kubernetes, those of workloads, of JobSet, and of Kueue: two."""
    return (
        Binary("e2e.test", f"e2e-{kubernetes_version()}", ".", of_tests=True),
        Binary("jobset.test", "e2e-jobset", "sigs.k8s.io/jobset/test/e2e", of_tests=True),
        *(
            Binary(f"kueue-{part}.test", "e2e-kueue", f"sigs.k8s.io/kueue/test/e2e/singlecluster/{part}", of_tests=True)
            for part in ("baseline", "extended")
        ),
    )


def foreign_cluster() -> list[Binary]:
    """Return the programs that are needed with an existing cluster."""
    return [_kubernetes("kubectl"), KWOK]


def kubernetes_version() -> str:
    """Return the version of the control plane."""
    return os.environ.get("KUBERNETES_VERSION") or DEFAULT_VERSION


def _kubernetes(name: str) -> Binary:
    version = kubernetes_version()
    tool = f"kubernetes-{version}"
    if not (TOOLS / tool).is_dir():
        known = ", ".join(sorted(path.name.partition("-")[2] for path in TOOLS.glob("kubernetes-*")))
        raise HarnessError(f"KUBERNETES_VERSION={version} is not known here; known: {known}")
    return Binary(name, tool, f"k8s.io/kubernetes/cmd/{name}")


def build(binaries: Sequence[Binary]) -> dict[str, Path]:
    """Build the programs that are not in the cache, with progress on stderr; return each program's path by name."""
    if any(not binary.path.exists() for binary in binaries):
        with toolchain.only_one():
            missing = [binary for binary in binaries if not binary.path.exists()]
            go = toolchain.go(max(binary.go_version for binary in missing)) if missing else Path()
            for binary in missing:
                _build(go, binary)
    return {binary.name: binary.path for binary in binaries}


def _build(go: Path, binary: Binary) -> None:
    binary.path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = binary.path.with_name(f".{binary.name}")
    command = ["test", "-c", "-vet=off"] if binary.of_tests else ["build"]
    # Go does not delete its work when it is interrupted: hundreds of megabytes.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        toolchain.run(
            f"build {binary.name} ({binary.tool})",
            [go, *command, "-ldflags", binary.linker_flags, "-o", unfinished, binary.package],
            folder=binary.folder,
            environment={
                **os.environ,
                **toolchain.SETTINGS,
                "CGO_ENABLED": "0",
                "GOFLAGS": "-mod=readonly",
                "GOTMPDIR": work,
            },
        )
    unfinished.rename(binary.path)
