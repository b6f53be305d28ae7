"""The version before this one, from the history of this repository.

There is no release yet, so a commit stands for it: COMMIT, one that knows all fields of the sample policies, and
judges and places as now. From the first release on it is the commit of its tag. The runtime dependencies of that
commit are those of now, so both versions run with the same packages.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from tests.cluster.processes import HarnessError

ROOT = Path(__file__).parents[2]
COMMIT = "c8991fca79cdbd02ae78729b22e6811c39c17e7d"
FOLDERS = ("webhook", "certs", "manifests")


def unpack(folder: Path) -> Path:
    """Write FOLDERS of the last version into a new folder and return it; raise HarnessError if they are not there."""
    archive = folder.with_suffix(".tar")
    command = ["git", "archive", f"--output={archive}", COMMIT, *FOLDERS]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode:
        remedy = "The whole history is needed; run: git fetch --unshallow"
        raise HarnessError(f"The commit {COMMIT} cannot be read from {ROOT}. {remedy}\n{answer.stderr}")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder


def program(sources: Path) -> tuple[str, ...]:
    """Return the command line of `retry-policy` with the code in a folder; -P: and with none in the current folder."""
    code = f"import sys; sys.path.insert(0, {str(sources)!r}); from webhook.cli.main import main; main()"
    return (sys.executable, "-P", "-c", code)
