"""Helm and kubectl without a cluster."""

from __future__ import annotations

import pytest

from tests.cluster import binaries
from tests.cluster.helm import Helm
from tests.cluster.kubectl import Kubectl


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(binaries.build([binaries.HELM])["helm"], tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """kubectl for its kustomize."""
    (program,) = (binary for binary in binaries.own_cluster() if binary.name == "kubectl")
    return Kubectl(binaries.build([program])["kubectl"], tmp_path_factory.mktemp("kubectl") / "kubeconfig")
