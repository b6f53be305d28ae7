"""Programs that run beside the tests: they are started, checked, logged, and always ended."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tests.awaiting import LONGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h
POLL_SECONDS = 0.05
LINE_LENGTH = 1000  # KWOK prints whole buffers into an error


class HarnessError(Exception):
    """The test cluster could not be built or started; the message has a remedy or the end of a log."""


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent dies, even by SIGKILL; called between fork and exec.

    Only Linux can do this; on other systems the function has no effect.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Processes:
    """The running programs, oldest first, and the folder with one log file `NAME.log` for each."""

    logs: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    starts: dict[str, Callable[[], None]] = field(default_factory=dict)  # by name: starts the program again

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        stdout: Path | None = None,
    ) -> None:
        """Start a program; its stdout goes to the file `stdout` if given, and all other output to the log."""
        self.starts[name] = partial(self.start, name, command, env=env, stdout=stdout)
        log = self.log(name)
        with log.open("ab") as errors, (stdout or log).open("ab") as output:
            self.running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=env,
                # In its own process group: Ctrl-C then reaches only the runner, which stops the programs in order.
                process_group=0,
                preexec_fn=die_with_parent,  # noqa: PLW1509  # the runner has one thread, so forking is safe
            )

    def stop(self) -> None:
        """Kill all programs, the newest first: an API server without etcd hangs for minutes and keeps its port.

        They need not end in an orderly way, because their data is deleted.
        """
        while self.running:
            _, process = self.running.popitem()
            process.kill()
            process.wait()

    def has_ended(self, name: str) -> bool:
        """Return True if a program has ended by itself."""
        return self.running[name].poll() is not None

    def check(self, *, but: Collection[str] = ()) -> None:
        """Raise HarnessError with the end of its log if a program has ended by itself, except the programs `but`."""
        for name, process in self.running.items():
            if name not in but and process.poll() is not None:
                raise HarnessError(f"{name} ended with exit code {process.returncode}\n{self.tail(name)}")

    def wait_until(self, condition: Callable[[], object], what: str, *, log: str) -> None:
        """Wait for a condition; raise HarnessError with the end of this log if it takes too long or a program ends."""
        deadline = time.monotonic() + LONGEST
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise HarnessError(f"waited {LONGEST:g} s for {what}\n{self.tail(log)}")
            time.sleep(POLL_SECONDS)

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def tail(self, name: str, lines: int = 40) -> str:
        """Return the last lines of a program's log under a heading."""
        return f"--- the last lines of {name}.log\n{last_lines(self.log(name), lines)}"


def last_lines(log: Path, number: int, words: Iterable[str] = ()) -> str:
    """Return the last lines of a log, or with `words` of the lines that contain one of them; long lines are cut."""
    lines = log.read_text(errors="replace").splitlines()
    chosen = [line for line in lines if any(word in line for word in words)] if words else lines
    return "\n".join(line[:LINE_LENGTH] for line in chosen[-number:])
