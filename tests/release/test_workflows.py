"""GitHub's workflows cannot run here: actionlint checks their syntax, expressions, inputs and runners."""

from __future__ import annotations

import subprocess

from tests.cluster import binaries
from tests.cluster.binaries import Binary
from tests.release.environments import ROOT

ACTIONLINT = Binary("actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint")


def test_the_workflows_have_no_error() -> None:
    program = binaries.build([ACTIONLINT])["actionlint"]
    # Without programs that a machine may have or not: the result is the same everywhere.
    command = (program, "-no-color", "-shellcheck=", "-pyflakes=")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
