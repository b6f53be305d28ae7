"""The cluster on which a target of the Makefile acts."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("target", ["cluster", "test-cluster"])
def test_a_cluster_is_used_only_if_the_command_line_names_its_kubeconfig(target: str) -> None:
    exported = {**os.environ, "KUBECONFIG": "/exported"}
    for arguments, named in ((["KUBECONFIG=/named"], True), (["-e"], False), ([], False)):
        command = ["make", "--dry-run", target, *arguments]
        printed = subprocess.run(command, cwd=ROOT, env=exported, capture_output=True, text=True, check=True).stdout
        assert ("--kubeconfig=/named" in printed) is named
        assert "/exported" not in printed
