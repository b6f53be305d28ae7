"""prometheus and promtool: installed ones, or those of Debian's package, which is unpacked into the cache.

The package is not installed: it would start a server that listens on all addresses of the machine.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.cluster import toolchain
from tests.cluster.processes import HarnessError

PACKAGE = "prometheus"  # of Debian and Ubuntu; has promtool too
REMEDY = "Install Prometheus 2.42 or newer, so that prometheus and promtool are on PATH"


def find(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`; raise HarnessError with a remedy."""
    if installed := shutil.which(name):
        return Path(installed)
    unpacked = toolchain.cache() / PACKAGE
    if not unpacked.exists():
        unpack(unpacked)
    return unpacked / "usr" / "bin" / name


def unpack(target: Path) -> None:
    """Download Debian's package, and unpack it into a folder; first read the lists of packages if that is needed."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise HarnessError(f"no prometheus: {REMEDY}")
    with toolchain.only_one(), tempfile.TemporaryDirectory(dir=toolchain.cache()) as name:
        folder = Path(name)
        download = ("apt-get", "download", PACKAGE)
        if subprocess.run(download, cwd=folder, capture_output=True, check=False).returncode:
            toolchain.run("apt-get update", ("apt-get", "update"), remedy=REMEDY)
            toolchain.run("download prometheus", download, remedy=REMEDY, folder=folder)
        (archive,) = folder.glob("*.deb")
        unpacked = folder / PACKAGE
        toolchain.run("unpack prometheus", ("dpkg-deb", "--extract", archive, unpacked), remedy=REMEDY)
        if not target.exists():
            unpacked.rename(target)
