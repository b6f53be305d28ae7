"""Helm, a cluster for the whole run that is cleared for each test, and the table of what came of admissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chart.cluster import Cluster, new_cluster
from tests.chart.helm import Helm
from tests.cluster import binaries
from tests.cluster.kubectl import Kubectl
from tests.faults.conftest import TABLE, pytest_terminal_summary

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["pytest_terminal_summary"]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster."""
    return Helm(binaries.build([binaries.HELM])["helm"], tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Kubectl without a cluster, for its kustomize."""
    (program,) = (binary for binary in binaries.own_cluster() if binary.name == "kubectl")
    return Kubectl(binaries.build([program])["kubectl"], tmp_path_factory.mktemp("kubectl") / "kubeconfig")


@pytest.fixture(scope="session")
def whole_run(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    with new_cluster() as cluster:
        pytestconfig.stash[TABLE] = cluster.table
        yield cluster


@pytest.fixture
def cluster(whole_run: Cluster) -> Iterator[Cluster]:
    """A cluster in which nothing is installed."""
    yield whole_run
    whole_run.clear()
