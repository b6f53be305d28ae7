"""The version of the TrainJob CRD in the cluster: a test may change it while no other test needs it."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.awaiting import until
from tests.cluster import operators

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl

NAME: Final = "trainjobs.trainer.kubeflow.org"


@contextmanager
def unchanged(kubectl: Kubectl) -> Iterator[None]:
    """Prevent a change of the CRD while the block runs."""
    with _lock(kubectl, fcntl.LOCK_SH):
        yield


@contextmanager
def newer(kubectl: Kubectl) -> Iterator[None]:
    """Install the newer CRD while the block runs."""
    fetched = operators.fetch()
    with _lock(kubectl, fcntl.LOCK_EX):
        _install(kubectl, fetched.other_crds)
        try:
            yield
        finally:
            _install(kubectl, fetched.crds)


@contextmanager
def _lock(kubectl: Kubectl, operation: int) -> Iterator[None]:
    with kubectl.kubeconfig.with_name("train-job-crd.lock").open("w") as file:
        fcntl.flock(file, operation)  # closing the file releases it
        yield


def _install(kubectl: Kubectl, folder: Path) -> None:
    """Install a CRD; return when the API server uses it to prune objects."""
    replaced = kubectl.run("replace", f"--filename={folder / NAME}.json")
    assert replaced.returncode == 0, replaced.stderr
    has_patches = '"runtimePatches"' in (folder / f"{NAME}.json").read_text()
    path = "trainjob.spec.runtimePatches"
    until(lambda: (kubectl.run("explain", path).returncode == 0) is has_patches)
