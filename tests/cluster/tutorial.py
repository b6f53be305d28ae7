"""Runs the tutorials' commands as a reader does, and compares what they print with the pages.

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
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "tutorial" / "preempted-twice.md"
STORY: Final = ROOT / "docs" / "tutorial" / "a-day.md"
REAL: Final = "--real-nodes-where-possible"
BLOCK: Final = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
COMMAND: Final = re.compile(r"^\$ (.*)\n", re.MULTILINE)
# What differs from one reader to the next.
DIFFERS: Final = (
    (r"^[IWE]\d{4} [\d:.]+ .*\n", ""),  # kubectl's own log: a watch that ended and goes on
    (r"\b(train|nightly|load)-[a-z0-9]{5}\b", r"\1-POD"),
    (r"\b(spot|on-demand)-\d\b", r"\1-N"),
    (r"\b(job-(train|nightly|load))-[0-9a-f]{16}\b", r"\1-HASH"),
    (r"\d{4}-\d\d-\d\dT[\d:]+(Z|\+00:00)", "TIME"),
    (r"\b(\d+m)?\d+ ?s\b", "DURATION"),
    (r"\b(kwok|v1\.\d+\.\d+)$", "VERSION"),
    (r"\b\d+\.\d+\b|\b\d+ %", "AMOUNT"),
    (r" +", " "),
)


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


def assert_it_prints_what_the_page_shows(
    page: Path, exports: str, alike: Callable[[list[str]], object] = sorted
) -> None:
    """Fail unless `alike` makes the same of the lines that are shown and printed, which are in any order by default."""
    for command, shown in steps(page.read_text()):
        printed = output(command, exports)
        lines, expected = (alike(without_differences(text)) for text in (printed, shown))
        assert lines == expected, f"{command}\n{printed}"


def without_differences(text: str) -> list[str]:
    """Return the lines of an output, without what differs."""
    for pattern, name in DIFFERS:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return [line.strip() for line in text.splitlines()]


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of the second terminal, and the output that the page shows."""
    for block in BLOCK.findall(text):
        _, *parts = COMMAND.split(block)
        yield from zip(parts[::2], parts[1::2], strict=True)


def output(command: str, exports: str) -> str:
    """Return the output of a command, with stdout and stderr mixed as in a terminal."""
    script = f"exec 2>&1\n{exports}\n{command}"
    return subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False).stdout
