"""The release that the harness has installed, a load, and the table of what came of admissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import binaries
from tests.cluster.conftest import new_namespace
from tests.cluster.helm import Helm
from tests.cluster.processes import Processes
from tests.faults.conftest import TABLE, pytest_terminal_summary
from tests.faults.direct import Address, Direct
from tests.faults.program import Program
from tests.real_nodes.release.release import Release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.namespace import Api

__all__ = ["pytest_terminal_summary"]


@pytest.fixture(scope="session")
def release(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, kubectl: Kubectl, api: Api
) -> Iterator[Release]:
    folder = tmp_path_factory.mktemp("release")
    helm = Helm(binaries.build([binaries.HELM])["helm"], folder, kubectl.kubeconfig)
    team = new_namespace("under load", {}, kubectl, api)
    processes = Processes(folder)
    try:
        load = Program.start(processes, "load", str(kubectl.kubeconfig), team.name)
        found = Release(helm, kubectl, Direct(Address.of(kubectl.kubeconfig)), team, load)
        pytestconfig.stash[TABLE] = found.table
        yield found
        load.close()
    finally:
        processes.stop()
