"""Shared by the commands: exit codes, safe printing of a line, the default kubeconfig."""

import os
from pathlib import Path
from typing import Final

PROBLEMS: Final = 1
UNUSABLE: Final = 2
LONGEST_LINE: Final = 4096  # characters of a message
DEFAULT_KUBECONFIG: Final = "~/.kube/config"


def printable(line: str) -> str:
    """Return a line with unprintable characters escaped, and without its middle if it is too long.

    Keys of a document can be any text: line ends and terminal control sequences among them.
    """
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} … {line[-LONGEST_LINE // 2 :]}"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in line)


def kubeconfig_or_default(kubeconfig: str | None) -> str:
    """Return `kubeconfig`, or else the path that kubectl uses by default."""
    return kubeconfig or os.environ.get("KUBECONFIG") or str(Path(DEFAULT_KUBECONFIG).expanduser())
