"""Build the kubectl plugin as one file: Python, the packages and their C parts, with PyInstaller.

Needs an environment with the packages of requirements/one-file.txt. The file runs on the system on which it was built,
with the C library of that system or a newer one.
"""

import importlib.util
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAME: Final = "kubectl-retry_policy"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
# The program is called by one of its names, as links to the one file: see entry.py.
ENTRY: Final = Path(__file__).with_name("entry.py")
SERVER: Final = ("prometheus_client", "structlog", "uvloop", "webhook.serving.app")
# The folders of the official client with a module for each API and each type of it. Nothing here imports these modules;
# they are five sixths of its modules.
GENERATED: Final = ("client/api", "client/models", "aio/client/api", "aio/client/models")


def build(root: Path, folder: Path) -> Path:
    """Build the file, and write it and the licence into an archive in `folder`; return the archive."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", "PyInstaller", *options(root, Path(work))], cwd=root, check=True)
        archive = folder / f"{NAME}-{sys.platform}-{ARCHITECTURES[platform.machine()]}.tar.gz"
        with tarfile.open(archive, "w:gz") as opened:
            opened.add(Path(work) / "dist" / NAME, NAME)
            opened.add(root / "LICENSE", "LICENSE")
    return archive


def options(root: Path, work: Path) -> list[str]:
    """Return the options of PyInstaller."""
    folders = {"distpath": work / "dist", "workpath": work / "build", "specpath": work, "paths": root}
    return [
        "--onefile",
        "--noconfirm",
        "--log-level=WARN",
        f"--name={NAME}",
        "--collect-submodules=webhook.cli",  # a command is imported by its name, when it is called
        "--collect-submodules=webhook.systems",  # the parts of each system likewise
        "--collect-data=webhook.policy",  # the packaged policy
        "--collect-data=webhook.insight.page",  # the page of a report
        *(f"--exclude-module={one}" for one in (*SERVER, *generated())),
        *(f"--{name}={folder}" for name, folder in folders.items()),
        str(ENTRY),
    ]


def generated() -> Iterator[str]:
    """Yield the names of the modules in the folders GENERATED."""
    package = importlib.util.find_spec("kubernetes")
    if package is None or package.origin is None:
        raise ValueError("the packages of requirements/one-file.txt are not installed; install them, or: make plugin")
    for folder in GENERATED:
        name = f"kubernetes.{folder.replace('/', '.')}"
        yield from (f"{name}.{file.stem}" for file in (Path(package.origin).parent / folder).glob("[!_]*.py"))
