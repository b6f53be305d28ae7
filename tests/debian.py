"""Installs Debian packages of programs that are missing, as root on Debian."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class InstallError(Exception):
    """A package could not be installed; the message has a remedy, or the end of apt-get's output."""


def is_possible() -> bool:
    """Return True if this is Debian, and this process may install packages."""
    with contextlib.suppress(OSError):  # not Linux
        return os.geteuid() == 0 and platform.freedesktop_os_release()["ID"] == "debian"
    return False


def install(
    packages: Mapping[str, str], say: Callable[[str], object] = lambda text: sys.stderr.write(f"{text}\n")
) -> None:
    """Install the packages of which a file is missing; `packages`: by the name of a program, or a path."""
    absent = [name for name in packages if not (shutil.which(name) or Path(name).is_file())]
    missing = sorted({packages[name] for name in absent})
    if not missing:
        return
    command = f"apt-get install {' '.join(missing)}"
    if not is_possible():
        raise InstallError(f"missing: {' '.join(missing)}; on Debian, as root: {command}")
    say(command)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", *words], capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            raise InstallError(f"apt-get {shlex.join(words)} failed:\n{(done.stdout + done.stderr)[-5000:]}")
