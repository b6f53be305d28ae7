"""Images without a registry: docker archives, each of one layer, made of Debian's static busybox and bash."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BUSYBOX: Final = Path("/bin/busybox")
STATIC_BASH: Final = Path("/bin/bash-static")
SHELL: Final = "docker.io/library/busybox:1"
PAUSE: Final = "registry.k8s.io/pause:3.10.1"
# What the suites of tests/upstream call them.
BASH: Final = "docker.io/library/bash:latest"
UPSTREAM_SHELLS: Final = tuple(f"registry.k8s.io/e2e-test-images/busybox:{tag}" for tag in ("1.37.0-1", "1.37.0-2"))
UPSTREAM_PAUSE: Final = "registry.k8s.io/pause:3.10.2"
AGNHOST: Final = "registry.k8s.io/e2e-test-images/agnhost:built"
CURL: Final = '#!/bin/sh\nexec wget -q -O - "$1"\n'  # Kueue's tests call it in containers of AGNHOST
ACCOUNTS: Final = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"}
FOR_EVER: Final = "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait; done"


def make(folder: Path, agnhost: Path | None) -> list[Path]:
    """Write the archives of SHELL and PAUSE, and of AGNHOST if there is one, into a folder; return the files."""
    shells = layer({"bin/busybox": BUSYBOX, "bin/bash": STATIC_BASH}, {})
    made = [
        archive(folder / "shell.tar", (SHELL, BASH, *UPSTREAM_SHELLS), shells, ["/bin/sh"]),
        archive(folder / "pause.tar", (PAUSE, UPSTREAM_PAUSE), shells, ["/bin/sh", "-c", FOR_EVER]),
    ]
    if agnhost is not None:
        with_curl = layer({"bin/busybox": BUSYBOX, "agnhost": agnhost}, {"bin/curl": CURL})
        made.append(archive(folder / "agnhost.tar", (AGNHOST,), with_curl, ["/agnhost"]))
    return made


def layer(programs: Mapping[str, Path], scripts: Mapping[str, str]) -> bytes:
    """Return a layer with these by their paths, a link for each of busybox's commands, and what a shell expects."""
    applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, mode in (("bin", 0o755), ("etc", 0o755), ("root", 0o700), ("tmp", 0o1777)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for file, program in programs.items():
            tar.add(program, file)
        for applet in applets:
            if applet != BUSYBOX.name:
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, BUSYBOX.name
                tar.addfile(entry)
        for file, text in {**ACCOUNTS, **scripts}.items():
            entry = tarfile.TarInfo(file)
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def archive(file: Path, names: Sequence[str], layer: bytes, command: list[str]) -> Path:
    """Write an image with one layer and these names; return its file."""
    configuration = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": command, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(file, "w") as tar:
        for part, content in (("config.json", configuration), ("layer.tar", layer), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(part)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return file
