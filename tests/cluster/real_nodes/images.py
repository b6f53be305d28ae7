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
FOR_EVER: Final = "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait; done"


def make(folder: Path) -> list[Path]:
    """Write the archives of SHELL and PAUSE into a folder; return the files."""
    layer = busybox_layer()
    wanted: Mapping[tuple[str, ...], list[str]] = {
        (SHELL, BASH, *UPSTREAM_SHELLS): ["/bin/sh"],
        (PAUSE, UPSTREAM_PAUSE): ["/bin/sh", "-c", FOR_EVER],
    }
    return [
        archive(folder / f"image-{number}.tar", names, layer, command)
        for number, (names, command) in enumerate(wanted.items())
    ]


def busybox_layer() -> bytes:
    """Return a layer with bash and busybox, a link for each of its commands, and the folders that a shell expects."""
    applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, mode in (("bin", 0o755), ("etc", 0o755), ("root", 0o700), ("tmp", 0o1777)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        tar.add(BUSYBOX, "bin/busybox")
        tar.add(STATIC_BASH, "bin/bash")
        for applet in applets:
            if applet != BUSYBOX.name:
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, BUSYBOX.name
                tar.addfile(entry)
        for file, text in (("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("etc/group", "root:x:0:\n")):
            entry = tarfile.TarInfo(file)
            entry.size = len(text)
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
