"""A program that runs beside the test, executes its commands, and answers them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from tests.cluster.processes import HarnessError, Processes, die_with_parent

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Program:
    """A module of `tests.faults` that executes commands (lines.py)."""

    name: str
    processes: Processes
    stdin: IO[bytes]
    stdout: IO[bytes]

    @classmethod
    def start(cls, processes: Processes, name: str, *arguments: str | int) -> Program:
        """Start `python -m tests.faults.NAME`; it is stopped with all other processes."""
        command: Sequence[str] = (sys.executable, "-m", f"tests.faults.{name}", *map(str, arguments))
        with processes.log(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,
                preexec_fn=die_with_parent,  # noqa: PLW1509  # the runner has one thread, so forking is safe
            )
        processes.running[name] = process
        assert process.stdin is not None
        assert process.stdout is not None
        return cls(name, processes, process.stdin, process.stdout)

    def ask(self, command: str, *arguments: Any) -> Any:
        """Send a command and return the answer; raise HarnessError with the program's log if there is none."""
        try:
            self.stdin.write(json.dumps([command, *arguments]).encode() + b"\n")
            self.stdin.flush()
            line = self.stdout.readline()
        except OSError:
            line = b""
        if not line:
            raise HarnessError(f"{self.name} did not answer {command}\n{self.processes.tail(self.name)}")
        return json.loads(line)

    def close(self) -> None:
        """Let the program end."""
        self.stdin.close()
        self.processes.running.pop(self.name).wait()
        self.stdout.close()
