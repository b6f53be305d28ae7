"""What the commands have in common: exit codes, lines that are safe to print, the kubeconfig that kubectl takes."""

import os
from pathlib import Path
from typing import Final

PROBLEMS: Final = 1
UNUSABLE: Final = 2
LONGEST_LINE: Final = 4096  # characters of a message
DEFAULT_KUBECONFIG: Final = "~/.kube/config"


def printable(line: str) -> str:
    """Escape what would break the line or steer a terminal, and cut the middle of a long one: keys may be anything."""
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} … {line[-LONGEST_LINE // 2 :]}"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in line)


def kubeconfig_or_default(kubeconfig: str | None) -> str:
    """Return the kubeconfig that kubectl would take."""
    return kubeconfig or os.environ.get("KUBECONFIG") or str(Path(DEFAULT_KUBECONFIG).expanduser())
