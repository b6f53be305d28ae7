"""Runs the tutorials' commands as a reader does.

A page's console blocks are for the second terminal. In the first one a new control plane runs, started as by `make
cluster`: where nodes are simulated, and for the story of a day where they are real.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "tutorial" / "preempted-twice.md"
STORY: Final = ROOT / "docs" / "tutorial" / "a-day.md"
REAL: Final = "--real-nodes-where-possible"
BLOCK: Final = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
COMMAND: Final = re.compile(r"^\$ (.*)\n", re.MULTILINE)


def run(page: Path, *options: str) -> str:
    """Return the text of a page with what its commands print in a new cluster."""
    with cluster(*options) as exports:
        return BLOCK.sub(lambda block: with_outputs(block[0], exports), page.read_text())


def with_outputs(block: str, exports: str) -> str:
    return "".join(f"$ {command}\n{output(command, exports)}" for command in COMMAND.findall(block))


@contextmanager
def cluster(*options: str) -> Iterator[str]:
    """Run what `make cluster` runs; yield the export lines that it prints for the second terminal."""
    command = (sys.executable, "-m", "tests.cluster", *options)
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            exports = []
            for line in process.stdout:
                exports += [line.strip()] * line.strip().startswith("export ")
                if line.startswith("Logs: "):
                    break
            yield "\n".join(exports)
        finally:
            process.terminate()


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of the second terminal, and the output that the page shows."""
    for block in BLOCK.findall(text):
        _, *parts = COMMAND.split(block)
        yield from zip(parts[::2], parts[1::2], strict=True)


def output(command: str, exports: str) -> str:
    """Return the output of a command, with stdout and stderr mixed as in a terminal."""
    script = f"exec 2>&1\n{exports}\n{command}"
    return subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False).stdout
