"""Environments of Python with only what a user would install."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.awaiting import LONGEST

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment, and what runs in it."""

    folder: Path

    @classmethod
    def create(cls, folder: Path, *options: str) -> Environment:
        """Create an environment, and install what the options of `uv pip install` name."""
        created = cls(folder)
        succeed(str(UV), "venv", "--quiet", "--python", sys.executable, str(folder))
        succeed(str(UV), "pip", "install", "--quiet", "--python", created.program("python"), *options)
        return created

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, in an empty folder: nothing is imported from the checkout."""
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        command = (self.program(name), *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=empty, timeout=LONGEST)

    def packages(self) -> set[str]:
        """Return the names of the installed packages."""
        lines = succeed(str(UV), "pip", "freeze", "--python", self.program("python")).splitlines()
        return {line.replace(" @ ", "==").partition("==")[0].replace("_", "-").lower() for line in lines}


def succeed(*command: str) -> str:
    """Return the output of a command; fail with what it says if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
