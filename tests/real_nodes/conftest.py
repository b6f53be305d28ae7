"""Fixtures on top of a cluster with real nodes; `python -m tests.cluster --real-nodes -- pytest tests/real_nodes`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cluster.conftest import api, kubectl, namespace, pytest_runtest_makereport

__all__ = ["api", "kubectl", "namespace", "programs", "pytest_runtest_makereport"]

NODES = os.environ.get("RETRY_POLICY_TEST_NODES")


@pytest.fixture(scope="session")
def programs() -> dict[str, dict[str, int]]:
    """The process ids of each node's programs, by the names of node and program."""
    if not NODES:
        pytest.fail("these nodes run no containers; run: make test-real", pytrace=False)
    found: dict[str, dict[str, int]] = json.loads(Path(NODES).read_text())
    return found
