"""The container engine for tests of the image: an installed one, or on Debian one from its packages."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests import debian

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BASE_IMAGE = "python:3.11-slim"  # as in the Dockerfile
PACKAGES = {"podman": "podman", "runc": "runc", "mmdebstrap": "mmdebstrap"}  # program: Debian package
# For root in a container or virtual machine that lacks CAP_SYS_RESOURCE, or mixes the two cgroup versions.
CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
netns = "host"
[engine]
runtime = "runc"
"""
# One timestamp for all files, and no cache: so equal parts of two builds are not copies of an earlier build.
PODMAN_BUILD = ("--timestamp=0", "--layers=false", "--format=docker")  # the OCI format has no health check
# By default podman's --read-only leaves more folders writable than the kubelet does.
PODMAN_RUN = ("--read-only-tmpfs=false",)
# Replaces BASE_IMAGE without a registry: Debian's Python of the same version, with pip and without bytecode.
STAND_IN = (
    "mmdebstrap",
    "--variant=minbase",
    "--include=python3,python3-pip,python3-venv,ca-certificates",
    """--customize-hook=find "$1/usr" -name __pycache__ -prune -exec rm -r {} +""",
    "bookworm",
)


class EngineError(Exception):
    """There is no container engine, or its command failed; the message has a remedy."""


@dataclass(frozen=True, slots=True)
class Engine:
    """docker or podman, whose command lines are equal for the commands here, and the base image."""

    program: str
    base_image: str
    build_options: tuple[str, ...] = ()
    run_options: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return run((self.program, *arguments), stdin=stdin, environment=self.environment)

    def output(self, *arguments: str) -> str:
        """Return the output of a command; raise EngineError with its error if it fails."""
        return succeed((self.program, *arguments), environment=self.environment)

    def build(self, tag: str, context: Path, *options: str) -> str:
        """Build the image and return its tag."""
        base = f"--build-arg=BASE_IMAGE={self.base_image}"
        self.output("build", *self.build_options, base, f"--tag={tag}", *options, str(context))
        return tag


def ready(folder: Path, say: Callable[[str], None]) -> Engine:
    """Return an engine with a base image; `folder` is for its configuration.

    In this order: a docker daemon that answers; for root on Debian, Debian's packages; an installed podman.
    """
    if shutil.which("docker") and run(("docker", "info")).returncode == 0:
        return Engine("docker", BASE_IMAGE)
    if debian.is_possible():
        return _debian(folder, say)
    if shutil.which("podman"):
        return Engine("podman", BASE_IMAGE, PODMAN_BUILD, PODMAN_RUN)
    raise EngineError("no container engine: start docker, install podman, or be root on Debian, where this installs it")


def _debian(folder: Path, say: Callable[[str], None]) -> Engine:
    try:
        debian.install(PACKAGES, say)
    except debian.InstallError as error:
        raise EngineError(str(error)) from None
    configuration = folder / "containers.conf"
    configuration.write_text(CONFIGURATION)
    recipe = hashlib.sha256(shlex.join(STAND_IN).encode()).hexdigest()[:16]
    engine = Engine(
        "podman",
        f"localhost/{BASE_IMAGE}-{recipe}",
        (*PODMAN_BUILD, "--pull=never"),
        PODMAN_RUN,
        {**os.environ, "CONTAINERS_CONF": str(configuration)},
    )
    if engine.run("image", "exists", engine.base_image).returncode:
        say(f"make {engine.base_image}, which stands in for {BASE_IMAGE}")
        archive = folder / "base.tar"
        succeed((*STAND_IN, str(archive)))
        engine.output("import", str(archive), engine.base_image)
        archive.unlink()
    return engine


def run(
    command: tuple[str, ...], *, stdin: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)


def succeed(command: tuple[str, ...], *, environment: Mapping[str, str] | None = None) -> str:
    """Return the output of a command; raise EngineError with its last lines if it fails."""
    done = run(command, environment=environment)
    if done.returncode:
        raise EngineError(f"{shlex.join(command)} failed:\n{(done.stdout + done.stderr)[-5000:]}")
    return done.stdout
